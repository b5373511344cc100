"""One Spark job a layer: units of work of all tables in its tasks, and a commit a table by the driver.

Put here: what goes into a task, what a task does, and which tables take this way. Not here: the format of Delta's log
(delta/), what net changes are (silver/net_changes.py), or which tables have work (pipeline/).
"""
