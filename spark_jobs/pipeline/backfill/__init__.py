"""A range of the log replayed from bronze: its windows in silver replaced by what the log says now.

Put here: all of a backfill. Not here: how bronze gets what it lacks of the log (restore.py), or who asks
(spark_jobs/cli, assets/backfill.py).
"""
