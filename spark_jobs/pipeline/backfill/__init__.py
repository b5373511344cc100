"""Replay of a range of the log from bronze, which replaces its windows in silver.

Put here: all of a backfill. Not here: how bronze gets what it lacks of the log (restore.py), or who asks
(spark_jobs/cli, assets/backfill.py).
"""
