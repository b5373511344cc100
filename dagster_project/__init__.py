"""Dagster's code location: jobs, sensors, schedules and resources.

Put here: how assets are run, and when. Not here: assets (assets), or the work (spark_jobs).
"""
