"""The slice index finds what Spark's queries find: on random logs with XA transactions, cuts, removed files."""

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.boundaries import cut
from spark_jobs.bronze.index import read_index
from spark_jobs.bronze.scan import scan_effective
from spark_jobs.bronze.xa import EFFECT, effective
from spark_jobs.config.filters import TableFilters
from spark_jobs.lake.commit import Checkpoint, Head, new_batch
from spark_jobs.lake.layout import Lake
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.silver.compaction_job import CompactionJob, Window
from spark_jobs.silver.window_rows import slices_of_window
from tests import slices_by_spark
from tests.segment_spec import Change, Commit, Insert, Rows, SegmentSpec, Statement
from tests.segment_spec import Table as Described
from tests.segment_types import INT, VARCHAR
from tests.slicing import bronze_rows
from tests.xa import prepared

pytestmark = pytest.mark.spark

NAMES = [TableName("shop", name) for name in ("a", "b", "c")]
DESCRIBED = [Described(str(name), key=["id"], id=INT.NOT_NULL, note=VARCHAR(40)) for name in NAMES]


def changes(chance: Random, open_: list[bytes]) -> list[Change]:
    """What one file logs. open_: names of XA transactions that are prepared and not decided yet."""
    found: list[Change] = []
    for number in range(chance.randrange(5, 15)):
        rows = [Insert(str(name), (number, "n")) for name in chance.sample(NAMES, chance.randrange(1, 4))]
        many = Rows(str(chance.choice(NAMES)), Insert, [(at, "x" * 40) for at in range(30)])
        match chance.randrange(8):
            case 0:
                found += [Statement("shop", chance.choice(["TRUNCATE a", "FLUSH TABLES", "CREATE TABLE d (id INT)"]))]
            case 1:
                found += prepared(*rows, many, name=b"once", one_phase=True)
            case 2 | 3:
                name = f"x{chance.randrange(1000)}".encode()
                if name not in open_:
                    open_.append(name)
                    found += prepared(*rows, *[many] * chance.randrange(3), name=name)
            case 4 if open_:
                xid = f"X'{open_.pop(chance.randrange(len(open_))).hex()}',X'',1"
                found += [Statement("", f"XA {chance.choice(['COMMIT', 'COMMIT', 'ROLLBACK'])} {xid}")]
            case 5:
                found += [Statement("", f"XA COMMIT X'{bytes([0, number]).hex()}',X'',1")] if number == 7 else []
            case _:
                found += [*rows, Commit()]
    return found


@dataclass(frozen=True)
class Bronze:
    """A bronze table, and the boundaries of transactions in it."""

    table: Table
    head: Head
    bounds: list[Position]

    @property
    def version(self) -> int:
        return self.head.version


