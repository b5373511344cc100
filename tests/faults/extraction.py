"""Extraction without a server: parts of a generated log, and a run that commits those that bronze lacks.

Put here: what an extraction does to bronze. Not here: the log's changes (changes.py), or when it grows.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.config.model import Pipeline
from spark_jobs.delta import commits, data_files
from spark_jobs.delta.snapshot import new_table, snapshot_of
from spark_jobs.lake.commit import APPLICATION, CommitKind, new_batch
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position, file_number
from tests.binlogs.slicing import FILE, bronze_rows
from tests.faults.changes import SOURCE


def log_parts(content: bytes, ends: Sequence[int], numbers: Sequence[int]) -> list[pa.Table]:
    """Slices of a log, cut into parts.

    Args:
        content: the log, as one file.
        ends: where each part ends, at most: it ends with the last slice that ends there or before.
        numbers: of the file that each part is in. Offsets of a file continue those of the file before, so that an
            offset alone is a place in the log.
    """
    slices, parts, begin = bronze_rows(FILE, content, target=400), list[pa.Table](), 0
    stops = slices.column("stop").to_pylist()
    for end, number in zip(ends, numbers, strict=True):
        stop = bisect_left(stops, end + 1)
        rows = slices.slice(begin, stop - begin)
        begin = stop
        name = f"{FILE.rpartition('.')[0]}.{number:06}"
        for column, value in (("file", name), ("number", file_number(name))):
            at = rows.column_names.index(column)
            cells = pa.repeat(pa.scalar(value, rows.schema.field(at).type), len(rows))
            rows = rows.set_column(at, rows.schema.field(at), cells)
        parts.append(rows)
    return parts


def extract(pipeline: Pipeline, parts: Sequence[pa.Table]) -> None:
    """Commit the parts of the log that bronze lacks, a data file each. Raises LostRace, LakeError."""
    path = lake_of(pipeline).bronze(SOURCE).path
    snapshot = snapshot_of(path)
    known = BronzeCommit.from_json(snapshot.user_metadata) if snapshot else None
    upon = snapshot or new_table(path, bronze.COLUMNS, bronze.PROPERTIES)
    start = known.position if known else Position(FILE, 0, 1)
    lacking = [rows for rows in parts if len(rows) and (not known or rows.column("stop")[-1].as_py() > start.offset)]
    if not lacking:
        return
    schema = upon.schema.arrow(physical=False)
    files = [data_files.write(path, rows.cast(schema), upon.schema, {}, row_group_rows=3) for rows in lacking]
    last = lacking[-1].slice(len(lacking[-1]) - 1).to_pylist()[0]
    end = Position(last["file"], last["stop"], 1)
    commit = (
        replace(known, position=end, batch=new_batch(), kind=CommitKind.LIVE, start=start)
        if known
        else BronzeCommit(end, new_batch(), start=start, begin=start)
    )
    counter = upon.transactions.get(APPLICATION, 0) + 1
    commits.commit(upon, adds=files, transaction=(APPLICATION, counter), user_metadata=commit.to_json())
