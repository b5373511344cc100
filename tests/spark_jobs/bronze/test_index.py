"""Slices of bronze by their metadata: in order, by table and range, cut, with where their bytes lie."""

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.binlog import Slicer, TableName
from spark_jobs.bronze.boundaries import split_transactions
from spark_jobs.bronze.data_files import DataFiles
from spark_jobs.bronze.index import OF_TABLE, ordered, read_index
from spark_jobs.bronze.table import ARROW
from spark_jobs.errors import LakeError
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from tests.binlogs.segment_spec import Change, Commit, Insert, SegmentSpec, Statement
from tests.binlogs.segment_spec import Table as Described
from tests.binlogs.segment_types import INT
from tests.binlogs.slicing import bronze_of, bronze_rows, rows_at

NAMES = [TableName("shop", name) for name in ("a", "b", "c")]
ALL = Range(Position("b.000001", 0), Position("b.000001", 0, 9))


def log(chance: Random, transactions: int = 12) -> bytes:
    """A file of transactions with rows of some of the tables, and a statement here and there."""
    changes: list[Change] = []
    for number in range(transactions):
        rows = [Insert(str(name), (number,)) for name in chance.sample(NAMES, chance.randrange(1, 4))]
        changes += [*rows, Commit()]
        if chance.random() < 0.2:
            changes += [Statement("shop", f"TRUNCATE {chance.choice(NAMES).table}")]
    return SegmentSpec(
        tables=[Described(str(name), key=["id"], id=INT.NOT_NULL) for name in NAMES], changes=changes
    ).to_bytes()


@pytest.fixture
def files() -> dict[tuple[int, str], bytes]:
    """Five binlog files in two stretches of the log."""
    chance = Random(5)
    positions = [(1, "b.999999"), (1, "b.1000000"), (1, "b.1000001"), (2, "b.000001"), (2, "b.000002")]
    return {position: log(chance) for position in positions}


@pytest.fixture
def bronze_files(tmp_path: Path, files: dict[tuple[int, str], bytes]) -> tuple[Table, int]:
    """Bronze of the files, in slices of all sizes, a data file for one to two of them and the rows in no order."""
    rows = []
    for target, ((stretch, file), content) in zip((1, 300, 1, 1000, 300), files.items(), strict=True):
        slice_list = bronze_rows(file, content, target=target)
        rows.append(slice_list.set_column(0, "stretch", pa.array([stretch] * len(slice_list), pa.int32())))
    mixed = pa.concat_tables(rows[1:3])
    order = list(range(len(mixed)))
    Random(1).shuffle(order)
    return bronze_of(tmp_path / "bronze", [rows[3], mixed.take(order), rows[0], rows[4]])


def stored(table: Table) -> list[dict[str, Any]]:
    rows = deltalake.DeltaTable(table.path).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: (row["stretch"], row["number"], row["start"]))


def test_all_slices_in_the_order_of_the_log_with_their_bytes(bronze_files: tuple[Table, int]) -> None:
    index, stored_rows = read_index(*bronze_files, ALL), stored(bronze_files[0])
    names = [name for name in index.slices.column_names if name in stored_rows[0]]
    assert index.slices.select(names).to_pylist() == [{name: row[name] for name in names} for row in stored_rows]
    records = list(index.cells(range(len(index))))
    assert [(bytes(record["payload"]), record["context"]) for record in records] == [
        (row["payload"], row["context"]) for row in stored_rows
    ]
    assert index.flags("has_maps").tolist() == [bool(row["maps"]) for row in stored_rows]


def ranges(table: Table, chance: Random) -> list[Range]:
    """Some ranges that end at boundaries, in no order, with gaps or touching."""
    ends = [Position(row["file"], row["start"], row["stretch"]) for row in stored(table)]
    bounds = sorted(chance.sample(ends, 8))
    parts = [Range(first, last) for first, last in pairwise(bounds)]
    return chance.sample(parts, 4)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(2, 5))])
