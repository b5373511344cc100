import pickle
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_jobs.binlog import FormatDescription, list_events
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.extract import ExtractionPlan, LogParts, extract, slicing_task, tasks_for
from spark_jobs.bronze.log_index import Stretch
from spark_jobs.bronze.redaction import Redaction
from spark_jobs.errors import DecodeError, LakeError
from spark_jobs.lake.commit import Head
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position, Range
from spark_jobs.source.files import FileReading, Files
from spark_jobs.source.protocol import FilePart
from tests.binlogs.segment_spec import Change, Commit, Insert, SegmentSpec, Table
from tests.binlogs.segment_types import INT

RECORDED = Path(__file__).parents[2] / "recorded"
FILE = "mysql-8.0-transactions.000001"
SIZE = (RECORDED / FILE).stat().st_size


def read(*parts: FilePart) -> list[pa.RecordBatch]:
    """What a Spark task makes of the parts; the task has gone through pickle, as tasks do."""
    task = pickle.loads(pickle.dumps(FileReading(RECORDED)))  # noqa: S301 - our own, just made
    ids = pa.RecordBatch.from_pydict({"id": list(range(len(parts)))})
    return list(slicing_task(LogParts("shop", 3, parts, task, "a-uuid"), bronze.ARROW)(iter([ids])))


@pytest.mark.parametrize("file", sorted(path.name for path in RECORDED.glob("*.000001")))
def test_a_table_without_spark_has_what_was_redacted_and_its_sums(tmp_path: Path, file: str) -> None:
    """Written as of two runs, of which the first one redacts nothing; every log of a server's, packed ones too."""
    size = (RECORDED / file).stat().st_size
    ids, part = pa.RecordBatch.from_pydict({"id": [0]}), FilePart(file, 0, size)
    table = Lake(str(tmp_path)).bronze("shop")
    parts = LogParts("shop", 1, (part,), FileReading(RECORDED))
    plain = list(slicing_task(parts, bronze.ARROW)(iter([ids])))
    deltalake.write_deltalake(table.path, pa.Table.from_batches(plain))
    assert bronze.redacted_in_all(table, 0) == (0, 0)
    task = slicing_task(replace(parts, stretch=2, redact=Redaction.of(["*.*"])), bronze.REDACTED_ARROW)
    batches = list(pickle.loads(pickle.dumps(list(task(iter([ids]))))))  # noqa: S301 - as they leave a task
    assert all(batch.schema == bronze.REDACTED_ARROW for batch in batches)
    deltalake.write_deltalake(table.path, pa.Table.from_batches(batches), mode="append", schema_mode="merge")
    redacted_log, redacted_total = joined(batches), bronze.redacted_in_all(table, 1)
    events = [event for event in list_events(iter([redacted_log]), file) if event.type == "Redacted"]
    spans = {(event.offset, event.stop) for event in events}
    assert redacted_total == (len(events), sum(stop - start for start, stop in spans))
    assert redacted_total[0] > 0
    at, original = 0, joined(plain)
    for start, stop in [*sorted(spans), (size, size)]:
        assert redacted_log[at:start] == original[at:start]
        at = stop


def joined(batches: list[pa.RecordBatch]) -> bytes:
    return b"".join(cell.as_py() for batch in batches for cell in batch.column("payload"))


def test_a_task_gives_bronze_rows_whose_payloads_are_the_file() -> None:
    batches = read(FilePart(FILE, 0, SIZE))
    assert all(batch.schema == bronze.ARROW for batch in batches)
    assert joined(batches) == (RECORDED / FILE).read_bytes()
    provenance = {
        (row["stretch"], row["number"], row["file"], row["server_uuid"]) for b in batches for row in b.to_pylist()
    }
    assert provenance == {(3, 1, FILE, "a-uuid")}


def test_a_part_may_begin_and_end_at_any_boundary_of_transactions() -> None:
    bounds = sorted({0, SIZE} | {row["stop"] for batch in read(FilePart(FILE, 0, SIZE)) for row in batch.to_pylist()})
    assert len(bounds) > 4
    parts = [FilePart(FILE, start, stop) for start, stop in pairwise(bounds)]
    assert joined(read(*parts)) == (RECORDED / FILE).read_bytes()


def test_a_part_that_ends_inside_a_transaction_is_an_error_by_place() -> None:
    last = max(
        row["stop"] for batch in read(FilePart(FILE, 0, SIZE)) for row in batch.to_pylist() if row["kind"] == "rows"
    )
    with pytest.raises(DecodeError, match=rf"^shop: {FILE}:\d+: the log was to be read to {last - 1}, but"):
        read(FilePart(FILE, 0, last - 1))


def test_an_error_in_a_task_names_the_source() -> None:
    def broken(_: FilePart) -> tuple[FormatDescription | None, Iterator[bytes]]:
        return None, iter([b"#!/bin/sh\n" * 20])

    ids = pa.RecordBatch.from_pydict({"id": [0]})
    parts = LogParts("shop", 1, (FilePart("mysql-bin.000001", 0, 200),), broken)
    with pytest.raises(DecodeError, match=r"^shop: mysql-bin\.000001: .*not a binlog"):
        list(slicing_task(parts, bronze.ARROW)(iter([ids])))


