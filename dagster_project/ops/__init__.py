"""Ops of jobs that make no asset: loads and maintenance.

Put here: the steps and their forms. Not here: what they do (spark_jobs/pipeline, spark_jobs/operations).
"""
