"""The demo on recorded binlogs, which come with the package: no server is needed.

Put here: the order of events, and reading the recording. Not here: how it is made (record.py).
"""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.demo.compare import DemoComparison, compare, lake_rows
from spark_jobs.demo.export_check import export_and_compare
from spark_jobs.demo.folder import SOURCE, DemoFolder
from spark_jobs.demo.progress import step
from spark_jobs.demo.report import DemoReport, command_name
from spark_jobs.demo.run_totals import RunTotals, run
from spark_jobs.demo.session import brief_session
from spark_jobs.demo.shop import SCHEMA
from spark_jobs.demo.warm import compile_decoder
from spark_jobs.lake.layout import lake_of
from spark_jobs.runtime.interrupt import interruptible
from spark_jobs.runtime.provision import delta_jars

LOGS = Path(__file__).parent / "recorded_logs"
"""Binlog files as a MySQL server wrote them, and in ``expected`` its rows as they were when it began the last file."""
EXPECTED = LOGS / "expected"
KEY = b"key"
"""Metadata of an expected table: JSON, the names of its key's columns."""


def recorded_files() -> list[Path]:
    """The recorded binlog files in order."""
    return sorted(LOGS.glob("mysql-bin.[0-9]*"))


def run_recorded(path: Path) -> DemoReport:
    """Run the demo in a folder, which it empties first of what an earlier one left.

    The last recorded file is laid aside, for the user to hand in. Raises ConfigError for a folder that is not a demo's,
    SourceError, DecodeError, LakeError.
    """
    # Downloads come first, so that they do not look like a slow demo.
    delta_jars()
    folder = DemoFolder(path)
    *files, last = recorded_files()
    with folder.afresh():
        folder.read_from_files(": a recording that comes with stratalog")
        pipeline = load(folder.config)
        with step("starting Spark"):
            spark = brief_session(pipeline)
            compile_decoder()
        # The last file waits in a folder beside, as a server's next file would.
        folder.next.mkdir()
        shutil.copyfile(last, folder.next / last.name)
        with interruptible():
            totals = _rounds(spark, pipeline, folder, files)
            with step("comparing every row with what the server had"):
                compared = compare_with_recording(pipeline)
            return _report(spark, pipeline, folder, totals, compared)


def _rounds(spark: SparkSession, pipeline: Pipeline, folder: DemoFolder, files: list[Path]) -> RunTotals:
    """A run over the first file, and one when the others have come."""
    totals = RunTotals()
    for number, arriving in enumerate((files[:1], files[1:]), 1):
        for file in arriving:
            shutil.copyfile(file, folder.binlogs / file.name)
        with step(f"run {number}: {', '.join(file.name for file in arriving)}"):
            run(spark, pipeline, totals)
    return totals


def compare_with_recording(pipeline: Pipeline) -> dict[TableName, DemoComparison]:
    """Every downstream table against the rows that the recorded server had."""
    comparisons = {}
    for file in sorted(EXPECTED.glob("*.parquet")):
        expected, key = _expected(file)
        downstream = lake_of(pipeline).downstream(SCHEMA, file.stem)
        actual = lake_rows(downstream, expected.schema)
        comparisons[TableName(SCHEMA, file.stem)] = compare(expected, actual, key)
    return comparisons


def _expected(file: Path) -> tuple[pa.Table, list[str]]:
    rows = pq.read_table(file)
    return rows, json.loads(rows.schema.metadata[KEY])


def _report(
    spark: SparkSession,
    pipeline: Pipeline,
    folder: DemoFolder,
    totals: RunTotals,
    compared: dict[TableName, DemoComparison],
) -> DemoReport:
    with step("exporting the log again"):
        exported = export_and_compare(spark, lake_of(pipeline), SOURCE, folder.binlogs, folder.exported)
    if not exported.unlike:
        shutil.rmtree(folder.exported)
    command = f"cp {folder.next}/* {folder.binlogs}/ && {command_name()} run -c {folder.config}"
    return DemoReport(
        story=f"Recorded binlogs of a MySQL server, read by {totals.runs} runs as they arrive.",
        reference="what the server had when it was recorded",
        folder=folder,
        totals=totals,
        compared=compared,
        log=exported,
        rates=False,
        hints=[("one more file", command)],
    )
