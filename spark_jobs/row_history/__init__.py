"""History of rows: changes of chosen rows with their author, and SQL that reverts them.

Put here: finding the changes of keys in the log, and what follows from them for people. Not here: the change feed
(changes/), or tables as they were (silver/, downstream/).
"""
