"""The slice index finds what Spark's queries find: on random logs with XA transactions, cuts, removed files."""

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.index import read_index
from spark_jobs.bronze.scan import scan_effective
from spark_jobs.bronze.xa import EFFECT
from spark_jobs.lake.commit import Checkpoint, Head, new_batch
from spark_jobs.lake.layout import Lake
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from tests.binlogs.segment_spec import Change, Commit, Insert, Rows, SegmentSpec, Statement
from tests.binlogs.segment_spec import Table as Described
from tests.binlogs.segment_types import INT, VARCHAR
from tests.binlogs.slicing import bronze_rows
from tests.binlogs.xa import prepared
from tests.lakes.lake_tables import marked_rows
from tests.twins import slices_by_spark

pytestmark = pytest.mark.spark

NAMES = [TableName("shop", name) for name in ("a", "b", "c")]
DESCRIBED = [Described(str(name), key=["id"], id=INT.NOT_NULL, note=VARCHAR(40)) for name in NAMES]


def changes(chance: Random, open_: list[bytes]) -> list[Change]:
    """What one file logs. open_: names of XA transactions that are prepared and not decided yet."""
    decoded: list[Change] = []
    for number in range(chance.randrange(5, 15)):
        rows = [Insert(str(name), (number, "n")) for name in chance.sample(NAMES, chance.randrange(1, 4))]
        many_rows = Rows(str(chance.choice(NAMES)), Insert, [(at, "x" * 40) for at in range(30)])
        match chance.randrange(8):
            case 0:
                decoded += [Statement("shop", chance.choice(["TRUNCATE a", "FLUSH TABLES", "CREATE TABLE d (id INT)"]))]
            case 1:
                decoded += prepared(*rows, many_rows, name=b"once", one_phase=True)
            case 2 | 3:
                name = f"x{chance.randrange(1000)}".encode()
                if name not in open_:
                    open_.append(name)
                    decoded += prepared(*rows, *[many_rows] * chance.randrange(3), name=name)
            case 4 if open_:
                xid = f"X'{open_.pop(chance.randrange(len(open_))).hex()}',X'',1"
                decoded += [Statement("", f"XA {chance.choice(['COMMIT', 'COMMIT', 'ROLLBACK'])} {xid}")]
            case 5:
                decoded += [Statement("", f"XA COMMIT X'{bytes([0, number]).hex()}',X'',1")] if number == 7 else []
            case _:
                decoded += [*rows, Commit()]
    return decoded


@dataclass(frozen=True)
class Bronze:
    """A bronze table, and the boundaries of transactions in it."""

    table: Table
    head: Head
    bounds: list[Position]

    @property
    def version(self) -> int:
        return self.head.version


