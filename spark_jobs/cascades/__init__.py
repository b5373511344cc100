"""Effects of foreign keys on child rows that a server does not log.

Put here: which changes of parents cascade, what they do to which rows, when values of keys are equal. Not here: which
foreign keys tables have (ddl/unlogged_changes.py), what a run does about their child tables
(pipeline/cascades/unlogged_changes.py).
"""
