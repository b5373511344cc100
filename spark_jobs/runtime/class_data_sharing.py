"""Class data sharing for Spark's JVM: ``python -m spark_jobs.runtime.class_data_sharing FILE``.

The JVM writes them as it ends (JDK 17, "Application Class-Data Sharing", ``-XX:ArchiveClassesAtExit``).

Put here: the work that has the classes loaded; what a run does with Spark and Delta, in little. Not here: where the
archive is kept and when it is made (provision.py), how a session takes it (spark_session.py).
"""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import deltalake
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.config.model import Spark
from spark_jobs.errors import StratalogError
from spark_jobs.runtime.spark_session import JAVA_OPTIONS, SILENT_CLASSES, own_session, spark_session


def exercise(spark: SparkSession, table: Path) -> int:
    """Rows through Arrow and Python, shuffled by a key, and those of a Delta table read. Returns how many there are."""
    for session in (spark, own_session(spark, {"spark.sql.codegen.wholeStage": "false"})):
        deltalake.write_deltalake(table, _sample_rows(session, range(8)).toArrow(), mode="append")
    return spark.read.format("delta").load(str(table)).groupBy("name").agg(F.max("id")).count()


def _sample_rows(spark: SparkSession, ids: range) -> DataFrame:
    rows = spark.range(ids.start, ids.stop).mapInArrow(_named, "id long, name string, at timestamp")
    newest = F.max_by(F.struct("name", "at"), "at").alias("newest")
    return rows.repartition(2, "id").groupBy("id").agg(newest).select("id", "newest.*")


def _named(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        ids = batch.column(0)
        at = pa.array([0] * len(ids), pa.timestamp("us", "UTC"))
        yield pa.RecordBatch.from_arrays([ids, ids.cast(pa.string()), at], names=["id", "name", "at"])


def main(archive: str) -> int:
    """Write the archive when the process's JVM ends. Returns the exit status."""
    options = f"{JAVA_OPTIONS} -XX:ArchiveClassesAtExit={archive} {SILENT_CLASSES}"
    conf = {"spark.driver.extraJavaOptions": options}
    try:
        with tempfile.TemporaryDirectory() as scratch:
            spark = spark_session(Spark(master="local[1]", conf=conf))
            exercise(spark, Path(scratch, "table"))
            spark.stop()
    except StratalogError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
