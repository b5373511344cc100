"""Changes of described logs, row by row."""

from pathlib import Path

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.binlog.events.types import NO_FOREIGN_KEY_CHECKS
from spark_jobs.cascades.key_columns import RAW
from spark_jobs.cascades.logged_rows import logged_slices
from spark_jobs.errors import TableStopped
from tests.binlogs.segment_spec import Change, Commit, Delete, Insert, Rows, Table, Update
from tests.spark_jobs.cascades.test_parent_changes import ALL, PARENT, P, log, row, unnamed

NAMES = {TableName("shop", "p"), TableName("shop", "o")}


def test_rows_of_several_tables_come_in_the_order_of_the_log(tmp_path: Path) -> None:
    changes: list[Change] = [
        Insert(P, row(1)),
        Insert("shop.o", (5,)),
        Update(P, row(1), row(2)),
        Delete("shop.o", (5,)),
        Commit(),
    ]
    (part,) = logged_slices(log(tmp_path, changes), NAMES, unnamed, ALL.start)
    assert [
        (logged.change.table.table, bool(logged.change.before), bool(logged.change.after)) for logged in part.rows
    ] == [
        *(("p", False, True), ("o", False, True), ("p", True, True), ("o", True, False)),
    ]
    assert part.rows[2].change.before == {"id": 1, "code": "a", "note": "n", RAW: None}
    assert [definition.name.table for _, definition in part.definitions] == ["p", "o"]


def test_the_flags_of_its_event_say_whether_a_change_cascades(tmp_path: Path) -> None:
    changes: list[Change] = [
        Rows(P, Delete, [row(1), row(2)], flags=NO_FOREIGN_KEY_CHECKS),
        Delete(P, row(3)),
        Commit(),
    ]
    (part,) = logged_slices(log(tmp_path, changes), NAMES, unnamed, ALL.start)
    assert [logged.cascades for logged in part.rows] == [False, False, True]


def test_only_slices_from_a_position_on_are_read(tmp_path: Path) -> None:
    index = log(tmp_path, [Insert(P, row(1)), Commit(), Insert(P, row(2)), Commit()], target=1)
    first, *_, last = logged_slices(index, NAMES, unnamed, ALL.start)
    assert [part.at for part in logged_slices(index, NAMES, unnamed, last.at)] == [last.at]
    assert first.at < last.at


def test_tables_whose_columns_nothing_names_stop_before_their_transaction(tmp_path: Path) -> None:
    bare = Table(P, (), False, **PARENT.columns)
    index = log(tmp_path, [Insert(P, row(1)), Commit()], tables=[bare])
    with pytest.raises(TableStopped, match="nothing names its columns") as error:
        list(logged_slices(index, NAMES, unnamed, ALL.start))
    assert error.value.at == index.position(int(index.rows_of(TableName("shop", "p"))[0]))
