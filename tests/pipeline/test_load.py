"""Tables older than their log, on a real server that is written to meanwhile.

Put here: loads whole, cut short, and in the way of statements. Not here: ranges
(tests/spark_jobs/pipeline/initial_load/test_key_ranges.py), values
(tests/spark_jobs/pipeline/initial_load/test_selecting.py).
"""

import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.config.model import Pipeline
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.downstream import publication
from spark_jobs.errors import ConfigError
from spark_jobs.lake.commit import CommitKind, new_batch
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.table import Table
from spark_jobs.operations.observation.status import status
from spark_jobs.pipeline.initial_load.commit import READING, STOPPED, LoadCommit, progress
from spark_jobs.pipeline.initial_load.load import load_source
from spark_jobs.silver import table as silver
from spark_jobs.source.server import Server
from spark_jobs.text.progress import current
from tests.fix_mysql import Database
from tests.fix_pipeline import SOURCE, Shop, require_same
from tests.lakes.lake_tables import table_rows

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

TABLES = {
    "big": "b VARCHAR(9) CHARACTER SET latin1, a INT UNSIGNED, v INT, d DATETIME, PRIMARY KEY (b, a)",
    "still": "id BIGINT PRIMARY KEY, e ENUM('x', 'y'), t TIME(2), f FLOAT",
    "altered": "id INT PRIMARY KEY, v INT",
    "dropped": "id INT PRIMARY KEY, v INT",
    "emptied": "id INT PRIMARY KEY, v INT",
    "restored": "id INT PRIMARY KEY, v INT",
    "bag": "v INT",
}
STATEMENTS = {
    "altered": ["ALTER TABLE altered ADD COLUMN w INT DEFAULT 7", "INSERT INTO altered VALUES (1000, 1, 1)"],
    "dropped": ["DROP TABLE dropped"],
    "emptied": ["TRUNCATE TABLE emptied", "INSERT INTO emptied VALUES (3, 33), (4000, 4)"],
    "restored": ["ALTER TABLE restored ADD COLUMN w INT", "ALTER TABLE restored DROP COLUMN w"],
}


class Killed(BaseException):
    """Ends a load where nothing is prepared for it."""