def test_a_plan_says_in_its_commit_where_the_log_began_and_whose_it_is() -> None:
    begin, stop = Position("b.000001", 4), Position("b.000002", 99)
    planned = ExtractionPlan(
        "shop", Head(0, 0, None), Range(begin, stop), (), "a-uuid", begin, (Stretch(1, begin, "db:3306"),)
    )
    commit = planned.commit()
    assert (commit.position, commit.kind) == (stop, "live")
    index = [{"stretch": 1, "begin": "b.000001:4", "endpoint": "db:3306"}]
    fields = {"start": "b.000001:4", "begin": "b.000001:4", "uuid": "a-uuid", "bytes": 0}
    fields |= {"position": "b.000002:99", "batch": commit.batch, "kind": "live"}
    assert commit.members() == fields | {"stretches": index, "derives": True}
    later = replace(planned, head=Head(0, 0, commit)).commit()
    assert "derives" not in later.members()
    assert later.upon(Head(0, 0, commit)).members()["derives"], "it stands until a commit says otherwise"
    older = replace(commit, derives_cascades=False)
    assert "derives" not in later.upon(Head(0, 0, older)).members()
    assert commit.batch != planned.commit().batch, "two attempts are told apart"


@pytest.mark.parametrize(
    "sizes, tasks",
    [
        ([1 << 10] * 3, 3),
        ([1 << 10] * 2000, 8),
        ([100 << 20] * 10, 10),
        ([1 << 30, *[1 << 10] * 500], 64),
    ],
    ids=["few", "many small ones", "large ones", "a large one among small ones"],
)
def test_small_files_share_a_task(sizes: list[int], tasks: int) -> None:
    assert tasks_for([FilePart(f"b.{at:06d}", 4, 4 + size) for at, size in enumerate(sizes)]) == tasks


@pytest.mark.spark
@pytest.mark.by_spark
def test_files_that_share_a_task_are_whole_and_in_order(spark: SparkSession, lake: Path, tmp_path: Path) -> None:
    folder = tmp_path / "binlogs"
    folder.mkdir()
    table = Table("shop.t", key=["id"], id=INT.NOT_NULL)
    for number in range(1, 21):
        after = f"b.{number + 1:06d}" if number < 20 else None
        spec = SegmentSpec([table], [Insert("shop.t", (number,)), Commit()], first_number=number, rotate_to=after)
        (folder / f"b.{number:06d}").write_bytes(spec.to_bytes())
    extracted = extract(spark, Lake(str(lake)), Files("shop", folder), "earliest")
    bronze_table = Lake(str(lake)).bronze("shop")
    assert (extracted.files, len(bronze_table.file_sizes())) == (20, 8)
    rows = bronze_table.read(spark, extracted.head.version).orderBy("number", "start").collect()
    for number in range(1, 21):
        file_bytes = b"".join(bytes(row["payload"]) for row in rows if row["number"] == number)
        assert file_bytes == (folder / f"b.{number:06d}").read_bytes()


@pytest.mark.spark
@pytest.mark.by_spark
def test_a_bronze_that_is_redacted_in_turns_stays_one_table(spark: SparkSession, lake: Path, tmp_path: Path) -> None:
    folder, table = tmp_path / "binlogs", Lake(str(lake)).bronze("shop")
    folder.mkdir()
    redact = Redaction.of(["shop.secrets"])
    tables = [Table(f"shop.{name}", key=["id"], id=INT.NOT_NULL) for name in ("t", "secrets")]
    totals = (0, 0)
    for number, rules in enumerate((None, redact, None, redact), 1):
        changes: list[Change] = [Insert("shop.t", (number,)), Insert("shop.secrets", (number,)), Commit()]
        spec = SegmentSpec(tables, changes, first_number=number, rotate_to=f"b.{number + 1:06d}")
        (folder / f"b.{number:06d}").write_bytes(spec.to_bytes())
        extracted = extract(spark, Lake(str(lake)), Files("shop", folder), "earliest", redact=rules)
        assert (extracted.redacted_events > 0, extracted.redacted_bytes > 0) == ((rules is not None),) * 2
        assert table.columns() == bronze.COLUMNS | (bronze.REDACTED_COLUMN if number > 1 else {})
        head = table.head()
        assert head
        assert (head.version, head.position) == (extracted.head.version, extracted.range.stop)
        totals = totals[0] + extracted.redacted_events, totals[1] + extracted.redacted_bytes
    rows = table.rows()
    with_redacted = {
        number: sum(row["redacted"] is not None for row in rows if row["number"] == number) for number in range(1, 5)
    }
    assert with_redacted == {1: 0, 2: 1, 3: 0, 4: 1}
    assert bronze.redacted_in_all(table, 3) == totals
    for number in range(1, 5):
        payloads = [row["payload"] for row in sorted(rows, key=lambda row: row["start"]) if row["number"] == number]
        is_whole = b"".join(payloads) == (folder / f"b.{number:06d}").read_bytes()
        assert is_whole == (number % 2 == 1)


def test_columns_that_another_tool_added_are_null_and_those_that_it_dropped_are_refused() -> None:
    wider = bronze.ARROW.append(pa.field("more", pa.int32()))
    task = slicing_task(
        LogParts("shop", 1, (FilePart(FILE, 0, SIZE),), FileReading(RECORDED)), bronze.arrow_schema(wider)
    )
    (batch, *_) = task(iter([pa.RecordBatch.from_pydict({"id": [0]})]))
    assert (batch.schema, batch.column("more").null_count) == (wider, batch.num_rows)
    with pytest.raises(LakeError, match="it lacks the column payload, which another tool dropped"):
        bronze.arrow_schema(bronze.ARROW.remove(bronze.ARROW.get_field_index("payload")))
