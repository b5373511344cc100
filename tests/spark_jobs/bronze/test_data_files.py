"""Which data files and row groups of bronze are read for a part of the log, and which of their rows count."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from spark_jobs.bronze.data_files import DataFiles
from spark_jobs.delta import commits, data_files, deletion_vectors
from spark_jobs.delta.snapshot import new_table
from spark_jobs.errors import LakeError
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from tests.binlogs.slicing import bronze_of, rows_at
from tests.spark_jobs.engine.lake_rows import newest

GROUP = 4


def part(start: int, stop: int) -> Range:
    return Range(Position("b.000001", start), Position("b.000001", stop))


def slices(start: int, count: int, kind: str = "rows") -> pa.Table:
    return rows_at([(at, kind, "t") for at in range(start, start + 10 * count, 10)])


@pytest.fixture
def bronze_files(tmp_path: Path) -> tuple[Table, int]:
    """Slices of 10 bytes from 0 to 100, from 200 to 300, and from 100 to 200, in row groups of four."""
    mixed = pa.concat_tables(
        [slices(100, 4, "statement"), slices(140, 6)]
    ).combine_chunks()  # the writer orders no batches
    return bronze_of(tmp_path / "bronze", [slices(0, 10), slices(200, 10), mixed], GROUP)


def starts(table: tuple[Table, int], within: Range | None, kind: str | None = None) -> list[list[int]]:
    """By file, in the order in which they are read, where the slices begin of the row groups that are read."""
    by_file: dict[int, list[int]] = {}
    for rows in DataFiles(*table).read(within, ["start", "kind"], kind):
        by_file.setdefault(rows.file, []).extend(rows.columns.column("start").to_pylist())
    return [*by_file.values()]


@pytest.mark.parametrize(
    "within, kind, expected",
    [
        (None, None, [range(0, 100, 10), range(100, 200, 10), range(200, 300, 10)]),
        (part(0, 300), None, [range(0, 100, 10), range(100, 200, 10), range(200, 300, 10)]),
        (part(100, 200), None, [range(100, 200, 10)]),
        (part(45, 46), None, [range(40, 80, 10)]),
        (part(35, 41), None, [range(0, 80, 10)]),
        (part(40, 80), None, [range(40, 80, 10)]),
        (part(95, 105), None, [range(80, 100, 10), range(100, 140, 10)]),
        (part(300, 400), None, []),
        (part(100, 200), "statement", [range(100, 140, 10)]),
        (None, "statement", [range(100, 140, 10)]),
        (None, "head", []),
    ],
)
def test_files_and_row_groups_that_may_hold_a_part(
    bronze_files: tuple[Table, int], within: Range | None, kind: str | None, expected: list[range]
) -> None:
    assert starts(bronze_files, within, kind) == [[*start_offsets] for start_offsets in expected]


def test_each_row_is_where_its_place_says(bronze_files: tuple[Table, int]) -> None:
    files = DataFiles(*bronze_files)
    for rows in files.read(None, ["start"]):
        stored = pq.ParquetFile(Path(bronze_files[0].path) / files.paths[rows.file])
        for nth, (group, row) in enumerate(zip(rows.groups.tolist(), rows.rows.tolist(), strict=True)):
            first_offset = files.group(rows.file, group, ("start",)).column("start")[row]
            assert first_offset == rows.columns.column("start")[nth]
            assert stored.read_row_group(group, ["start"]).column("start")[row] == first_offset


@pytest.mark.parametrize("marked", [[], [0], [3, 4, 9], [*range(4, 8)], [*range(9)]])
def test_rows_that_a_deletion_vector_marks_are_left_out(tmp_path: Path, marked: list[int]) -> None:
    rows = slices(0, 10).select(["stretch", "number", "start", "stop", "kind"])
    types = {"stretch": "INT", "number": "BIGINT", "start": "BIGINT", "stop": "BIGINT", "kind": "STRING"}
    table = new_table(str(tmp_path), types, {"delta.enableDeletionVectors": "true"})
    files = [
        data_files.write(table.path, part, table.schema, table.configuration, row_group_rows=GROUP)
        for part in (rows, rows.set_column(2, "start", pa.array(range(500, 600, 10), pa.int64())))
    ]
    commits.commit(table, adds=files)
    if marked:
        (vector,) = deletion_vectors.write(table.path, [BitMap64(marked)], table.configuration)
        commits.commit(newest(table.path), dv_updates=[(newest(table.path).files[0], vector)])
    version = newest(table.path).version
    all_rows = [
        (rows.columns.column("start")[nth].as_py(), int(group) * GROUP + int(row))
        for rows in DataFiles(Table(table.path, plain=False), version).read(None, ["start"])
        for nth, (group, row) in enumerate(zip(rows.groups, rows.rows, strict=True))
    ]
    alive = [(number * 10, number) for number in range(10) if number not in marked]
    assert all_rows == [*alive, *((500 + number * 10, number) for number in range(10))]
    part_of = [
        rows.rows + rows.groups * GROUP
        for rows in DataFiles(Table(table.path, plain=False), version).read(part(40, 80), ["start"])
    ]
    expected_rows = [number for number in range(4, 8) if number not in marked]
    assert [number for numbers in part_of[:1] for number in np.asarray(numbers).tolist()] == expected_rows


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_bytes(b"PAR1")], ids=["missing", "damaged"])
@pytest.mark.parametrize("reads", ["read", "group"])
def test_a_file_that_cannot_be_read_is_one_error_that_names_it(
    bronze_files: tuple[Table, int], damage: Callable[[Path], object], reads: str
) -> None:
    files = DataFiles(*bronze_files)
    file = Path(bronze_files[0].path) / files.paths[1]
    damage(file)
    with pytest.raises(LakeError) as refused:
        _ = [*files.read(None, ["start"])] if reads == "read" else files.group(1, 0, ["start"])
    pattern = f"{re.escape(str(file))}: a data file of bronze cannot be read: [^\n]+; restore bronze from a backup"
    assert re.fullmatch(pattern, str(refused.value))


def test_a_file_without_the_columns_is_named(bronze_files: tuple[Table, int]) -> None:
    with pytest.raises(LakeError, match="lacks the columns here, there: it was written by something else"):
        list(DataFiles(*bronze_files).read(None, ["start", "there", "here"]))


def test_a_table_or_version_that_is_not_there(bronze_files: tuple[Table, int], tmp_path: Path) -> None:
    for table, version in ((Table(str(tmp_path / "none"), plain=False), 0), (bronze_files[0], 77)):
        with pytest.raises(LakeError, match=f"{table.path}: cannot be read: "):
            DataFiles(table, version)
