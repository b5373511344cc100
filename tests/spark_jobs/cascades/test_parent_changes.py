"""The changes of a parent by which a foreign key may change child rows, in described logs."""

import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.binlog.events.types import CASCADES_LOGGED, NO_FOREIGN_KEY_CHECKS
from spark_jobs.bronze.index import SliceIndex, read_index
from spark_jobs.cascades.parent_changes import ParentChange, first_cascade
from spark_jobs.ddl.foreign_keys import ForeignKey
from spark_jobs.errors import TableStopped
from spark_jobs.log.position import Position, Range
from tests.binlogs.segment_spec import Change, Commit, Delete, Insert, RawEvent, Rows, SegmentSpec, Table, Update
from tests.binlogs.segment_types import DATE, INT, VARCHAR
from tests.binlogs.slicing import bronze_of, bronze_rows

FILE = "b.000001"
_GTID = 33
ALL = Range(Position(FILE, 0), Position(FILE, 0, 9))
P = "shop.p"
PARENT = Table(P, key=["id"], id=INT.NOT_NULL, code=VARCHAR(9), note=VARCHAR(9))
OTHER = Table("shop.o", key=["id"], id=INT.NOT_NULL)
KEY = ForeignKey("f", TableName("shop", "p"), "CASCADE", columns=("pid",), parent_columns=("id",))
MOVES = replace(KEY, on_delete="NO ACTION", on_update="SET NULL", parent_columns=("code",))


def log(
    tmp_path: Path, changes: Sequence[Change], *, target: int = 1 << 20, tables: Sequence[Table] = (PARENT, OTHER)
) -> SliceIndex:
    content = SegmentSpec(tables, changes).to_bytes()
    return read_index(*bronze_of(tmp_path / "bronze", [bronze_rows(FILE, content, target=target)]), ALL)


def unnamed(definition: TableDefinition, at: Position) -> TableDefinition:
    raise TableStopped(f"{definition.name}: nothing names its columns", at)


def changes_of(index: SliceIndex, key: ForeignKey) -> list[ParentChange]:
    """All of them, each behind the one before it."""
    found_changes, skips = list[ParentChange](), set[Position]()
    while change := first_cascade(index, key, ALL, unnamed, skips):
        found_changes.append(change)
        skips.add(change.at)
    return found_changes


def row(number: int, code: str | None = "a", note: str = "n") -> tuple[object, ...]:
    return number, code, note


def test_a_delete_cascades_by_on_delete_and_an_update_by_on_update_where_it_changes_the_key(tmp_path: Path) -> None:
    changes: list[Change] = [
        *(Insert(P, row(1)), Insert("shop.o", (1,)), Commit()),
        *(Update(P, row(1), row(1, note="m")), Delete("shop.o", (1,)), Delete(P, row(1)), Commit()),
        *(Update(P, row(2), row(2, "A")), Update(P, row(2, "A"), row(2, None)), Update(P, row(2, None), row(2, None))),
    ]
    index = log(tmp_path, changes)
    (deleted,) = changes_of(index, KEY)
    assert (deleted.verb, deleted.boundary.offset < deleted.at.offset) == ("DELETE", True)
    assert [change.verb for change in changes_of(index, MOVES)] == ["UPDATE", "UPDATE"]
    assert len(changes_of(index, replace(KEY, on_update="CASCADE"))) == 1, "no update changes the column id"
    assert changes_of(index, replace(KEY, on_delete="RESTRICT")) == []


@pytest.mark.parametrize("flags", [0, NO_FOREIGN_KEY_CHECKS, CASCADES_LOGGED])
def test_flags_of_the_event_say_whether_keys_were_checked_and_whether_it_is_logged(tmp_path: Path, flags: int) -> None:
    index = log(tmp_path, [Rows(P, Delete, [row(1), row(2)], flags=flags), Commit()])
    assert len(changes_of(index, KEY)) == (flags == 0)


