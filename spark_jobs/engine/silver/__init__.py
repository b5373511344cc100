"""Bronze to silver: plans, tasks and jobs of compactions, replays, folds and loads.

Put here: what writes silver. Not here: net changes themselves (spark_jobs/silver).
"""
