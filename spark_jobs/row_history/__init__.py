"""The life of rows: the changes of chosen rows with who made them, and SQL that takes changes back.

Put here: finding the changes of keys in the log, and what follows from them for people. Not here: the change feed
(changes/), or tables as they were (silver/, downstream/).
"""
