"""Dagster's assets: what is stored in the lake, layer by layer.

Put here: assets, their keys, metadata and checks. Not here: jobs, sensors and schedules (dagster_project), or the work
(spark_jobs).
"""
