"""Actions of an operator: retention, repair, forgetting by key, a source followed by one process, catalogs.

Put here: one module a verb; what is only read is in observation/. Not here: printing (cli/), Dagster (assets/).
"""
