"""Events of the log: framing, and the layout of each kind but rows.

Put here: bytes of one event to values. Not here: ranges of events (slices/), row values (rows/, types/).
"""
