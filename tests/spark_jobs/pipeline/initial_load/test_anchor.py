"""Where a load stands when bronze has gone on, told without a server. Whole moves: test_load_moves.py."""

from dataclasses import replace
from typing import cast

import pytest

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.bronze.log_index import Stretch, without_old_gtids
from spark_jobs.errors import LakeError, SourceError
from spark_jobs.lake.commit import Checkpoint
from spark_jobs.lake.table import Table
from spark_jobs.log.gtid import DomainGtids, MysqlGtids
from spark_jobs.log.position import Position
from spark_jobs.pipeline.initial_load import anchor
from spark_jobs.pipeline.initial_load.anchor import Anchor, Outrun, position_covering_load
from spark_jobs.pipeline.initial_load.commit import READ, LoadCommit
from spark_jobs.source.protocol import FilePart, Switch
from spark_jobs.source.server import Server

A, B = "aaaaaaaa-0000-0000-0000-000000000000", "bbbbbbbb-0000-0000-0000-000000000000"
ONE = Stretch(1, Position("bin.000001", 4), "one:3306", A)
TWO = Stretch(2, Position("bin.000007", 900, 2), "two:3306", B, passed_over=(FilePart("bin.000007", 1000, 1200),))
AGAIN = Stretch(2, Position("bin.000001", 4, 2), "one:3306", A)
THREE = Stretch(3, Position("bin.000002", 4, 3), "one:3306", A)
DEFINITION = TableDefinition(TableName("shop", "t"), (Column("id", 3),), key=(0,))


class Bronze:
    """A bronze table by its only commit."""

    def __init__(self, position: Position, *log_stretches: Stretch) -> None:
        self.commit = BronzeCommit(position, "batch", stretches=without_old_gtids(log_stretches))

    def since(self, _version: int) -> list[tuple[int, Checkpoint]]:
        return [(5, self.commit)]


def read(gtids: str | None) -> LoadCommit:
    return LoadCommit(
        Position("bin.000001", 4), "b", state=READ, read_from=Position("bin.000002", 50), definition=DEFINITION,
        chunk_rows=10, read_to=Position("bin.000002", 100), gtids=gtids,
    )  # fmt: skip


@pytest.mark.parametrize(
    "reached, log_stretches, gtids, held_set, expected",
    [
        (Position("bin.000002", 100), (ONE,), None, None, Position("bin.000002", 100)),
        (Position("bin.000003", 4), (ONE,), f"{A}:1-5", None, Position("bin.000002", 100)),
        (Position("bin.000002", 99), (ONE,), None, None, "the server's log is shorter than it was"),
        (Position("bin.000008", 4, 2), (ONE, TWO), f"{A}:1-5", f"{A}:1-5,{B}:1", Position("bin.000008", 4, 2)),
        (Position("bin.000008", 4, 2), (ONE, TWO), f"{A}:1-6", f"{A}:1-5", f"which had {A}:6, and bronze has gone on"),
        (Position("bin.000008", 4, 2), (ONE, TWO), None, f"{A}:1-5", "without GTIDs nobody can tell"),
        (Position("bin.000001", 90, 2), (ONE, AGAIN), f"{A}:1-5", f"{A}:1-5", "was restarted since"),
        (Position("bin.000002", 90, 3), (ONE, TWO, THREE), f"{A}:1", f"{A}:1-5", Position("bin.000002", 90, 3)),
    ],
)
def test_what_was_read_is_in_bronze_or_never_will_be(
    monkeypatch: pytest.MonkeyPatch,
    reached: Position,
    log_stretches: tuple[Stretch, ...],
    gtids: str | None,
    held_set: str | None,
    expected: Position | str,
) -> None:
    monkeypatch.setattr(anchor, "held_gtids", lambda *_: MysqlGtids.parse(held_set or ""))
    bronze = cast(Table, Bronze(reached, *log_stretches))
    if isinstance(expected, Position):
        assert position_covering_load("shop", read(gtids), bronze, reached) == expected
    else:
        with pytest.raises(LakeError if "shorter" in expected else Outrun, match=expected):
            position_covering_load("shop", read(gtids), bronze, reached)
    with pytest.raises(LakeError, match=r"no commit of bronze's that ended at bin\.000009:4 is there any more"):
        position_covering_load("shop", read(gtids), bronze, Position("bin.000009", 4))


