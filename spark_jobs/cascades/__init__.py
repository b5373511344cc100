"""What foreign keys do to child rows and a server does not log.

Put here: which changes of parents cascade. Not here: which foreign keys tables have (ddl/log_gaps.py), what a run does
about their child tables (pipeline/log_gaps.py).
"""
