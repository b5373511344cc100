"""Ranges of events: slices for bronze, transactions, listings of a file.

Put here: where a range begins and ends, and what it holds. Not here: layouts of events (events/) or rows (rows/).
"""
