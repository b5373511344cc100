from dataclasses import replace

from spark_jobs.binlog import Column, TableDefinition
from spark_jobs.log.position import Range
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.table_timeline import DataRange, SchemaChange, SilverSnapshot, TableContents, TableState
from tests.binlogs.timelines import BEGINNING, ID, NAME, OLD, at, steps, stored


def test_what_a_table_holds_begins_where_it_was_emptied() -> None:
    base = SilverSnapshot(None, 3, None, None)  # type: ignore[arg-type] # nothing is read here
    rows = DataRange(Range(at(10), at(20)), TableState(OLD))
    emptied = SchemaChange(Range(at(30), at(40)), TableState(OLD), empties=True)
    contents = TableContents(NAME, base, [rows, emptied, rows], TableState(OLD), at(10))
    assert (contents.alive.base, list(contents.alive.steps), contents.is_empty) == (None, [emptied, rows], False)
    assert replace(contents, steps=[rows, emptied]).is_empty
    assert not replace(contents, steps=[]).is_empty
    assert replace(contents, base=None, steps=[]).is_empty


def test_a_standing_is_read_back_from_a_commit() -> None:
    unnamed = TableDefinition(NAME, (Column(None, 3),))
    unique = TableDefinition(NAME, (ID,), (0,), "u")
    for state in (
        TableState(OLD, emptied=at(77)),
        TableState(None, is_dropped=True),
        TableState(unnamed),
        TableState(unique),
        TableState(OLD, is_complete=True),
    ):
        assert stored(state) == state
    assert TableState.of(SilverCommit(at(900), "b")) == TableState(None)


def test_both_definitions_are_told_and_the_next_one_knows_of_what_is_kept() -> None:
    _, change = steps((500, "ALTER TABLE t MODIFY v SMALLINT"), last=400, rules=BEGINNING)
    assert isinstance(change, SchemaChange)
    reason = "v (as it was: _v_until_1_500); it was (id int, v int) and is (id int, v smallint)"
    assert change.restart_reason == reason
    state = stored(change.state)
    assert state == change.state
    assert state.columns.types == {"id": "INT", "v": "SMALLINT", "_v_until_1_500": "INT"}
