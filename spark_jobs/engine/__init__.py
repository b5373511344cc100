"""Engine: one Spark job per layer, with units of work of all tables in its tasks; the driver commits each table.

From below: jobs/ runs given tasks, rows/ finds and projects rows, target/ writes a downstream table's files, silver/
compacts and replays, changes/ makes tables of every change, merge/ those with a row per key.

Put here: what goes into a task, what a task does, and what its commit has. Not here: the format of Delta's log
(delta/), what net changes are (silver/net_changes.py), or which tables have work (pipeline/).
"""
