"""Delta's log format: snapshots, data files, deletion vectors, schema changes, commits, without Spark.

Put here: what is written in Delta's protocol. Not here: what the rows of a table mean, or when it is written (lake/).
Nothing here imports pyspark, so that tasks and the driver use the same code.
"""
