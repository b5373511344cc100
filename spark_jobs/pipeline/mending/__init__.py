"""Mending: rows of some keys read from the server, in place of those by the log: ``stratalog mend``.

Put here: what is read and compared, and the commit. Not here: which keys differ (checks/mending.py), or tables without
a key, which are loaded again (pipeline/initial_load/). Why it is done so: docs/adr/0069-mend.md.
"""
