"""Erasure of the rows of some keys from all of the lake: ``stratalog forget``.

Put here: where values of rows are, and in which order they go. Not here: events without rows
(binlog/rows/erasure.py), or data files written again (engine/jobs/rewrite.py). Why it is done so:
docs/adr/0079-forget.md.
"""
