"""``apply: ordered``: every change of every transaction of the log, into another database, conflicts in their order.

Put here: reading the changes of a delivery's tables in the log's order, what of them conflicts, and the transactions
that write them. Not here: the net change of versions (table_delivery.py), or the text of statements (statements.py).
"""