@pytest.mark.parametrize("target", [1, 1 << 20])
def test_the_boundary_is_that_of_the_transaction_also_inside_a_slice(tmp_path: Path, target: int) -> None:
    before: list[Change] = [Insert(P, row(1)), Commit()]
    spec = SegmentSpec([PARENT, OTHER], [*before, Insert("shop.o", (1,)), Delete(P, row(1)), Commit()])
    index = log(tmp_path, spec.changes, target=target)
    (change,) = changes_of(index, KEY)
    _, begin = (at for at, event in zip(spec.offsets(), spec.events(), strict=False) if event[4] == _GTID)
    assert change.boundary == Position(FILE, begin)
    assert begin < change.at.offset


def test_a_range_and_quarantined_events_bound_the_search(tmp_path: Path) -> None:
    index = log(tmp_path, [Delete(P, row(1)), Commit(), Delete(P, row(2)), Commit()], target=1)
    first, second = changes_of(index, KEY)
    before = Range(Position(FILE, 0), second.boundary)
    assert first_cascade(index, KEY, before, unnamed) == first
    assert first_cascade(index, KEY, before, unnamed, {first.at}) is None
    assert first_cascade(index, KEY, Range(second.boundary, ALL.stop), unnamed) == second


def test_columns_that_the_log_does_not_name_are_named_by_others_or_every_update_counts(tmp_path: Path) -> None:
    table = Table(P, ["id"], False, **PARENT.columns)
    index = log(tmp_path, [Update(P, row(1), row(1, note="m")), Commit()], tables=[table])
    assert [change.verb for change in changes_of(index, MOVES)] == ["UPDATE"]

    def named(definition: TableDefinition, _at: Position) -> TableDefinition:
        names = zip(definition.columns, ("id", "code", "note"), strict=True)
        return replace(definition, columns=tuple(replace(column, name=name) for column, name in names))

    assert first_cascade(index, MOVES, ALL, named) is None
    assert first_cascade(index, replace(MOVES, parent_columns=()), ALL, named) is not None


def test_images_without_the_column_leave_it_and_those_that_have_it_may_change_it(tmp_path: Path) -> None:
    unchanged = Update(P, (1, ..., ...), (..., ..., "m"))
    changed = Update(P, (1, ..., ...), (..., "b", ...))
    assert changes_of(log(tmp_path / "unchanged", [unchanged, Commit()]), MOVES) == []
    assert len(changes_of(log(tmp_path / "changed", [unchanged, changed, Commit()]), MOVES)) == 1


def test_a_value_that_a_typed_column_cannot_hold_may_have_changed(tmp_path: Path) -> None:
    table = Table(P, key=["day"], day=DATE)
    index = log(tmp_path, [Update(P, ("0000-00-00",), ("2024-00-10",)), Commit()], tables=[table])
    key = replace(KEY, on_update="CASCADE", parent_columns=("day",))
    assert [change.verb for change in changes_of(index, key)] == ["UPDATE"]


def test_a_parent_that_cannot_be_read_stops_with_the_boundary_before_it(tmp_path: Path) -> None:
    other_count = struct.pack("<IHHH", 100, 0, 1, 2) + b"\x02\x03\x00\x01\x00\x00\x00"
    changes: list[Change] = [
        Insert("shop.o", (1,)),
        Commit(),
        Rows(P, Insert, [row(1)], last=False),
        RawEvent(32, other_count),
    ]
    index = log(tmp_path, [*changes, Commit()], target=1)
    with pytest.raises(
        TableStopped, match=r"its parent shop\.p cannot be read: .* a row event whose column count"
    ) as error:
        first_cascade(index, KEY, ALL, unnamed)
    (start,) = set(index.take(index.rows_of(KEY.parent)).slices.column("transaction_start").to_pylist())
    assert error.value.at == Position(FILE, start), "the slices are parts of the second transaction"
