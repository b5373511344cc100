"""State of a source, its tables and its runs: status, metrics, HTML page, telemetry.

Put here: what reads and reports, without a JVM. Not here: what removes or rewrites (operations/retention/).
"""
