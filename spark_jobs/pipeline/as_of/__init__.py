"""Tables of a source as of a position of its log.

Put here: which state the lake still has before a position, what the log adds to it, reading and writing the result.
Not here: how locations become positions (bronze/seek.py), decoding and merging (engine/), or options (cli/at.py).
"""
