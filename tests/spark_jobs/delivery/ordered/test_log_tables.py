"""Definitions of tables at a range of the log, and what cannot be delivered from the log alone."""

from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.delivery.ordered.log_tables import OrderedTable, require_log_alone, require_ordered, state_at
from spark_jobs.errors import DeliveryError
from spark_jobs.lake.commit import CommitKind
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.table_timeline import SchemaChange
from tests.binlogs.segment_spec import Change, Commit, Insert, Statement
from tests.binlogs.timelines import KEYLESS, OLD
from tests.spark_jobs.delivery.ordered.logged import NAMES, SOURCE, LoggedLake, at, write

LOG: list[Change] = [
    Insert("shop.orders", (1, "a")),
    Insert("shop.lines", (1, 1)),
    Commit(),
    Statement("shop", "TRUNCATE orders"),
    Insert("shop.orders", (2, "b")),
    Commit(),
]
ROWS = pa.table({"id": pa.array([1], pa.int64())})
ORDERS = NAMES[0]


@pytest.fixture
def lake(tmp_path: Path) -> LoggedLake:
    return LoggedLake.of(tmp_path, LOG)


def kinds(lake: LoggedLake, start: int) -> list[list[str]]:
    """By table its steps from a position on."""
    return [
        ["statement" if isinstance(step, SchemaChange) else "rows" for step in job.steps]
        for job in lake.logged(start).jobs
    ]


def test_each_table_has_its_definitions_in_the_range(lake: LoggedLake) -> None:
    logged = lake.logged()
    assert kinds(lake, 4) == [["rows", "statement", "rows"], ["rows"]]
    assert [str(step.state.definition).partition(" ")[0] for job in logged.jobs for step in job.steps] == [
        *["shop.orders"] * 3,
        "shop.lines",
    ]
    rows, statement, later_rows = (step.range for step in logged.jobs[0].steps)
    # As silver says it, the table is known before its first row.
    definition = logged.jobs[0].steps[0].state.definition
    silver = lake.lake.silver(SOURCE, ORDERS.schema, ORDERS.table)
    write(silver, ROWS, SilverCommit(at(4), "b", definition=definition, key=("id",)))
    assert (rows.start, rows.stop, statement.stop, later_rows.stop) == (
        *(at(4), statement.start, later_rows.start, lake.end),
    )
    assert kinds(lake, statement.start.offset)[0] == ["statement", "rows"]
    assert kinds(lake, statement.stop.offset)[0] == ["rows"]


@pytest.mark.parametrize(
    "offset, definition",
    [(50, None), (100, OLD), (150, OLD), (200, KEYLESS), (999, KEYLESS)],
)
def test_how_a_table_stands(lake: LoggedLake, offset: int, definition: object) -> None:
    """By the newest commit that is not after the position."""
    silver = lake.lake.silver(SOURCE, ORDERS.schema, ORDERS.table)
    commits = [(100, OLD, CommitKind.LIVE), (200, KEYLESS, CommitKind.CHANGE)]
    for version, (byte_offset, table_definition, kind) in enumerate(commits, 1):
        write(
            silver,
            ROWS,
            SilverCommit(at(byte_offset), f"b{version}", kind, definition=table_definition, key=()),
            version,
        )
    state = state_at(silver, at(offset))
    assert (state.definition if state else None) == definition


@pytest.mark.parametrize(
    "version, kind, word",
    [
        (0, CommitKind.LIVE, None),
        (0, CommitKind.MAINTENANCE, None),
        (0, CommitKind.LOAD, "loaded"),
        (0, CommitKind.REDO, "replayed"),
        (0, CommitKind.RESET, "rebuilt"),
        # What was delivered with the version itself is at the target.
        (1, CommitKind.LOAD, None),
        (None, CommitKind.LOAD, None),
    ],
)
def test_rows_that_the_log_does_not_say(
    lake: LoggedLake, version: int | None, kind: CommitKind, word: str | None
) -> None:
    silver = lake.lake.silver(SOURCE, ORDERS.schema, ORDERS.table)
    for number, commit_kind in enumerate((CommitKind.LIVE, kind), 1):
        write(
            silver, ROWS, SilverCommit(at(number * 10), f"b{number}", commit_kind, definition=OLD, key=("id",)), number
        )
    table = OrderedTable(ORDERS, lake.into(ORDERS), at(4), lake.end)
    if word is None:
        require_log_alone(lake.lake, SOURCE, table, version)
        return
    with pytest.raises(
        DeliveryError, match=f"shop: shop.orders: its rows in the lake were {word}.*--table shop.orders"
    ):
        require_log_alone(lake.lake, SOURCE, table, version)


def test_keys_that_sources_share_have_no_order(lake: LoggedLake) -> None:
    require_ordered([lake.into(name) for name in NAMES], "delivery copy")
    with pytest.raises(DeliveryError, match=r"^delivery copy: shop.lines has keys that several sources share"):
        require_ordered([lake.into(ORDERS), lake.into(NAMES[1], is_shared=True)], "delivery copy")
