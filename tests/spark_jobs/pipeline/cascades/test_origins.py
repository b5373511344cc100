"""Foreign keys that rows had under other names; with a server in tests/pipeline/test_cascades_of_copies.py."""

from datetime import UTC, datetime
from typing import Any

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.cascades.derivation import ImagePair
from spark_jobs.cascades.logged_rows import LoggedRow
from spark_jobs.ddl.foreign_keys import ForeignKey
from spark_jobs.ddl.unlogged_changes import Renamed, UnloggedChanges
from spark_jobs.log.position import Position
from spark_jobs.pipeline.cascades.origins import _keys_until, _may_cascade
from spark_jobs.pipeline.cascades.unlogged_changes import SourceUnloggedChanges

PARENT = TableName("shop", "p")


def at(offset: int) -> Position:
    return Position("b.000001", offset)


def named(table: str) -> TableName:
    return TableName("shop", table)


def gap(child: str, since: int, until: int) -> UnloggedChanges:
    key = ForeignKey(f"{child}_key", PARENT, "CASCADE", columns=("up",), parent_columns=("Id",))
    return UnloggedChanges(named(child), key, at(since), at(until))


def keys_before(renames: list[Renamed], *gaps: UnloggedChanges) -> list[str]:
    """Names of the keys that the table of the last rename had."""
    known = SourceUnloggedChanges("shop", gaps, renames=tuple(renames))
    return [str(found.key and found.key.name) for found in _keys_until(known, renames[-1], {named("c")})]


def test_a_copy_has_the_keys_of_the_names_that_it_had_and_of_no_other_table() -> None:
    renames = [Renamed(at(20), named("_c_old"), named("_c_new")), Renamed(at(30), named("_c_new"), named("c"))]
    gaps = gap("_c_old", 10, 20), gap("_c_new", 20, 30), gap("_c_new", 5, 9), gap("other", 10, 30)
    assert keys_before(renames, *gaps) == ["_c_new_key", "_c_old_key"]


def test_what_had_the_name_of_a_derived_table_is_known() -> None:
    renames = [Renamed(at(20), named("c"), named("_c_new")), Renamed(at(30), named("_c_new"), named("c"))]
    assert keys_before(renames, gap("c", 10, 20), gap("_c_new", 20, 30)) == ["_c_new_key"]
    assert keys_before(renames, gap("_c_new", 20, 29)) == [], "its key was dropped before the rename"


@pytest.mark.parametrize(
    "before, after, rules, cascades, expected",
    [
        ({"id": 1}, None, ("CASCADE", "RESTRICT"), True, True),
        ({"id": 1}, None, ("RESTRICT", "CASCADE"), True, False),
        ({"id": 1}, {"id": 2}, ("RESTRICT", "CASCADE"), True, True),
        ({"id": 1}, {"id": 1}, ("RESTRICT", "CASCADE"), True, False),
        ({"id": 1}, {"id": 2}, ("CASCADE", "RESTRICT"), True, False),
        ({"id": 1}, None, ("SET NULL", "RESTRICT"), False, False),
        (None, {"id": 1}, ("CASCADE", "CASCADE"), True, False),
    ],
)
def test_changes_of_a_parent_that_may_change_child_rows(
    before: Any, after: Any, rules: tuple[str, str], *, cascades: bool, expected: bool
) -> None:
    key = ForeignKey("k", PARENT, *rules, columns=("up",), parent_columns=("Id",))
    change = ImagePair(PARENT, before, after)
    logged = LoggedRow(at(10), datetime(2026, 1, 1, tzinfo=UTC), at(10), 0, change, cascades)
    assert _may_cascade(logged, key) is expected
