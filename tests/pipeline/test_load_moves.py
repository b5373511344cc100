"""Tables older than their log, loaded from whichever server the source is on, and while it goes from one to the other.

Put here: moves around a load and in the middle of one. Not here: loads from one server (test_load.py), or moves without
one (test_endpoints.py).
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.config.model import Pipeline
from spark_jobs.demo.server import MySQLServer
from spark_jobs.downstream import publication
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position
from spark_jobs.pipeline.initial_load.commit import READ, READING, STOPPED, LoadCommit, progress
from spark_jobs.pipeline.initial_load.load import Loaded, load_source
from spark_jobs.pipeline.run import extract_source
from tests.fix_pair import FLAVORS, SOURCE, Pair, execute
from tests.fix_pipeline import rows

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.long]

MORE = ("big", "lost", "altered")


class Killed(BaseException):
    """Ends a load where nothing is prepared for it."""


def load(
    pair: Pair, pipeline: Pipeline, table: str, on_commit: Callable[[LoadCommit], None] = lambda _commit: None
) -> Loaded:
    (pair.folder / "pipeline.endpoints.json").unlink(missing_ok=True)  # no endpoint waits from before
    name = f"shop.{table}"
    return load_source(
        pair.spark, pipeline, SOURCE, tables=[name], chunk_rows=4, on_progress=lambda _name, commit: on_commit(commit)
    )


def require_same(pair: Pair, pipeline: Pipeline, table: str, server: MySQLServer) -> None:
    actual = rows(lake_of(pipeline).downstream("shop", table).read(pair.spark))
    assert actual == sorted(execute(server, f"SELECT * FROM shop.{table}"))


def is_complete(pipeline: Pipeline, table: str) -> bool | None:
    return next(entry.complete for entry in publication.read(lake_of(pipeline), SOURCE) if entry.table == table)


@pytest.mark.parametrize("pair", FLAVORS, indirect=True)
def test_a_load_through_moves_between_a_primary_and_its_replica(pair: Pair) -> None:
    numbers = ", ".join(f"({n}, {n})" for n in range(40))
    for table in MORE:
        execute(pair.primary, f"CREATE TABLE shop.{table} (id INT PRIMARY KEY, v INT)")
        execute(pair.primary, f"INSERT INTO shop.{table} VALUES {numbers}")
    pair.await_all(pair.replica, pair.primary)
    moves = Moves(pair, pair.pipeline(pair.replica, pair.primary, start="latest"), pair.pipeline(start="latest"))
    pair.run(moves.on_primary)
    moves.behind_a_takeover()
    moves.the_server_is_lost_when_all_was_read()
    moves.cut_off_between_ranges()
    moves.a_statement_that_came_before_the_move()
    moves.a_row_that_no_other_server_has()
    execute(pair.primary, "UPDATE shop.lost SET v = 7 WHERE id < 3", "DELETE FROM shop.altered WHERE id > 30")
    pair.run(moves.on_primary)
    for table in ("orders", "notes", *MORE):
        assert is_complete(moves.on_primary, table)
        require_same(pair, moves.on_primary, table, pair.primary)


@dataclass(frozen=True)
class Moves:
    """What a load meets, one after the other: servers take long to start."""

    pair: Pair
    on_replica: Pipeline
    on_primary: Pipeline

    @property
    def ends(self) -> tuple[str, str]:
        first, second = (f"{server.host}:{server.port}" for server in (self.pair.primary, self.pair.replica))
        return first, second

    def write(self, *statements: str) -> None:
        """At the primary, and waits for the replica."""
        execute(self.pair.primary, *statements)
        self.pair.await_all(self.pair.replica, self.pair.primary)

    def load(
        self, table: str, on_commit: Callable[[LoadCommit], None] = lambda _commit: None, *, on_primary: bool = False
    ) -> Loaded:
        return load(self.pair, self.on_primary if on_primary else self.on_replica, table, on_commit)

    def behind_a_takeover(self) -> None:
        """All that bronze has stands in a file that the replica still writes."""

        def written_to(commit: LoadCommit) -> None:
            if commit.state == READING and commit.chunks == 4:
                self.write(
                    "UPDATE shop.orders SET state = 'amid' WHERE id IN (3, 18)",
                    "DELETE FROM shop.orders WHERE id = 4",
                    "INSERT INTO shop.orders VALUES (100, 'new')",
                )

        self.write("UPDATE shop.orders SET state = 'late' WHERE id = 1", "DELETE FROM shop.orders WHERE id = 2")
        outcome = self.load("orders", written_to)
        assert (outcome.stopped, list(outcome.tables)) == ({}, [TableName("shop", "orders")])
        assert self.pair.in_use(self.on_primary) == [*self.ends]
        assert outcome.tables[TableName("shop", "orders")].since.stretch == 2
        require_same(self.pair, self.on_primary, "orders", self.pair.primary)

    def the_server_is_lost_when_all_was_read(self) -> None:
        """The other one has every transaction that the rows may show."""

        def losing(commit: LoadCommit) -> None:
            if commit.state == READING and commit.is_walked:
                self.write("UPDATE shop.notes SET text = 'seen by no query' WHERE id = 1")
            if commit.state == READ:
                self.pair.replica.kill()
                execute(self.pair.primary, "INSERT INTO shop.notes VALUES (3, 'behind all that was read')")

        load = self.load("notes", losing)
        first, second = self.ends
        assert (load.stopped, self.pair.in_use(self.on_primary)) == ({}, [first, second, first])
        require_same(self.pair, self.on_primary, "notes", self.pair.primary)

    def cut_off_between_ranges(self) -> None:
        """The source has moved when the load is given again: the table begins anew."""

        def killing(commit: LoadCommit) -> None:
            if commit.chunks >= 4:
                execute(
                    self.pair.primary,
                    "DELETE FROM shop.big WHERE id = 0",
                    "UPDATE shop.big SET v = -1 WHERE id IN (1, 39)",
                )
                raise Killed

        with pytest.raises(Killed):
            self.load("big", killing, on_primary=True)
        self.back()
        steps: list[tuple[int, int]] = []
        outcome = self.load("big", lambda commit: steps.append((commit.since.stretch, commit.chunks)))
        assert (outcome.stopped, steps[0]) == ({}, (4, 0))
        require_same(self.pair, self.on_primary, "big", self.pair.primary)

    def a_statement_that_came_before_the_move(self) -> None:
        """Nobody can tell any more whether it came before the end of the reading, or behind it."""

        def altering(commit: LoadCommit) -> None:
            if commit.state == READ:
                self.write("ALTER TABLE shop.altered ADD COLUMN w INT DEFAULT 7")
                self.pair.replica.kill()

        outcome = self.load("altered", altering)
        assert "was changed while it was loaded, by ALTER TABLE" in outcome.stopped[TableName("shop", "altered")]
        self.back()

    def a_row_that_no_other_server_has(self) -> None:
        """It was read, and the server lost before it gave the row away; others went on, by numbers like its own."""

        def writing(commit: LoadCommit) -> None:
            if commit.state == READING and commit.chunks == 0:
                execute(self.pair.replica, "STOP SLAVE", "INSERT INTO shop.lost VALUES (999, 999)")
            if commit.state == READ:
                self.pair.replica.kill()
                execute(self.pair.primary, *(f"INSERT INTO shop.notes VALUES ({n}, 'went on')" for n in (4, 5)))

        (reason,) = self.load("lost", writing).stopped.values()
        first, second = self.ends
        assert f"was read from {second}, which had " in reason
        assert f"bronze has gone on with the log of {first} without that; load it again" in reason
        interrupted = progress(lake_of(self.on_primary), SOURCE, TableName("shop", "lost"))
        assert interrupted is not None
        assert (interrupted.state, is_complete(self.on_primary, "lost")) == (STOPPED, False)
        for table in ("lost", "altered"):
            assert self.load(table, on_primary=True).stopped == {}

    def back(self) -> None:
        self.pair.replica.start()
        self.pair.await_all(self.pair.replica, self.pair.primary)


@pytest.mark.parametrize("pair", FLAVORS, indirect=True)
def test_a_log_that_its_server_begins_anew_amid_a_load(pair: Pair) -> None:
    """GTIDs are given again, so that they tell nothing."""
    primary = pair.primary
    alone = pair.pipeline(primary, start="latest", on_new_server="continue")
    pair.run(alone)

    def reset(commit: LoadCommit) -> None:
        if commit.state == READ:
            execute(primary, "RESET MASTER", "INSERT INTO shop.notes VALUES (2, 'after it')")

    outcome = load(pair, alone, "notes", reset)
    assert "a log of the source was restarted since; load it again" in outcome.stopped[TableName("shop", "notes")]
    with pytest.raises(Exception, match=r"only of files before that is it sure .*FLUSH BINARY LOGS"):
        load(pair, alone, "notes")
    execute(primary, "FLUSH BINARY LOGS")
    outcome = load(pair, alone, "notes")
    assert outcome.stopped == {}
    (since,) = (table.since for table in outcome.tables.values())
    assert since >= Position("mysql-bin.000002", 4, 2), "MariaDB tells the place of a snapshot, behind the file's head"
    extract_source(pair.spark, alone, SOURCE)
    require_same(pair, alone, "notes", primary)