def test_a_table_s_slices_in_ranges_are_where_the_index_says(bronze_files: tuple[Table, int], seed: int) -> None:
    table, version = bronze_files
    parts = ranges(table, Random(seed))
    log_range = Range(min(part.start for part in parts), max(part.stop for part in parts))
    index = read_index(table, version, log_range)
    for name in NAMES:
        of_table = index.slices_of_table(name, parts)
        assert of_table.schema == OF_TABLE
        expected = [
            (row["payload"], nth, row["start"])
            for row in stored(table)
            for nth, part in enumerate(parts)
            if part.start <= Position(row["file"], row["start"], row["stretch"]) < part.stop
            if row["kind"] == "rows" and {"schema": name.schema, "table": name.table} in row["tables"]
        ]
        payloads = [(payload(table, row), row["window"], row["start"]) for row in of_table.to_pylist()]
        assert payloads == expected


def payload(table: Table, row: dict[str, Any]) -> bytes:
    """A slice's bytes, as a task reads them."""
    file = pq.ParquetFile(Path(table.path) / row["data_file"])
    content: bytes = file.read_row_group(row["row_group"], ["payload"]).column("payload")[row["row"]].as_py()
    return content[row["offset"] : row["offset"] + row["bytes"]]


def test_a_slice_that_is_cut_is_parts_that_share_its_bytes(bronze_files: tuple[Table, int]) -> None:
    table, version = bronze_files
    index = read_index(table, version, ALL)
    row = max(range(len(index)), key=lambda at: index.slices["transactions"][at].as_py())
    log_slice = index.slices.slice(row, 1).to_pylist()[0]
    batch = pa.RecordBatch.from_pylist([stored(table)[row]], ARROW)
    starts = sorted({piece.column("start")[0].as_py() for piece in split_transactions(batch)})
    positions = [Position(log_slice["file"], offset, log_slice["stretch"]) for offset in starts[1:]]
    assert positions
    cut = index.cut([*positions, Position(log_slice["file"], log_slice["stop"], log_slice["stretch"])])
    assert len(cut) == len(index) + len(positions)
    parts = cut.within(
        Range(replace(positions[0], offset=log_slice["start"]), replace(positions[0], offset=log_slice["stop"]))
    )
    assert parts.slices["start"].to_pylist() == starts
    assert all(index.is_inside(position) and not cut.is_inside(position) for position in positions)
    assert not index.is_inside(replace(positions[0], offset=log_slice["start"]))
    assert not index.is_inside(replace(positions[0], offset=4)), "a file's head has no transactions"
    after = cut.slices_of_table(NAMES[0], [Range(positions[0], positions[-1])]).to_pylist()
    assert all(len(payload(table, part)) == part["bytes"] for part in after)
    payloads = [bytes(cell["payload"]) for cell in cut.cells(range(len(cut)))]
    assert b"".join(payloads) == b"".join(row["payload"] for row in stored(table))


def slice_positions(*bounds: tuple[int, int]) -> list[Range]:
    return [Range(Position("b.000001", start), Position("b.000001", stop)) for start, stop in bounds]


def test_the_first_slice_of_a_table_in_each_part(tmp_path: Path) -> None:
    slices = [(10, "rows", "b"), (20, "statement", "a"), (30, "rows", "a"), (40, "rows", "a"), (70, "rows", "a")]
    index = read_index(*bronze_of(tmp_path / "bronze", [rows_at(slices)]))
    firsts = index.first(NAMES[0], slice_positions((5, 25), (25, 60), (60, 80)))
    assert {part: index.position(row).offset for part, row in firsts.items()} == {1: 30, 2: 70}
    (cells,) = index.cells([firsts[1]])
    assert (cells["file"], cells["context"], bytes(cells["payload"])) == ("b.000001", b"context", b"        30")


@pytest.mark.parametrize(
    "quarantined, starts", [([], [10, 20, 30]), ([30], [10, 30]), ([20], [10, 30]), ([10], [10, 20, 30])]
)
def test_a_quarantined_xa_transaction_is_left_out(quarantined: list[int], starts: list[int], tmp_path: Path) -> None:
    """By its first event (20) or by its commit (30); other transactions are not told by where they begin."""
    index = read_index(*bronze_of(tmp_path / "bronze", [rows_at([(start, "rows", "a") for start in (10, 20, 30)])]))
    effect = {"effect_stretch": 1, "effect_number": 1, "effect_start": 30, "effect_file": "b.000001"}
    effect |= {"transaction_start": 20}
    rows = [row | (effect if row["start"] == 20 else {}) for row in index.slices.to_pylist()]
    moved = replace(index, slices=ordered(pa.Table.from_pylist(rows, index.slices.schema)))
    positions = [Position("b.000001", start) for start in quarantined]
    slices = moved.slices_of_table(NAMES[0], slice_positions((0, 100)), positions)
    assert sorted(slices.column("start").to_pylist()) == starts


