"""Silver to downstream: a row per key, copies of rows without one, shards and shared keys; the job of all tables.

Put here: how new rows of silver meet the target's. Not here: how its files are written (target/).
"""
