"""Rows of some keys read from the server and put in the place of those that the log led to: ``stratalog mend``.

Put here: what is read and compared, and the commit. Not here: which keys differ (checks/mending.py), or tables without
a key, which are loaded again (pipeline/initial_load/). Why it is done so: docs/adr/0069-mend.md.
"""
