"""The bronze table: a source's log in the lake, as the server wrote it.

Put here: extracting, resuming, reading and scanning the log. Not here: row values (binlog/) or tables' contents
(silver/).
"""