def written(spark: SparkSession, lake: Path, chance: Random, *, marks: bool) -> Bronze:
    """Six files in two log generations, in three commits, without the first file. marks: it has a deletion vector."""
    table = Lake(str(lake)).bronze("shop")
    head = table.new(bronze.COLUMNS, bronze.PROPERTIES)
    places = [(1, "b.999998"), (1, "b.999999"), (1, "b.1000000"), (2, "b.000001"), (2, "b.000002"), (2, "b.000003")]
    open_: list[bytes] = []
    bounds: list[Position] = []
    for nth in range(3):
        rows = []
        for stretch, file in places[2 * nth : 2 * nth + 2]:
            content = SegmentSpec(tables=DESCRIBED, changes=changes(chance, open_)).to_bytes()
            found = bronze_rows(file, content, target=chance.choice([1, 500, 2000, 100_000]))
            rows.append(found.set_column(0, "stretch", pa.array([stretch] * len(found), pa.int32())))
            small = bronze_rows(file, content, target=1).to_pylist()
            bounds += [Position(file, one["stop"], stretch) for one in small if one["transactions"]]
        frame = bronze.writing(spark).createDataFrame(pa.concat_tables(rows), bronze.DDL)
        head = table.append(frame.coalesce(1), head, Checkpoint(bounds[-1], new_batch()))
    if marks:
        spark.sql(f"ALTER TABLE {table.sql} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"DELETE FROM {table.sql} WHERE stretch = 1 AND number < 999999")
    newest = table.head()
    assert newest
    assert bool(table.marked_rows(spark)) == marks
    return Bronze(table, newest, [one for one in bounds if one >= Position("b.999999", 0)])


@pytest.fixture(params=[(1, False), (2, True), pytest.param((3, False), marks=pytest.mark.long)], ids=str)
def case(request: pytest.FixtureRequest, spark: SparkSession, lake: Path) -> tuple[Random, Bronze]:
    seed, marks = request.param
    chance = Random(seed)
    return chance, written(spark, lake, chance, marks=marks)


def test_the_index_is_what_spark_finds(spark: SparkSession, case: tuple[Random, Bronze]) -> None:
    chance, held = case
    every = bronze.read_all(spark, held.table, held.version)
    _same_slices(every, held)
    for _ in range(2):
        first, *inner, last = sorted(chance.sample(held.bounds, 6))
        whole = Range(first, last)
        _same_look(spark, held, whole, {first, *inner})


def _same_slices(every: Any, held: Bronze) -> None:
    index = read_index(held.table, held.version)
    names = ["stretch", "number", "start", "stop", "file", "transaction_start", "committed_at", "kind", "tables"]
    rows = every.toArrow().sort_by([(name, "ascending") for name in names[:3]])
    assert index.slices.select(names).to_pylist() == rows.select(names).to_pylist()
    assert [bytes(one["payload"]) for one in index.cells(range(len(index)))] == rows["payload"].to_pylist()
    files = [(one.stretch, one.file, one.start, one.stop, one.size) for one in bronze.files(held.table, held.version)]
    stored: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for row in rows.to_pylist():
        stored.setdefault((row["stretch"], row["file"]), []).append(row)
    sizes = (sum(row["stop"] - row["start"] for row in each) for each in stored.values())
    spans = [
        (*key, of[0]["start"], of[-1]["stop"], size) for (key, of), size in zip(stored.items(), sizes, strict=True)
    ]
    assert files == spans


def _same_look(spark: SparkSession, held: Bronze, whole: Range, cuts: set[Position]) -> None:
    index, found = scan_effective(held.table, held.version, whole, held.bounds[0], cuts)
    every = cut(bronze.read_all(spark, held.table, held.version), cuts | {whole.stop})
    own = every.where(bronze.inside(whole))
    uncut = read_index(held.table, held.version, whole).cut(cuts | {whole.stop}).within(whole)
    assert uncut.spans() == slices_by_spark.spans(own)
    wanted = slices_by_spark.notable(own)
    assert [{name: row[name] for name in wanted[0]} for row in uncut.notable(with_xa=True)] == wanted

    before = bronze.read(spark, held.table, held.version, Range(held.bounds[0], whole.stop))
    told = slices_by_spark.committed(before, whole)
    is_known = told["begun"].is_valid()
    assert _rows(found.xa.rows) == _rows(told.filter(is_known).drop_columns(["xid"]))
    unknown = told.filter(pa.compute.invert(is_known)).to_pylist()
    assert {(xid, at.order) for xid, at in found.xa.unknown} == {
        (row["xid"], (row["at_stretch"], row["at_number"], row["at_start"])) for row in unknown
    }

    effect = effective(every, whole, found.xa)
    parts = [Range(one, other) for one, other in zip(sorted(cuts), [*sorted(cuts)[1:], whole.stop], strict=True)]
    for name in NAMES:
        ours = index.first(name, parts)
        theirs = slices_by_spark.first_slices(effect, name, parts)
        cells = dict(zip(ours, index.cells(list(ours.values())), strict=True))
        for column in ("payload", "context"):
            cell = {nth: one[column] for nth, one in theirs.items()}
            assert {nth: bytes(one[column]) for nth, one in cells.items()} == cell
        places = {nth: (one["file"], one["start"], one["stretch"]) for nth, one in theirs.items()}
        assert {nth: index.place(row) for nth, row in ours.items()} == {n: Position(*at) for n, at in places.items()}
        window = Window(held.table, held.version, tuple(parts[1:]), held.bounds[0], found.xa, frozenset(cuts))
        assert _read(held, index.of_table(name, window.ranges)) == _by_spark(spark, window, name, held)


def _rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def _read(held: Bronze, slices: pa.Table) -> list[tuple[Any, ...]]:
    """The slices of a table as a task reads them."""
    found = []
    for row in slices.to_pylist():
        file = pq.ParquetFile(Path(held.table.path) / row["data_file"])
        context, payload = (file.read_row_group(row["row_group"], [name])[name][row["row"]].as_py() for name in _BYTES)
        effect = tuple(row[f"effect_{name}"] for name in ("stretch", "number", "start", "file"))
        own = (row["stretch"], row["number"], row["start"], row["file"], row["transaction_start"], row["committed_at"])
        cells = (context, payload[row["offset"] : row["offset"] + row["bytes"]], row["window"])
        found.append((*own, *cells, None if effect[0] is None else effect))
    return sorted(found, key=repr)


_BYTES = ("context", "payload")


def _by_spark(spark: SparkSession, window: Window, name: TableName, held: Bronze) -> list[tuple[Any, ...]]:
    """The same as compaction reads them."""
    work = CompactionJob("shop", name, window, (), held.table, None, 0, TableFilters())
    rows = slices_of_window(spark, window, work).toArrow().to_pylist()
    names = ("stretch", "number", "start", "file", "transaction_start", "committed_at", "context", "payload", "window")
    effects = [row.get(EFFECT) for row in rows]
    found = [
        (*(row[one] for one in names), effect and tuple(effect[one] for one in ("stretch", "number", "start", "file")))
        for row, effect in zip(rows, effects, strict=True)
    ]
    return sorted(found, key=repr)
