"""Timeline of a table: its rows between the statements that change it, and what each of them changes.

Put here: what follows for one table from the scan of a range of its log, as immutable values. Not here: its steps
(table_timeline.py), reading statements (ddl/effects.py), carrying anything out (engine/silver/silver_plan.py).
"""