@pytest.mark.parametrize("number", [16, pytest.param(3_000, marks=pytest.mark.thorough)])
def test_the_first_slice_of_a_table_in_each_of_many_parts(tmp_path: Path, number: int) -> None:
    """Parts of 50 bytes with gaps of 50 between them, of slices of 10 bytes; every third part is empty."""
    parts = slice_positions(
        *((start, start + (50 if nth % 3 else 0)) for nth, start in enumerate(range(0, number * 100, 100)))
    )
    slices = rows_at([(start, "rows", "a") for start in range(0, number * 100, 10)])
    index = read_index(*bronze_of(tmp_path / "bronze", [slices], group=32))
    expected = {nth: part.start.offset for nth, part in enumerate(parts) if part}
    assert {nth: index.position(row).offset for nth, row in index.first(NAMES[0], parts).items()} == expected
    assert len(index.slices_of_table(NAMES[0], parts)) == 5 * len(expected)


@pytest.mark.parametrize("target", [300, pytest.param(1 << 20, marks=pytest.mark.thorough)])
def test_a_slice_may_be_cut_again(tmp_path: Path, target: int) -> None:
    """Positions one after the other, in any order, give the slices of all positions together; no byte is lost."""
    content = log(Random(7))
    index = read_index(*bronze_of(tmp_path / "bronze", [bronze_rows("b.000001", content, target=target)]))
    inside = [Position("b.000001", offset) for offset in boundaries(content)]
    inside = [position for position in inside if index.is_inside(position)]
    assert len(inside) > 3
    cut_once = index.cut(inside)
    for nth in range(5):
        cut_singly = index
        for position in Random(nth).sample(inside, len(inside)):
            cut_singly = cut_singly.cut({position})
        assert cut_singly.slices.equals(cut_once.slices)
        pieces = sorted(cut_singly.cells(range(len(cut_singly))), key=lambda cells: cells["start"])
        assert b"".join(bytes(cells["payload"]) for cells in pieces) == content


def boundaries(content: bytes) -> list[int]:
    """Position where the transactions of a file end."""
    slicer = Slicer("b.000001", 0, None, target=1)
    return [stop for batch in [*slicer.feed(content), *slicer.finish()] for stop in batch.column("stop").to_pylist()]


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_bytes(file.read_bytes()[:-9])])
def test_a_data_file_that_is_missing_or_damaged_is_named(
    bronze_files: tuple[Table, int], damage: Callable[[Path], object]
) -> None:
    (file,) = (Path(bronze_files[0].path) / path for path in DataFiles(*bronze_files).paths[:1])
    damage(file)
    with pytest.raises(LakeError) as refused:
        read_index(*bronze_files)
    pattern = f"{re.escape(str(file))}: a data file of bronze cannot be read: .+; restore bronze from a backup"
    assert re.fullmatch(pattern, str(refused.value))


def test_only_files_that_may_hold_the_range_are_read(bronze_files: tuple[Table, int]) -> None:
    """The data files of the fixture: one of three positions of the log each, the second of two binlog files."""
    files = DataFiles(*bronze_files)
    (last,) = files.holding(Range(Position("b.000002", 4, 2), Position("b.000003", 4, 2)))
    assert {row["file"] for row in deltalake_rows(bronze_files[0], files.paths[last])} == {"b.000002"}
    assert len(files.holding(Range(Position("b.1000000", 4), Position("b.000001", 4, 2)))) == 2
    assert files.holding(Range(Position("b.000009", 4, 2), Position("b.000010", 4, 2))) == []
    assert len(files.holding(None)) == 4


def deltalake_rows(table: Table, path: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.ParquetFile(Path(table.path) / path).read(["file"]).to_pylist()
    return rows


def test_files_of_another_store_are_read_by_deltalake_s_own_means(
    bronze_files: tuple[Table, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read_index(*bronze_files).slices
    monkeypatch.setattr("spark_jobs.bronze.data_files.is_stored", lambda _: False)
    index = read_index(*bronze_files)
    assert index.slices.equals(before)
    assert all(len(record["payload"]) == record["stop"] - record["start"] for record in index.cells(range(len(index))))
