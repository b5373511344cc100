from dataclasses import replace

import pytest

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.lake.commit import Checkpoint, CommitKind, Head
from spark_jobs.log.position import Position
from spark_jobs.pipeline.initial_load.commit import LOADED, READ, READING, STOPPED, LoadCommit

DEFINITION = TableDefinition(TableName("shop", "t"), (Column("id", 3), Column("e", 247, 1, labels=("ä", "y"))), (0,))
BEGUN = LoadCommit(
    Position("b.000001", 4),
    "b",
    state=READING,
    read_from=Position("b.000001", 99),
    definition=DEFINITION,
    chunk_rows=50,
    estimate=7,
)
READ_ALL = replace(BEGUN, state=READ, rows=3, chunks=2, is_walked=True, read_to=Position("b.000002", 5))


@pytest.mark.parametrize(
    "commit",
    [
        BEGUN,
        replace(BEGUN, estimate=None),
        replace(BEGUN, after=("7", "61e4"), chunks=3),
        replace(BEGUN, rule_digests={"columns": "a1"}, filtered={"row_filters.test": 3}),
        replace(READ_ALL, is_snapshot=True),
        READ_ALL,
        READ_ALL.stopped("was changed"),
    ],
)
def test_how_far_a_load_is_stands_in_its_commits(commit: LoadCommit) -> None:
    assert LoadCommit.of_head(Head(3, 2, Checkpoint.from_json(commit.to_json()))) == commit
    later = replace(commit, kind=CommitKind.MAINTENANCE).next()
    assert (replace(later, batch=commit.batch), later.batch != commit.batch) == (commit, True)


def test_a_table_without_a_commit_was_never_loaded() -> None:
    assert LoadCommit.of_head(None) is None
    assert LoadCommit.of_head(Head(0, 0, None)) is None


def test_a_load_goes_on_until_it_is_landed_or_stopped() -> None:
    states = {state: replace(BEGUN, state=state).is_open for state in (READING, READ, LOADED, STOPPED)}
    assert states == {READING: True, READ: True, LOADED: False, STOPPED: False}
    assert READ_ALL.stopped("why").reason == "why"
