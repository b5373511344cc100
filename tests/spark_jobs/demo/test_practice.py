import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymysql
import pytest

from spark_jobs.demo.practice import next_number, practice_folder, write_forever
from spark_jobs.demo.server import MySQLServer
from spark_jobs.demo.writers import Traffic
from spark_jobs.errors import ConfigError, SourceError
from tests.fix_mysql import Database

ROOT = Path(__file__).parents[3]


@contextmanager
def served(folder: Path, *arguments: str) -> Iterator[tuple["subprocess.Popen[str]", dict[str, str]]]:
    """A process of `demo --serve`, and what it printed of its server."""
    command = [sys.executable, "-m", "spark_jobs.cli", "demo", "--serve", "--rows", "500", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a terminal sends its Ctrl-C to a whole group
    ) as process:
        printed = ""
        assert process.stdout is not None
        for line in process.stdout:
            printed += line
            if "Ctrl-C" in line:
                break
        words = {name: re.search(rf"^ *{name} +(\S+)", printed, re.MULTILINE) for name in ("host", "port", "user")}
        found = {name: match[1] for name, match in words.items() if match}
        exported = re.search(r"^ *export SHOP_PASSWORD=(\S+)$", printed, re.MULTILINE)
        assert exported, printed + process.communicate(timeout=60)[1]
        yield process, found | {"password": exported[1], "printed": printed}


def ended(process: "subprocess.Popen[str]", number: signal.Signals) -> tuple[int, str, str]:
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def ask(address: dict[str, str], statement: str, user: str | None = None) -> tuple[tuple[Any, ...], ...]:
    login: dict[str, Any] = {"host": address["host"], "port": int(address["port"]), "password": address["password"]}
    with (
        pymysql.Connection(**login, user=user or address["user"], autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)
        return tuple(cursor.fetchall())


@pytest.mark.mysql
@pytest.mark.thorough
@pytest.mark.processes
def test_ctrl_c_leaves_nothing_of_a_server_without_a_folder(tmp_path: Path) -> None:
    with served(tmp_path) as (process, address):
        assert address["host"] == "127.0.0.1"
        assert f"init --host 127.0.0.1 --port {address['port']} --connect" in address["printed"]
        # The log is younger than the rows, as on a server in use; others write meanwhile.
        assert ask(address, "SHOW BINARY LOGS")[0][0] == "mysql-bin.000002"
        assert ask(address, "SELECT COUNT(*) FROM shop.customers")[0][0] >= 40
        began, deadline = ask(address, "SELECT @@gtid_executed"), time.monotonic() + 20
        while ask(address, "SELECT @@gtid_executed") == began and time.monotonic() < deadline:
            time.sleep(0.2)
        assert ask(address, "SELECT @@gtid_executed") != began
        # The user of the pipeline writes nothing; root does, also past the log, for verify and mend.
        with pytest.raises(pymysql.OperationalError, match="command denied"):
            ask(address, "DELETE FROM shop.customers")
        assert "GRANT LOCK TABLES ON `shop`.*" in str(ask(address, "SHOW GRANTS"))
        ask(address, "UPDATE shop.customers SET name = 'Eve' WHERE id = 5", "root")
        (folder,) = tmp_path.glob("stratalog-demo-*")
        pid = int((folder / "mysqld.pid").read_text())
        assert address["password"] not in (folder / "mysqld.log").read_text()
        status, out, err = ended(process, signal.SIGINT)
    assert (status, "removed" in out, "interrupted" in err) == (0, True, False)
    assert not Path(f"/proc/{pid}").exists()
    assert list(tmp_path.glob("stratalog-demo-*")) == []


@pytest.mark.mysql
@pytest.mark.thorough
@pytest.mark.processes
def test_a_named_folder_is_kept_and_continued(tmp_path: Path) -> None:
    folder = tmp_path / "practice"
    with served(tmp_path, "--dir", str(folder)) as (process, first):
        ask(first, "UPDATE shop.customers SET name = 'Eve' WHERE id = 5", "root")
        refused = subprocess.run(
            [sys.executable, "-m", "spark_jobs.cli", "demo", "--serve", "--dir", str(folder)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert refused.returncode == 2
        assert "another demo is at work in it" in refused.stderr
        assert ended(process, signal.SIGTERM)[0] == 0
    assert (folder / "account.json").stat().st_mode & 0o777 == 0o600
    with served(tmp_path, "--dir", str(folder)) as (process, second):
        assert [second[name] for name in ("port", "password")] == [first[name] for name in ("port", "password")]
        assert ask(second, "SELECT name FROM shop.customers WHERE id = 5") == (("Eve",),)
        status, out, _ = ended(process, signal.SIGINT)
    assert (status, str(folder) in out) == (0, True)


def test_a_folder_with_anything_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear Ada")
    with pytest.raises(ConfigError, match=r"holds letter.txt, .* empty folder by --dir"), practice_folder(tmp_path):
        pass
    assert [file.name for file in tmp_path.iterdir()] == ["letter.txt"]


@pytest.mark.mysql
def test_what_no_longer_fits_a_changed_table_is_left_out(
    shop: Database, mysql: MySQLServer, capsys: pytest.CaptureFixture[str]
) -> None:
    # With a column gone some transactions fail as a whole, and the next ones are written.
    shop.execute("ALTER TABLE shop.customers DROP COLUMN balance")
    count = iter(range(40))

    def pause() -> None:
        if next(count, None) is None:
            raise KeyboardInterrupt

    with mysql.connect() as connection:
        traffic = Traffic(connection, first=next_number(connection))
        with pytest.raises(KeyboardInterrupt):
            write_forever(mysql, traffic, pause)
    assert traffic.last == 40
    assert shop.execute("SELECT COUNT(*) FROM shop.order_lines WHERE order_id % 9223372036854775808 > 2000000000") == (
        (0,),
    )
    assert shop.execute("SELECT COUNT(*) > 0 FROM shop.carts WHERE contents LIKE 'tea' OR contents LIKE 'more %'") == (
        (1,),
    )
    assert capsys.readouterr().err.count("1054") == 1


@pytest.mark.mysql
def test_traffic_goes_on_after_the_last_order(shop: Database) -> None:
    assert next_number(shop.connection) == 1
    shop.execute("INSERT INTO shop.orders VALUES (9223372036854775808 + 2000000041, 1, NOW(), 'new', 'EUR', 1, NULL)")
    assert next_number(shop.connection) == 42


@pytest.mark.mysql
@pytest.mark.thorough
def test_a_server_that_has_ended_is_told(tmp_path: Path) -> None:
    with MySQLServer(tmp_path) as server, server.connect() as connection:
        server.kill()
        with pytest.raises(SourceError, match="the embedded MySQL server has ended"):
            write_forever(server, Traffic(connection), lambda: None)