def write_log(spark: SparkSession, lake: Path, chance: Random, *, marks: bool) -> Bronze:
    """Six files in two stretches, in three commits, without the first file. marks: it has a deletion vector."""
    table = Lake(str(lake)).bronze("shop")
    head = table.unwritten_head(bronze.COLUMNS, bronze.PROPERTIES)
    positions = [(1, "b.999998"), (1, "b.999999"), (1, "b.1000000"), (2, "b.000001"), (2, "b.000002"), (2, "b.000003")]
    open_: list[bytes] = []
    bounds: list[Position] = []
    for nth in range(3):
        rows = []
        for stretch, file in positions[2 * nth : 2 * nth + 2]:
            content = SegmentSpec(tables=DESCRIBED, changes=changes(chance, open_)).to_bytes()
            slice_list = bronze_rows(file, content, target=chance.choice([1, 500, 2000, 100_000]))
            rows.append(slice_list.set_column(0, "stretch", pa.array([stretch] * len(slice_list), pa.int32())))
            small = bronze_rows(file, content, target=1).to_pylist()
            bounds += [Position(file, log_slice["stop"], stretch) for log_slice in small if log_slice["transactions"]]
        head = table.append_rows(pa.concat_tables(rows), head, Checkpoint(bounds[-1], new_batch()))
    if marks:
        spark.sql(f"ALTER TABLE {table.sql} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"DELETE FROM {table.sql} WHERE stretch = 1 AND number < 999999")
    newest = table.head()
    assert newest
    assert (marked_rows(table) > 0) == marks
    return Bronze(table, newest, [bound for bound in bounds if bound >= Position("b.999999", 0)])


@pytest.fixture(
    params=[(1, False, 1), *(pytest.param(case, marks=pytest.mark.long) for case in ((2, True, 2), (3, False, 3)))],
    ids=str,
)
def case(request: pytest.FixtureRequest, spark: SparkSession, lake: Path) -> tuple[Random, Bronze, int]:
    """Choices, a log, and of how many ranges of it."""
    seed, marks, ranges = request.param
    chance = Random(seed)
    return chance, write_log(spark, lake, chance, marks=marks), ranges


@pytest.mark.thorough
def test_the_index_is_what_spark_finds(spark: SparkSession, case: tuple[Random, Bronze, int]) -> None:
    chance, bronze_log, ranges = case
    rows = bronze.read_all(spark, bronze_log.table, bronze_log.version)
    _same_slices(rows, bronze_log)
    for _ in range(ranges):
        first, *inner, last = sorted(chance.sample(bronze_log.bounds, 6))
        log_range = Range(first, last)
        _same_look(spark, bronze_log, log_range, {first, *inner})


def _same_slices(all_rows: Any, bronze_log: Bronze) -> None:
    index = read_index(bronze_log.table, bronze_log.version)
    names = ["stretch", "number", "start", "stop", "file", "transaction_start", "committed_at", "kind", "tables"]
    rows = all_rows.toArrow().sort_by([(name, "ascending") for name in names[:3]])
    assert index.slices.select(names).to_pylist() == rows.select(names).to_pylist()
    assert [bytes(cell["payload"]) for cell in index.cells(range(len(index)))] == rows["payload"].to_pylist()
    files = [
        (file.stretch, file.file, file.start, file.stop, file.size)
        for file in bronze.files(bronze_log.table, bronze_log.version)
    ]
    stored: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for row in rows.to_pylist():
        stored.setdefault((row["stretch"], row["file"]), []).append(row)
    sizes = (sum(row["stop"] - row["start"] for row in file_rows) for file_rows in stored.values())
    spans = [
        (*key, of[0]["start"], of[-1]["stop"], size) for (key, of), size in zip(stored.items(), sizes, strict=True)
    ]
    assert files == spans


def _same_look(spark: SparkSession, bronze_log: Bronze, log_range: Range, cuts: set[Position]) -> None:
    index, scan = scan_effective(bronze_log.table, bronze_log.version, log_range, bronze_log.bounds[0], cuts)
    rows = slices_by_spark.cut(bronze.read_all(spark, bronze_log.table, bronze_log.version), cuts | {log_range.stop})
    in_range = rows.where(bronze.inside(log_range))
    uncut = read_index(bronze_log.table, bronze_log.version, log_range).cut(cuts | {log_range.stop}).within(log_range)
    assert uncut.extent_by_table() == slices_by_spark.extent_by_table(in_range)
    notable = slices_by_spark.statements_and_table_maps(in_range)
    assert [
        {name: row[name] for name in notable[0]} for row in uncut.statements_and_table_maps(with_xa=True)
    ] == notable

    before = bronze.read(spark, bronze_log.table, bronze_log.version, Range(bronze_log.bounds[0], log_range.stop))
    committed = slices_by_spark.committed(before, log_range)
    is_known = committed["begun"].is_valid()
    assert _row_texts(scan.xa.rows) == _row_texts(committed.filter(is_known).drop_columns(["xid"]))
    unknown = committed.filter(pa.compute.invert(is_known)).to_pylist()
    assert {(xid, at.order) for xid, at in scan.xa.unknown} == {
        (row["xid"], (row["at_stretch"], row["at_number"], row["at_start"])) for row in unknown
    }

    effect = slices_by_spark.effective(rows, log_range, scan.xa)
    parts = [Range(begin, end) for begin, end in zip(sorted(cuts), [*sorted(cuts)[1:], log_range.stop], strict=True)]
    for name in NAMES:
        firsts = index.first(name, parts)
        spark_firsts = slices_by_spark.first_slices(effect, name, parts)
        cells = dict(zip(firsts, index.cells(list(firsts.values())), strict=True))
        for column in ("payload", "context"):
            cell = {nth: first[column] for nth, first in spark_firsts.items()}
            assert {nth: bytes(record[column]) for nth, record in cells.items()} == cell
        positions = {nth: (first["file"], first["start"], first["stretch"]) for nth, first in spark_firsts.items()}
        assert {nth: index.position(row) for nth, row in firsts.items()} == {
            n: Position(*at) for n, at in positions.items()
        }
        of_table = slices_by_spark.of_table(effect, name, parts[1:])
        assert _slices_in_task(bronze_log, index.slices_of_table(name, tuple(parts[1:]))) == _by_spark(of_table)


def _row_texts(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def _slices_in_task(bronze_log: Bronze, slices: pa.Table) -> list[tuple[Any, ...]]:
    """The slices of a table as a task reads them."""
    all_rows = []
    for row in slices.to_pylist():
        file = pq.ParquetFile(Path(bronze_log.table.path) / row["data_file"])
        context, payload = (file.read_row_group(row["row_group"], [name])[name][row["row"]].as_py() for name in _BYTES)
        effect = tuple(row[f"effect_{name}"] for name in ("stretch", "number", "start", "file"))
        position_cells = (
            row["stretch"],
            row["number"],
            row["start"],
            row["file"],
            row["transaction_start"],
            row["committed_at"],
        )
        cells = (context, payload[row["offset"] : row["offset"] + row["bytes"]], row["window"])
        all_rows.append((*position_cells, *cells, None if effect[0] is None else effect))
    return sorted(all_rows, key=repr)


_BYTES = ("context", "payload")


def _by_spark(slices: DataFrame) -> list[tuple[Any, ...]]:
    """The same as Spark finds them."""
    rows = slices.toArrow().to_pylist()
    names = ("stretch", "number", "start", "file", "transaction_start", "committed_at", "context", "payload", "window")
    effects = [row.get(EFFECT) for row in rows]
    all_rows = [
        (
            *(row[full_name] for full_name in names),
            effect and tuple(effect[full_name] for full_name in ("stretch", "number", "start", "file")),
        )
        for row, effect in zip(rows, effects, strict=True)
    ]
    return sorted(all_rows, key=repr)
