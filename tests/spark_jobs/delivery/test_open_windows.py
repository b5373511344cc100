"""Windows that are open when a delivery dies, and continued under other settings, with other tables at the source."""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.delivery.deliver import chosen_tables, deliver, reload_tables
from spark_jobs.lake.layout import lake_of
from spark_jobs.pipeline.run import run_source
from tests.delivered import Copy
from tests.fix_pipeline import SOURCE
from tests.proxy import Listener

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

ROWS = 30
DELIVERED = ("keyed", "counted", "spare")
DEATHS = 12
TRUE_STOPS = (
    r"Duplicate entry .* overwrite it by safe_mode: on",
    r"set apply: ordered until a run has delivered all",
    r"was begun .* so the rest of it is not known; put that back until the window is complete, or ",
    r"was delivered up to .* without it, .* deliver it from the beginning",
)


class SavedTarget:
    """What the target has of a delivery, under names by which it is put back."""

    def __init__(self, copy: Copy) -> None:
        self.copy = copy
        self.tables = [*(f"`{copy.schema}`.{name}" for name in DELIVERED), "stratalog.checkpoint"]

    def save(self, name: str) -> None:
        for table in self.tables:
            saved = self._saved(table, name)
            self.copy.execute(f"CREATE TABLE {saved} LIKE {table}", f"INSERT INTO {saved} SELECT * FROM {table}")

    def restore(self, name: str) -> None:
        self.copy.execute(f"DROP TABLE IF EXISTS `{self.copy.schema}`.aaa")
        for table in self.tables:
            self.copy.execute(f"DELETE FROM {table}", f"INSERT INTO {table} SELECT * FROM {self._saved(table, name)}")

    def _saved(self, table: str, name: str) -> str:
        return f"`{self.copy.schema}`.saved_{name}_{table.rpartition('.')[2]}"


