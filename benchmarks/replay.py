"""A backfill of a small part of the log, by how many rows silver has beside it.

A run takes in a small described log; then silver gets windows as further runs would have appended them. What is done
again is the first window alone, once as it is and once after a row of it was lost.

Put here: what is measured. Not here: what a backfill does (spark_jobs/pipeline/backfill).
"""

from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks import folding
from benchmarks.progress_lines import print_progress
from benchmarks.usage import metered
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Range
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.pipeline.run import merge_source, publish, run_source


def measure(spark: SparkSession, folder: Path, rows: int) -> None:
    """Prints a table: rows of silver, and what the same backfill takes; of an eighth of the rows, and of all."""
    print("| rows of silver | windows replayed | rows that differ | backfill, s | processor, s |")
    print("| --- | --- | --- | --- | --- |", flush=True)
    for count in (rows // 8, rows):
        pipeline = folding.pipeline_of(folder / str(count))
        run_source(spark, pipeline, folding.SOURCE)
        lake = lake_of(pipeline)
        head = lake.bronze(folding.SOURCE).head()
        assert head is not None
        assert head.position is not None
        end = head.position
        print_progress(f"writing {folding.WINDOWS} windows, {count:,} rows")
        folding.append_windows(pipeline, count)
        folding.read_log(pipeline)
        publish(pipeline, folding.SOURCE, merge_source(spark, pipeline, folding.SOURCE))
        silver = lake.silver(folding.SOURCE, folding.NAME.schema, folding.NAME.table)
        log_range = Range(folding.begin_of(1), end)
        for is_damaged in (False, True):
            if is_damaged:
                spark.sql(f"UPDATE delta.`{silver.path}` SET a = a + 1 WHERE id = 0 AND _window_start.number = 1")
            print_progress("replaying")
            with metered() as usage:
                outcome = backfill_source(spark, pipeline, folding.SOURCE, log_range, lambda _: True)
            assert not outcome.stopped, outcome.stopped
            differs = sum(table.rows for table in outcome.compacted)
            print(
                f"| {silver.rows_written():,} | 1 | {differs} | {usage.seconds:.1f} | {usage.processor:.1f} |",
                flush=True,
            )
