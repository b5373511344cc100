import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.binlog import SliceBytes, Slicer, TableDefinition, definitions_of, events_of
from spark_jobs.changes.feed import changes_of_files
from spark_jobs.changes.lines import wanted_tables
from spark_jobs.log.position import Position
from spark_jobs.silver import decode_task
from spark_jobs.silver import table as silver
from spark_jobs.silver.net_changes import SliceOrigin
from spark_jobs.silver.slice_runs import SliceRun, gathered

RECORDED = Path(__file__).parents[2] / "recorded" / "mysql-8.0-types.000001"


def slices(target: int) -> list[pa.RecordBatch]:
    """The recorded log as the decoding task gets it, one slice a batch."""
    slicer = Slicer(RECORDED.name, 0, None, target=target)
    cut = [*slicer.feed(RECORDED.read_bytes()), *slicer.finish()]
    rows = [row for batch in cut for row in batch.to_pylist() if row["kind"] == "rows"]
    added = {"stretch": 1, "number": 1, "window": 0}
    all_slices = pa.Table.from_batches(cut)
    schema = pa.schema([*all_slices.schema, ("stretch", pa.int32()), ("number", pa.int64()), ("window", pa.int32())])
    return [pa.RecordBatch.from_pylist([row | added], schema=schema) for row in rows]


def runs(batches: list[pa.RecordBatch]) -> Iterator[SliceRun]:
    """Each slice by itself, as a task has it."""
    for batch in batches:
        (cells,) = batch.to_pylist()
        origin = SliceOrigin(*(cells[name] for name in ("file", "stretch", "number", "window")))
        committed = batch.column("committed_at")[0].value
        log_slice = SliceBytes(
            cells["start"],
            cells["context"],
            batch.column("payload")[0].as_buffer(),
            cells["transaction_start"],
            committed,
        )
        yield SliceRun(origin, (log_slice,))


def definition() -> TableDefinition:
    first = slices(1 << 20)[0]
    cells = {name: first.column(name)[0] for name in first.schema.names}
    definitions = definitions_of(
        RECORDED.name, cells["start"].as_py(), cells["context"].as_py(), cells["payload"].as_buffer()
    )
    return next(definition for definition in definitions if definition.key)


def decoded(target: int, *, alone: bool = False) -> list[dict[str, Any]]:
    table_definition = definition()
    task = decode_task.decoding_task(table_definition, silver.columns(table_definition), alone=alone)
    return [row for batch in task(gathered(runs(slices(target)))) for row in batch.to_pylist()]


def key_names() -> list[str]:
    table_definition = definition()
    return [table_definition.column_names()[at] for at in table_definition.key or ()]


def changes() -> list[dict[str, Any]]:
    """What the log says of the table, one change after the other."""
    name = definition().name
    lines = changes_of_files([(RECORDED.name, iter([RECORDED.read_bytes()]))], wanted_tables([str(name)]))
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("target", [1, 1 << 20])
def test_a_task_leaves_the_last_row_of_every_key_and_counts_every_change(target: int) -> None:
    names = key_names()
    alive = {
        tuple((change["after"] or change["before"])[name] for name in names): change["op"] != "delete"
        for change in changes()
    }
    rows = sorted(decoded(target), key=lambda row: tuple(row["_position"].values()))
    assert {tuple(row[name] for name in names): row["_exists"] for row in rows} == alive
    assert len(alive) > 1
    assert sum(row["_changes"] for row in rows) == len(changes())


@pytest.mark.parametrize("limit", [1, 1 << 19])
def test_a_task_with_all_slices_leaves_one_row_a_key(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_task, "_REDUCE_AT", limit)
    names = key_names()
    existed: dict[tuple[Any, ...], bool] = {}
    for change in changes():
        existed.setdefault(
            tuple((change["after"] or change["before"])[name] for name in names), change["op"] != "insert"
        )
    rows = decoded(1, alone=True)
    assert {tuple(row[name] for name in names): row["_existed"] for row in rows} == existed
    assert len(rows) == len(existed)
    assert sum(row["_changes"] for row in rows) == len(changes())


def test_slices_in_any_size_give_the_same_rows() -> None:
    assert sorted(map(repr, decoded(1))) == sorted(map(repr, decoded(1 << 20)))


def test_a_task_has_nothing_of_events_that_are_passed_over() -> None:
    table_definition, name = definition(), definition().name
    batches = slices(1 << 20)
    cells = [row for batch in batches for row in batch.select(["start", "context", "payload"]).to_pylist()]
    events = [event for cell in cells for event in events_of(RECORDED.name, **cell) if event.table == name]
    skips = frozenset(Position(RECORDED.name, event.offset) for event in events)
    task = decode_task.decoding_task(table_definition, silver.columns(table_definition), alone=True)
    assert [row for batch in task(gathered(runs(batches), skips)) for row in batch.to_pylist()] == []
    skipped = frozenset(list(skips)[:1])
    rows = [row for batch in task(gathered(runs(slices(1 << 20)), skipped)) for row in batch.to_pylist()]
    skipped_count = sum(Position(RECORDED.name, change["offset"]) in skipped for change in changes())
    assert skipped_count > 0
    assert sum(row["_changes"] for row in rows) == len(changes()) - skipped_count
