"""The schema history: the definition of each table at each position of the log.

Put here: following statements, servers and dumps, and storing what they say. Not here: what one statement does (ddl/),
or what becomes of a table's rows (silver/).
"""
