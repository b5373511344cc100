"""Actions and questions of an operator.

Status, report, gc, maintenance, folding, quarantine, reset, reading the stored log.

Put here: one module a verb. Not here: how verbs are printed (cli/) or what Dagster shows (assets/).
"""
