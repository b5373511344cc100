"""Changes derived from described logs: where they stand, up to where, and what ends them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.binlog.events.types import CASCADES_LOGGED, NO_FOREIGN_KEY_CHECKS
from spark_jobs.bronze.derived_slices import FIRST_DERIVED_ROW
from spark_jobs.bronze.scan import scan_effective, scan_metadata
from spark_jobs.cascades.mirror_rows import MirrorRows
from spark_jobs.cascades.walk import ChildTable, Derived, JoinedLog, Walk
from spark_jobs.ddl.foreign_keys import ForeignKey
from spark_jobs.ddl.unlogged_changes import UnloggedChanges
from spark_jobs.log.position import Position, Range
from tests.binlogs.segment_spec import (
    Change,
    Commit,
    Delete,
    Insert,
    Query,
    Rows,
    SegmentSpec,
    Statement,
    Table,
    Update,
)
from tests.binlogs.segment_types import DATE, INT, VARCHAR
from tests.binlogs.slicing import bronze_of, bronze_rows
from tests.binlogs.xa import XA, prepared
from tests.spark_jobs.cascades.test_parent_changes import ALL, FILE, log

P, C = TableName("shop", "p"), TableName("shop", "c")
KEY = ForeignKey("f", P, "CASCADE", "SET NULL", columns=("PID",), parent_columns=("id",))
EMPTYING = replace(KEY, on_delete="SET NULL")


def tables(kind: Any = INT, child_key: Sequence[str] = ("id",)) -> list[Table]:
    return [
        Table("shop.p", key=["id"], id=kind.NOT_NULL, note=INT),
        Table("shop.c", key=list(child_key), id=INT.NOT_NULL, pid=kind),
    ]


def derive(tmp_path: Path, changes: Sequence[Change], joined: Sequence[Table] | None = None, **inputs: Any) -> Derived:
    index = log(tmp_path, changes, tables=joined or tables())
    statements = [(logged, C) for logged in scan_metadata(index).about(C, ALL.start)]
    child = ChildTable(C, None, MirrorRows(None), None)
    keys = [UnloggedChanges(C, inputs.pop("key", KEY))]
    walked = JoinedLog(index, "lake/bronze/shop", ALL, ALL.start, {C: child}, keys, statements=statements)
    return Walk(replace(walked, **inputs)).derive()


def texts(derived: Derived) -> list[tuple[int, Any, Any]]:
    """Operation, row before and row after of each change."""
    return [
        cells
        for part in derived.slices
        for cells in zip(
            part.changes.op.to_pylist(),
            part.changes.before.to_pylist(),
            part.changes.after.to_pylist(),
            strict=True,
        )
    ]


CHILDREN: tuple[Change, ...] = (Insert("shop.p", (1, 0)), Insert("shop.c", (7, 1)), Insert("shop.c", (8, 1)), Commit())


def test_derived_changes_are_slices_of_their_parent_s_transaction(tmp_path: Path) -> None:
    changes: list[Change] = [*CHILDREN, Update("shop.p", (1, 0), (2, 0)), Commit(), Insert("shop.c", (9, 2)), Commit()]
    derived = derive(tmp_path, [*changes, Delete("shop.p", (2, 0)), Commit()])
    assert texts(derived) == [
        (2, {"id": 7, "pid": 1}, {"id": 7, "pid": None}),
        (2, {"id": 8, "pid": 1}, {"id": 8, "pid": None}),
        (3, {"id": None, "pid": None}, {"id": 9, "pid": 2}),
    ]
    first, second = derived.slices
    assert first.changes.row.to_pylist() == [FIRST_DERIVED_ROW, FIRST_DERIVED_ROW + 1]
    assert first.changes.offset.to_pylist() == [first.at.offset] * 2
    assert first.at < second.at
    assert (derived.end, derived.reason) == (ALL.stop, None)


@pytest.mark.parametrize("flags", [0, NO_FOREIGN_KEY_CHECKS, CASCADES_LOGGED])
def test_events_whose_flags_say_unchecked_or_logged_derive_nothing(tmp_path: Path, flags: int) -> None:
    changes: list[Change] = [*CHILDREN, Rows("shop.p", Delete, [(1, 0)], flags=flags), Commit()]
    derived = derive(tmp_path, changes)
    assert len(texts(derived)) == (0 if flags else 2)


def test_children_that_leave_before_their_parent_goes_stay(tmp_path: Path) -> None:
    changes: list[Change] = [*CHILDREN, Update("shop.c", (7, 1), (7, None)), Delete("shop.p", (1, 0)), Commit()]
    assert [after["id"] for _, _, after in texts(derive(tmp_path, changes))] == [8]


def test_what_is_stored_already_is_not_derived_again(tmp_path: Path) -> None:
    changes: list[Change] = [*CHILDREN, Delete("shop.p", (1, 0)), Commit()]
    (part,) = derive(tmp_path / "first", changes).slices
    behind = replace(ALL, start=replace(part.at, offset=part.at.offset + 1))
    assert derive(tmp_path, changes, within=behind).slices == ()


@pytest.mark.parametrize("child_key", [("id",), ()])
def test_rows_from_before_their_key_are_those_that_it_changes(tmp_path: Path, child_key: Sequence[str]) -> None:
    before: list[Change] = [*CHILDREN, Update("shop.c", (8, 1), (8, 2)), Insert("shop.c", (9, 1)), Commit()]
    before += [Delete("shop.c", (9, 1)), Commit()]
    added = Query("shop", "ALTER TABLE c ADD FOREIGN KEY (pid) REFERENCES p (id) ON DELETE CASCADE")
    joined = tables(child_key=child_key)
    position = Position(FILE, len(SegmentSpec(joined, before).to_bytes()))
    derived = derive(
        tmp_path,
        [*before, added, Delete("shop.p", (1, 0)), Commit()],
        joined,
        keys=[UnloggedChanges(C, KEY, since=position)],
        same_columns=lambda _logged, _name: True,
    )
    assert [after for _, _, after in texts(derived)] == [{"id": 7, "pid": 1}]


def test_changes_of_a_transaction_of_several_slices_have_its_commit_time(tmp_path: Path) -> None:
    changes: list[Change] = [*CHILDREN, Insert("shop.p", (2, 0)), Insert("shop.p", (3, 0)), Delete("shop.p", (1, 0))]
    index = log(tmp_path, [*changes, Commit()], target=1, tables=tables())
    child, key = ChildTable(C, None, MirrorRows(None), None), UnloggedChanges(C, KEY)
    (part,) = Walk(JoinedLog(index, "lake/bronze/shop", ALL, ALL.start, {C: child}, [key])).derive().slices
    number = next(number for number in range(len(index)) if index.position(number) == part.at)
    assert index.slices.column("transaction_start")[number].as_py() < part.at.offset, "it begins inside a transaction"
    assert set(part.changes.committed_at) == {index.slices.column("committed_at")[number]}


def test_equal_rows_of_a_child_without_a_key_are_counted(tmp_path: Path) -> None:
    copy: Change = Insert("shop.c", (7, 1))
    changes: list[Change] = [*CHILDREN, copy, copy, Commit(), Delete("shop.c", (7, 1)), Delete("shop.p", (1, 0))]
    derived = derive(tmp_path, [*changes, Insert("shop.c", (7, 1)), Commit()], tables(child_key=()))
    assert [after for _, _, after in texts(derived)] == [{"id": 7, "pid": 1}] * 2 + [{"id": 8, "pid": 1}]


def test_changes_by_an_xa_transaction_stand_where_it_is_committed(tmp_path: Path) -> None:
    inside: list[Change] = [
        Update("shop.c", (8, 1), (8, None)),
        Delete("shop.p", (1, 0)),
        Update("shop.c", (9, 1), (9, 2)),
    ]
    first: list[Change] = [*CHILDREN, Insert("shop.c", (9, 1)), Commit(), *prepared(*inside)]
    committed = [*first, Insert("shop.p", (5, 0)), Commit(), Statement("", f"XA COMMIT {XA}")]
    assert derive_effective(tmp_path / "prepared", first).slices == ()
    (part,) = derive_effective(tmp_path / "committed", committed).slices
    # The last change of the child 9 is its own: what was derived before it is left out.
    assert part.changes.after.to_pylist() == [{"id": 7, "pid": None}]
    assert part.at == part.transaction
    assert part.changes.offset.to_pylist() == [part.at.offset]


@pytest.mark.parametrize(
    "later, expected",
    [
        ([], [(2, (7, 1), (7, 5)), (2, (8, 1), (8, 5))]),
        # Of the row that moved, where it went and where it was are two rows of the lake.
        ([Delete("shop.c", (7, 5))], [(3, None, (7, 1)), (2, (8, 1), (8, 5))]),
        ([Insert("shop.c", (7, 1))], [(2, (7, 5), (7, 5)), (2, (8, 1), (8, 5))]),
        ([Delete("shop.c", (7, 5)), Insert("shop.c", (7, 1))], [(2, (8, 1), (8, 5))]),
        ([Update("shop.c", (7, 5), (7, 6))], [(3, None, (7, 1)), (2, (8, 1), (8, 5))]),
    ],
)
def test_a_child_that_got_another_key_leaves_the_one_that_later_changes_of_the_event_do_not_have(
    tmp_path: Path, later: list[Change], expected: list[tuple[Any, ...]]
) -> None:
    inside: list[Change] = [Update("shop.p", (1, 0), (5, 0)), *later]
    changes: list[Change] = [*CHILDREN, *prepared(*inside), Statement("", f"XA COMMIT {XA}")]
    key = replace(KEY, on_update="CASCADE")
    (part,) = derive_effective(tmp_path, changes, tables(child_key=("id", "pid")), key).slices
    cells = [part.changes.op.to_pylist(), part.changes.before.to_pylist(), part.changes.after.to_pylist()]
    images = [
        (op, None if op == 3 else tuple(before.values()), tuple(after.values()))
        for op, before, after in zip(*cells, strict=True)
    ]
    assert images == expected


def derive_effective(
    tmp_path: Path,
    changes: Sequence[Change],
    joined: Sequence[Table] | None = None,
    key: ForeignKey = EMPTYING,
) -> Derived:
    """By slices where they take effect."""
    content = SegmentSpec(joined or tables(), changes).to_bytes()
    within = Range(Position(FILE, 4), Position(FILE, len(content)))
    bronze = bronze_of(tmp_path / "bronze", [bronze_rows(FILE, content, target=1 << 20)])
    index, _ = scan_effective(*bronze, within, within.start)
    child, keys = ChildTable(C, None, MirrorRows(None), None), [UnloggedChanges(C, key)]
    return Walk(JoinedLog(index, "lake/bronze/shop", within, within.start, {C: child}, keys)).derive()


def test_quarantined_events_derive_nothing(tmp_path: Path) -> None:
    changes: list[Change] = [*CHILDREN, Delete("shop.p", (1, 0)), Commit()]
    (part,) = derive(tmp_path / "first", changes).slices
    assert derive(tmp_path, changes, skips={C: frozenset([part.at])}).slices == ()


def test_a_statement_that_changes_a_child_s_columns_ends_what_is_derived_where_it_has_rows(tmp_path: Path) -> None:
    changes: list[Change] = [*CHILDREN, Query("shop", "ALTER TABLE c ADD x INT"), Delete("shop.p", (1, 0)), Commit()]
    derived = derive(tmp_path, changes)
    assert (derived.slices, derived.reason) == ((), None)
    assert derived.end < ALL.stop
    unchanged = derive(tmp_path / "same", changes, same_columns=lambda _logged, _name: True)
    assert len(texts(unchanged)) == 2
    empty = derive(tmp_path / "empty", [Query("shop", "ALTER TABLE c ADD x INT"), *CHILDREN])
    assert empty.end == ALL.stop


DATES = tables(DATE)


@pytest.mark.parametrize(
    "joined, changes, reason",
    [
        (DATES, [Delete("shop.p", ("2026-01-01", 0)), Commit()], "dates and times are not compared"),
        (tables(VARCHAR(9, 11)), [Delete("shop.p", ("a", 0)), Commit()], "collation 11 is not one whose"),
    ],
)
def test_what_cannot_be_derived_ends_at_the_transaction_with_the_reason(
    tmp_path: Path, joined: list[Table], changes: Sequence[Change], reason: str
) -> None:
    derived = derive(tmp_path, changes, joined)
    assert derived.reason
    assert reason in derived.reason
    assert Position(FILE, 0) < derived.end < ALL.stop


def test_names_come_from_elsewhere_where_the_log_has_none(tmp_path: Path) -> None:
    def named(logged: TableDefinition, _at: Position) -> TableDefinition:
        names = ("id", "note") if logged.name == P else ("id", "pid")
        columns = tuple(
            replace(column, name=name, unsigned=False) for column, name in zip(logged.columns, names, strict=True)
        )
        return replace(logged, columns=columns, key=(0,))

    joined = tables()
    for table in joined:
        table.metadata = False
    derived = derive(tmp_path, [*CHILDREN, Delete("shop.p", (1, 0)), Commit()], joined, named=named)
    assert len(texts(derived)) == 2
