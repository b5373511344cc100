"""State of a source, its tables and its runs: status, metrics, the page, and what other systems are told of a run.

Put here: what reads and reports, without a JVM. Not here: what removes or rewrites (operations/retention/).
"""