def _dead_deliveries(copy: Copy, saved: SavedTarget, settings: dict[str, Any], generator: random.Random) -> list[str]:
    """Deliveries that died at statements, until so many windows are open; the names of what the target has then."""
    pipeline = copy.pipeline(**settings)
    script = Path(__file__).parent / "killed.py"
    names: list[str] = []
    with subprocess.Popen(
        [sys.executable, str(script), str(pipeline.path), "copy"],
        env=os.environ | {"PYTHONPATH": "."},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        while len(names) < DEATHS:
            saved.restore("first")
            process.stdin.write(f"{generator.randint(12, 70)} {generator.choice(['before', 'after'])}\n")
            process.stdin.flush()
            if int(process.stdout.readline()) != -signal.SIGKILL:
                continue
            if any(row["exit_version"] is not None for row in copy.progress()):
                names.append(str(len(names)))
                saved.save(names[-1])
    return names


def _random_settings(generator: random.Random) -> dict[str, Any]:
    keys: dict[str, Any] = {
        "safe_mode": generator.choice(["auto", "on", "off"]),
        "batch_rows": generator.choice([1, 2, 4, 1000]),
        "workers": generator.choice([1, 3]),
        "ddl": generator.choice(["apply", "stop", "ignore"]),
        "apply": generator.choice(["net", "ordered"]),
        "tables": generator.choice([(), (), (), ("*", "!*.counted")]),
    }
    return dict(generator.sample(sorted(keys.items()), generator.randint(1, 4)))


@pytest.mark.long
@pytest.mark.parametrize("apply", ["net", "ordered"])
def test_killed_anywhere_and_continued_otherwise(copy: Copy, apply: str, summary: list[str]) -> None:
    """Equal rows, or a stop whose remedy leads to them."""
    generator = random.Random(37)
    values = ", ".join(f"({number}, {number})" for number in range(ROWS))
    copy.shop.execute(
        "CREATE TABLE keyed (id INT PRIMARY KEY, n INT)",
        "CREATE TABLE counted (a INT, b VARCHAR(9))",
        "CREATE TABLE spare (id INT PRIMARY KEY)",
        f"INSERT INTO keyed VALUES {values}",
        f"INSERT INTO counted VALUES {values}, {values}",
        "INSERT INTO spare VALUES (1)",
    )
    settings: dict[str, Any] = {"apply": apply, "batch_rows": 1, "workers": 2}
    copy.run(copy.pipeline(**settings))
    saved = SavedTarget(copy)
    saved.save("first")
    copy.shop.execute(
        *(f"UPDATE keyed SET n = -n WHERE id BETWEEN {at} AND {at + 4}" for at in range(0, ROWS, 5)),
        "DELETE FROM keyed WHERE id % 5 = 0",
        "UPDATE keyed SET id = id + 1000 WHERE id % 5 = 1",
        *(f"INSERT INTO keyed VALUES ({number + 500}, {number})" for number in range(ROWS)),
        *(f"INSERT INTO counted VALUES ({number}, 'new')" for number in range(ROWS)),
        "DELETE FROM counted WHERE a % 3 = 0 LIMIT 11",
        "INSERT INTO spare VALUES (2)",
    )
    run_source(copy.shop.spark, copy.pipeline(**settings), SOURCE)
    names = _dead_deliveries(copy, saved, settings, generator)
    # Tables before and after the others by name, one that is gone, one that has another name.
    copy.shop.execute(
        "CREATE TABLE aaa (id INT PRIMARY KEY)", "INSERT INTO aaa VALUES (1)", "DROP TABLE spare",
        "INSERT INTO keyed VALUES (7777, 0)", "INSERT INTO counted VALUES (7777, 'x')",
    )  # fmt: skip
    run_source(copy.shop.spark, copy.pipeline(**settings), SOURCE)
    stops, reloads, changes, rows = Counter[str](), 0, 0, 0
    for name in names:
        saved.restore(name)
        was_left_out = False
        for _ in range(generator.randint(1, 2)):
            changed = _random_settings(generator)
            changes += len(changed)
            was_left_out = was_left_out or bool(changed.get("tables"))
            for reason in deliver(copy.pipeline(**settings | changed), "copy").stopped.values():
                [kind] = [pattern for pattern in TRUE_STOPS if re.search(pattern, reason)]
                stops[kind] += 1
                assert "Duplicate" not in kind or changed.get("safe_mode") == "off", reason
        # As its messages say: under its own settings again, and from the beginning where a table was left out.
        pipeline = copy.pipeline(**settings)
        stopped = deliver(pipeline, "copy").stopped
        if stopped:
            assert was_left_out, stopped
            tables = chosen_tables(pipeline, lake_of(pipeline), "copy")
            reload_tables(pipeline, "copy", [table for table in tables if (table.schema, table.name) in stopped])
            reloads += 1
            assert deliver(pipeline, "copy").stopped == {}
        for table in ("keyed", "counted", "aaa"):
            assert copy.rows(table) == copy.source_rows(table), (table, name)
            rows += len(copy.rows(table))
        assert {row["exit_version"] for row in copy.progress()} == {None}
    summary.append(
        f"delivery, {apply}: killed × {len(names)} in open windows, {changes} settings changed, {sum(stops.values())} "
        f"stops, {reloads} reloads: {rows:,} rows compared, 0 lost, 0 doubled"
    )


class StatementHolder(Listener):
    """Holds the first statement that has a text until it is released, whoever is waiting for it."""

    def __init__(self, host: str, port: int, text: bytes) -> None:
        self._upstream, self._text = (host, port), text
        self.is_held, self.is_released, self.is_passed_on = threading.Event(), threading.Event(), threading.Event()
        super().__init__()

    def _accepted(self, client: socket.socket) -> None:
        server = socket.create_connection(self._upstream)
        threading.Thread(target=self._questions, args=(client, server), daemon=True).start()
        threading.Thread(target=self._answers, args=(client, server), daemon=True).start()

    def _questions(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while question := client.recv(1 << 16):
                if self._text in question and not self.is_held.is_set():
                    self.is_held.set()
                    self.is_released.wait(300)
                    with suppress(OSError):
                        server.sendall(question)
                    time.sleep(1)
                    self.is_passed_on.set()
                    continue
                server.sendall(question)
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _answers(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while answer := server.recv(1 << 16):
                client.sendall(answer)
        for end in (client, server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@pytest.mark.long
@pytest.mark.parametrize("read_timeout", [2, 60])
@pytest.mark.parametrize(
    "statement, held, later",
    [
        ("ALTER TABLE t ADD c TEXT NOT NULL", b"SET `c` = ", "UPDATE t SET c = 'new'"),
        ("TRUNCATE TABLE t", b"TRUNCATE TABLE", "INSERT INTO t (id) VALUES (5), (6)"),
    ],
)
def test_a_statement_that_arrives_late(copy: Copy, statement: str, held: bytes, later: str, read_timeout: int) -> None:
    """What one run sent, and the server gets when another one has delivered more: it changes nothing any more."""
    copy.shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    copy.run(copy.pipeline(apply="ordered"))
    copy.shop.execute(statement, later)
    run_source(copy.shop.spark, copy.pipeline(apply="ordered"), SOURCE)
    server = copy.server
    with StatementHolder(server.host, server.port, held) as holder:
        login: dict[str, Any] = {"host": server.host, "port": holder.port, "user": "writer", "password": "writes"}
        login |= {"tls": {"enabled": False}, "read_timeout": read_timeout}
        through_holder: dict[str, Any] = {"apply": "ordered", "mysql": login}
        delivering = threading.Thread(target=deliver, args=(copy.pipeline(**through_holder), "copy"))
        delivering.start()
        assert holder.is_held.wait(120)
        # With a short time for answers the first run gives up or tries again; otherwise it is overtaken.
        if read_timeout < 60:
            delivering.join(120)
        assert deliver(copy.pipeline(apply="ordered"), "copy").stopped == {}
        copy.require_same("t")
        holder.is_released.set()
        assert holder.is_passed_on.wait(60)
        delivering.join(120)
    copy.require_same("t")
