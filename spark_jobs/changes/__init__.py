"""The change feed: row changes as JSON lines and as a DataFrame.

Put here: decoding ranges of a log into change events. Not here: net changes per key (silver/).
"""
