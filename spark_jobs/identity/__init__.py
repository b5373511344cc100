"""The identity that a process has in a cloud: keys and tokens, found where the cloud's own programs find them.

Put here: which identity there is, what it lends, and for how long. Not here: who is shown it (storage/, source/login/).
"""
