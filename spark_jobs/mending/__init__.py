"""Mending: rows of some keys read from the server, in place of those by the log: ``stratalog mend``.

Put here: which keys of a source differ, what is read and compared, and the commit. Not here: comparing tables
(checks/verify/), or loading those without a key again (pipeline/initial_load/). Reasons: docs/adr/0069-mend.md.
"""