def filled(shop: Shop) -> Shop:
    """Tables with rows, in files of the log that the pipeline does not begin with."""
    for name, columns in TABLES.items():
        shop.execute(f"CREATE TABLE {name} ({columns})")
    chance = Random(3)
    for at in range(400):
        shop.database.execute(
            "INSERT IGNORE INTO big VALUES (%s, %s, %s, '2024-02-29 10:00:00')", (chance.choice("aäBz"), at // 2, at)
        )
    shop.execute("INSERT INTO still VALUES (-1, 'x', '-01:00:00.5', 0.5), (9223372036854775807, 'y', NULL, -0.0)")
    for name in STATEMENTS:
        shop.execute(f"INSERT INTO {name} VALUES {', '.join(f'({at}, {at})' for at in range(30))}")
    shop.execute("INSERT INTO bag VALUES (1)", "FLUSH BINARY LOGS")
    return replace(shop, start=shop.end())


@contextmanager
def written_to(database: Database) -> Iterator[None]:
    """Writers of all sorts at one table, until the block is left."""
    ended = threading.Event()
    failed: list[BaseException] = []

    def write(seed: int) -> None:
        chance = Random(seed)
        try:
            with database.server.connect() as connection, connection.cursor() as cursor:
                connection.select_db(database.name)
                while not ended.wait(0.01):
                    key = (chance.choice("aäBzq"), chance.randrange(300))
                    other_key = (chance.choice("aäBzq"), chance.randrange(300))
                    match chance.randrange(4):
                        case 0:
                            cursor.execute("REPLACE INTO big VALUES (%s, %s, 1, NULL)", key)
                        case 1:
                            cursor.execute("UPDATE IGNORE big SET v = v + 1000 WHERE b = %s AND a >= %s LIMIT 3", key)
                        case 2:
                            cursor.execute("DELETE FROM big WHERE b = %s AND a = %s", key)
                        case _:
                            cursor.execute(
                                "UPDATE IGNORE big SET b = %s, a = %s WHERE b = %s AND a = %s", (*other_key, *key)
                            )
        except BaseException as error:  # noqa: BLE001 - reported by the test's own thread
            failed.append(error)

    threads = [threading.Thread(target=write, args=[seed]) for seed in (1,)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert not failed


def completeness(shop: Shop, pipeline: Pipeline) -> dict[str, bool | None]:
    return {entry.table: entry.complete for entry in publication.read(lake_of(pipeline), SOURCE)}


def files_shared(shop: Shop, pipeline: Pipeline, name: str) -> int:
    """Number of files that a table's silver has from where its rows waited."""
    lake = lake_of(pipeline)
    tables = (table(SOURCE, shop.database.name, name) for table in (lake.silver, lake.load))
    silver_files, waiting = ({file.name: file for file in Path(table.path).glob("*.parquet")} for table in tables)
    return sum(waiting[file].samefile(silver_files[file]) for file in {*silver_files} & {*waiting})


@pytest.mark.by_spark
@pytest.mark.long
def test_tables_are_completed_while_they_are_written_to(shop: Shop) -> None:
    shop = filled(shop)
    pipeline = shop.pipeline(live=True, tables=[f"{shop.database.name}.*", f"!{shop.database.name}.bag"])
    lake, big = lake_of(pipeline), TableName(shop.database.name, "big")
    with written_to(shop.database):
        shop.execute("CREATE TABLE fresh (id INT PRIMARY KEY)")
        shop.run(pipeline)
        shop.execute("INSERT INTO fresh VALUES (1)")

        def killing(name: TableName, commit: LoadCommit) -> None:
            if name == big and commit.chunks >= 8:
                raise Killed

        with pytest.raises(Killed):
            load_source(shop.spark, pipeline, SOURCE, tables=[str(big)], chunk_rows=20, on_progress=killing)
        interrupted = progress(lake, SOURCE, big)
        assert interrupted is not None
        assert (interrupted.state, interrupted.chunks, interrupted.is_walked) == (READING, 8, False)
        assert silver.Op.LOAD not in [row["_op"] for row in shop.silver(pipeline, "big")]
        assert completeness(shop, pipeline) == {"big": False, "fresh": True}

        steps: list[tuple[str, int]] = []

        def disturbing(name: TableName, commit: LoadCommit) -> None:
            steps.append((name.table, commit.chunks))
            if commit.is_walked and commit.state == READING:
                shop.execute(*STATEMENTS.get(name.table, ()))

        load = load_source(shop.spark, pipeline, SOURCE, chunk_rows=20, on_progress=disturbing)
    assert min(chunks for name, chunks in steps if name == "big") > 8, "what was read before is not read again"
    assert {name.table for name in load.tables} == {"big", "still", "emptied"}
    stopped = {name.table: reason for name, reason in load.stopped.items()}
    assert stopped.keys() == {"altered", "dropped", "restored"}
    assert "was changed while it was loaded, by ALTER TABLE at" in stopped["restored"]
    assert "was changed while it was loaded" in stopped["altered"]
    assert "gone from the server" in stopped["dropped"]
    complete = dict.fromkeys(("big", "still", "emptied", "fresh"), True)
    assert completeness(shop, pipeline) == complete | {"altered": False, "dropped": False, "restored": False}
    assert silver.Op.LOAD not in [row["_op"] for row in shop.silver(pipeline, "altered")]
    assert table_rows(lake.load(SOURCE, shop.database.name, "big")) == []
    # Both the table that silver had and the one that the load made have the files that were read into.
    assert files_shared(shop, pipeline, "big") >= 4
    assert files_shared(shop, pipeline, "still") == 1
    tables_shown = {table.table.partition(".")[2]: table for table in status(pipeline, lake, SOURCE).tables}
    assert (tables_shown["big"].complete, tables_shown["altered"].complete) == (True, False)
    assert tables_shown["altered"].load is not None
    assert tables_shown["altered"].load["state"] == "stopped"

    shop.execute("UPDATE big SET v = 0", "DELETE FROM still WHERE id > 0", "INSERT INTO emptied VALUES (5, 5)")
    shop.run(pipeline)
    for name in ("big", "still", "emptied", "fresh"):
        require_same(shop, pipeline, name)


def load_until_killed(shop: Shop, pipeline: Pipeline, name: TableName, *, is_again: bool = False) -> None:
    """A load that ends once its first rows are committed."""

    def killing(_name: TableName, commit: LoadCommit) -> None:
        if commit.chunks:
            raise Killed

    options: dict[str, Any] = {"is_again": is_again, "on_progress": killing}
    with pytest.raises(Killed):
        load_source(shop.spark, pipeline, SOURCE, tables=[str(name)], chunk_rows=2, **options)


def test_a_load_whose_log_is_removed_begins_anew_and_one_of_a_complete_table_ends(shop: Shop) -> None:
    numbers = ", ".join(f"({number}, 0)" for number in range(40))
    shop.execute("CREATE TABLE old (id INT PRIMARY KEY, v INT)", f"INSERT INTO old VALUES {numbers}")
    shop.execute("FLUSH BINARY LOGS")
    pipeline = replace(shop, start=shop.end()).pipeline(live=True)
    lake, name = lake_of(pipeline), TableName(shop.database.name, "old")
    load_until_killed(shop, pipeline, name)
    # gc removes the log from which on the rows count.
    shop.execute("UPDATE old SET v = 1 WHERE id < 3", "DELETE FROM old WHERE id = 3")
    shop.run(pipeline)
    bronze = lake.bronze(SOURCE)
    head = bronze.head()
    snapshot = snapshot_of(bronze.path)
    commit = BronzeCommit.of_head(head)
    assert head
    assert snapshot
    assert commit
    removal = replace(commit, batch=new_batch(), kind=CommitKind.GC, oldest=head.position, removed_to=head.position)
    bronze.land(snapshot, head, removal)
    load = load_source(shop.spark, pipeline, SOURCE, tables=[str(name)], chunk_rows=2)
    assert load.stopped == {}
    assert load.tables[name].read_from == head.position
    assert require_same(shop, pipeline, "old") == 39
    # A load of the table as it is now, which nobody continues.
    load_until_killed(shop, pipeline, name, is_again=True)
    assert load_source(shop.spark, pipeline, SOURCE, tables=[str(name)]).already == [name]
    ended = progress(lake, SOURCE, name)
    assert ended
    assert (ended.state, ended.reason) == (STOPPED, "the table has all of its rows")
    assert require_same(shop, pipeline, "old") == 39


@pytest.mark.long
def test_a_load_that_was_stopped_begins_anew(shop: Shop) -> None:
    shop.execute(
        "CREATE TABLE altered (id INT PRIMARY KEY, v INT)", "INSERT INTO altered VALUES (1, 1), (2, 2), (3, 3)"
    )
    shop.execute("FLUSH BINARY LOGS")
    pipeline = replace(shop, start=shop.end()).pipeline(live=True)

    lines: list[str] = []

    def disturbing(name: TableName, commit: LoadCommit) -> None:
        activity = current()
        lines.append(activity.line(activity.since + 2) if activity else "")
        if commit.is_walked and commit.state == READING:
            shop.execute(*STATEMENTS["altered"])

    assert load_source(shop.spark, pipeline, SOURCE, chunk_rows=2, on_progress=disturbing).stopped
    read = re.compile(
        rf"{SOURCE}: reading \S+\.altered: 3( of about [234])? rows \(2 s, 2 a second(, about \d s to go)?\)"
    )
    assert [line for line in lines if read.fullmatch(line)], lines
    repeated = load_source(shop.spark, pipeline, SOURCE, chunk_rows=2)
    assert not repeated.stopped
    assert [table.rows for table in repeated.tables.values()] == [4]
    require_same(shop, pipeline, "altered")
    shop.execute("UPDATE altered SET w = id")
    shop.run(pipeline)
    require_same(shop, pipeline, "altered")


def test_what_cannot_be_loaded_is_refused_by_name(shop: Shop) -> None:
    shop.execute("CREATE TABLE bag (v INT)", "CREATE TABLE t (id INT PRIMARY KEY)")
    pipeline = shop.pipeline(live=True)
    load = load_source(shop.spark, pipeline, SOURCE, tables=[f"{shop.database.name}.*"])
    assert "GRANT LOCK TABLES ON" in load.stopped[TableName(shop.database.name, "bag")]
    with pytest.raises(ConfigError, match=r"the server has no table shop\.gone"):
        load_source(shop.spark, pipeline, SOURCE, tables=["shop.gone"])


def test_what_a_load_reads_of_all_tables_does_not_grow_with_those_it_loads(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each table's own definition is asked for; those of all, and all statements of the log, once a load."""
    for name in ("few_1", "many_1", "many_2", "many_3", "many_4"):
        shop.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY)", f"INSERT INTO {name} VALUES (1)")
    shop.execute("FLUSH BINARY LOGS")
    pipeline = replace(shop, start=shop.end()).pipeline(live=True)
    path = lake_of(pipeline).schema(SOURCE).path
    counts: Counter[str] = Counter()
    ask, rows = Server.ask, Table.rows

    def counting_ask(self: Server, connection: Any, query: str, *arguments: Any) -> list[dict[str, Any]]:
        if "FROM information_schema.COLUMNS c" in query:
            counts["one table" if "AND TABLE_NAME = " in query else "all tables"] += 1
        return ask(self, connection, query, *arguments)

    def counting_rows(self: Table, conditions: Any = None, *arguments: Any, **named: Any) -> list[dict[str, Any]]:
        counts["statements"] += self.path == path and conditions == [("origin", "=", "ddl")]
        return rows(self, conditions, *arguments, **named)

    monkeypatch.setattr(Server, "ask", counting_ask)
    monkeypatch.setattr(Table, "rows", counting_rows)
    read = []
    shop.run(pipeline)
    for prefix in ("few", "many"):
        counts.clear()
        load = load_source(shop.spark, pipeline, SOURCE, tables=[f"{shop.database.name}.{prefix}_*"])
        read.append((len(load.tables), counts["one table"], counts["all tables"], counts["statements"]))
    (first_loaded, first_own, *first_whole), (second_loaded, second_own, *second_whole) = read
    assert (first_loaded, second_loaded) == (1, 4)
    assert second_whole == first_whole
    assert second_own == 4 * first_own > 0


@pytest.mark.thorough
def test_rows_with_zero_dates_in_their_key_are_loaded_and_changed_like_logged_ones(shop: Shop) -> None:
    keys = {
        "days": "day DATE, k INT, v INT, PRIMARY KEY (day, k)",
        "moments": "day DATETIME(1), k INT, v INT, PRIMARY KEY (k, day)",
    }
    days = ("0000-00-00", "2024-00-00", "2024-01-00", "2024-01-02", "0000-00-00")
    rows = ", ".join(f"('{day}', {k}, 1)" for k, day in enumerate(days))
    shop.execute("SET SESSION sql_mode = ''")
    for table, columns in keys.items():
        shop.execute(f"CREATE TABLE {table} ({columns})", f"INSERT INTO {table} VALUES {rows}")
    shop.execute("FLUSH BINARY LOGS")
    late = replace(shop, start=shop.end())
    for table, columns in keys.items():
        shop.execute(f"CREATE TABLE logged_{table} ({columns})", f"INSERT INTO logged_{table} VALUES {rows}")
    pipeline = late.pipeline(live=True)
    late.run(pipeline)
    assert load_source(late.spark, pipeline, SOURCE, chunk_rows=2).stopped == {}
    for table in (*keys, *(f"logged_{table}" for table in keys)):
        assert require_same(late, pipeline, table) == len(days)
        shop.execute(
            f"UPDATE {table} SET v = 2 WHERE k IN (0, 2)",
            f"DELETE FROM {table} WHERE k = 1",
            f"UPDATE {table} SET day = '0000-00-00' WHERE k = 3",
            f"UPDATE {table} SET day = '2024-02-29' WHERE k = 4",
        )
    assert late.run(pipeline)[1].stopped == {}
    for table in (*keys, *(f"logged_{table}" for table in keys)):
        assert require_same(late, pipeline, table) == len(days) - 1