@pytest.mark.parametrize(
    "executed, held_set, later_set, missing",
    [
        ("0-1-40", "0-1-40", "", None),
        ("0-1-40,3-1-7", "0-1-44,3-1-7", "0-1-40", None),
        ("0-2-41", "0-1-40", "", "0-2-41"),
        ("0-2-41", "0-1-41", "", "0-2-41"),  # lost with its server, and the number given again
        ("0-2-41,3-1-7", "0-1-44,3-1-9", "3-1-7", "0-2-41"),
    ],
)
def test_of_mariadb_the_very_transactions_count_and_not_their_numbers(
    monkeypatch: pytest.MonkeyPatch, executed: str, held_set: str, later_set: str, missing: str | None
) -> None:
    monkeypatch.setattr(anchor, "held_gtids", lambda *_: DomainGtids.parse(held_set))
    monkeypatch.setattr(anchor, "seen_gtids", lambda *_: DomainGtids.parse(later_set))
    reached = Position("bin.000008", 4, 2)
    bronze = cast(Table, Bronze(reached, replace(ONE, uuid=None), replace(TWO, uuid=None)))
    if missing is None:
        assert position_covering_load("shop", read(executed), bronze, reached) == reached
    else:
        with pytest.raises(Outrun, match=f"which had {missing}, and bronze has gone on"):
            position_covering_load("shop", read(executed), bronze, reached)


class QueriedServer:
    """A server by its answers."""

    endpoint = "two:3306"
    switch = Switch(has_several=True)

    def __init__(self, visible: Position, *, has_committed: bool) -> None:
        self._visible, self._has = visible, has_committed

    def position_visible_to_readers(self) -> Position:
        return self._visible

    def has_committed(self, _gtids: MysqlGtids) -> bool:
        return self._has


END = Position("bin.000007", 5000, 2)


@pytest.mark.parametrize(
    "stretch, visible, committed, restarted, expected",
    [
        (TWO, Position("bin.000008", 4), False, False, Position("bin.000008", 4, 2)),
        (TWO, Position("bin.000007", 1200), False, False, Position("bin.000007", 1200, 2)),  # as MariaDB tells it
        (TWO, Position("bin.000007", 1100), True, False, END),
        (TWO, Position("bin.000007", 4), True, False, END),
        (TWO, Position("bin.000007", 4), False, False, None),
        (AGAIN, Position("bin.000001", 4), True, True, None),
        (AGAIN, Position("bin.000002", 4), True, True, Position("bin.000002", 4, 2)),
    ],
)
def test_where_rows_count_from_in_a_later_stretch(
    monkeypatch: pytest.MonkeyPatch,
    stretch: Stretch,
    visible: Position,
    committed: bool,
    restarted: bool,
    expected: Position | None,
) -> None:
    monkeypatch.setattr(anchor, "held_gtids", lambda *_: MysqlGtids.parse(f"{A}:1-5"))
    server = cast(Server, QueriedServer(visible, has_committed=committed))
    checkpoint = Checkpoint(END, "batch")
    load_anchor = Anchor(server, stretch, ("server_uuid", B), is_restarted=restarted)
    if expected:
        assert load_anchor.since(checkpoint, cast(Table, None), 5, ONE.begin) == expected
    else:
        with pytest.raises(SourceError, match=r"only of files before that is it sure .*FLUSH BINARY LOGS"):
            load_anchor.since(checkpoint, cast(Table, None), 5, ONE.begin)
