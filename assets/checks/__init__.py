"""Asset checks: what Dagster shows as passed or failed beside an asset.

Put here: definitions of checks. Not here: what they compare (spark_jobs/checks).
"""
