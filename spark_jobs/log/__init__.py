"""Positions in a binary log: file and offset, GTID sets, and locations as users write them.

Put here: values that name a position in a log, without I/O. Not here: how a source finds one (source/seek.py).
"""
