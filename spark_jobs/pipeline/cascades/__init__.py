"""Changes by foreign keys in a run: their child tables, what a run does about each, and the step that derives them.

Put here: what the lake and the configuration say of a child table. Not here: which rows a cascade changes
(spark_jobs/cascades/).
"""
