"""Merges of silver into downstream tables: a row per key, copies of keyless rows, shards and shared keys.

Put here: how new rows of silver meet the target's. Not here: how its files are written (target/).
"""
