"""MySQL's and MariaDB's DDL: statements classified, and what they do to columns, keys and names.

Put here: statements and table definitions as values, without I/O. Not here: asking a server for definitions (source/),
or the history of a table in the lake (schema/).
"""
