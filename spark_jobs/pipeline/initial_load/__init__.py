"""The initial load: existing rows of tables that the log does not cover completely, read in key ranges without locks.

Put here: reading rows and joining them to the log. Not here: connections (source/) or the silver table (silver/).
"""
