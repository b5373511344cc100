from spark_jobs.delta.log_files import SparkOnly


def apply(snapshot, steps):
    raise SparkOnly(f"{steps[0]}: by Spark SQL")
