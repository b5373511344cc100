import signal
import subprocess
import sys
import time
from pathlib import Path

import pymysql
import pytest

from spark_jobs.demo import server as module
from spark_jobs.demo.server import MySQLServer
from spark_jobs.demo.stub_libraries import LIBRARIES, write_library
from spark_jobs.errors import ConfigError, SourceError
from tests.fix_mysql import Database

pytestmark = pytest.mark.mysql


def variables(server: MySQLServer, *names: str) -> list[str]:
    with server.connect() as connection, connection.cursor() as cursor:
        values = []
        for name in names:
            cursor.execute("SHOW GLOBAL VARIABLES LIKE %s", (name,))
            values.append(cursor.fetchall()[0][1])
        return values


def alive(pid: int) -> bool:
    """True if that process runs: one that has ended, but whom nobody has waited for, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may go between the opening and the reading
        return False


def ends(pid: int, within: float) -> bool:
    deadline = time.monotonic() + within
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not alive(pid)


def test_it_logs_rows_with_full_metadata_and_gtids(mysql: MySQLServer) -> None:
    names = ("log_bin", "binlog_format", "binlog_row_image", "binlog_row_metadata", "gtid_mode", "server_id")
    assert variables(mysql, *names) == ["ON", "ROW", "FULL", "FULL", "ON", "1"]
    assert variables(mysql, "bind_address", "port") == ["127.0.0.1", str(mysql.port)]


def test_a_schema_of_ones_own(database: Database) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    database.execute("INSERT INTO t VALUES (%s), (%s)", (1, 2))
    assert database.execute("SELECT COUNT(*) FROM t") == ((2,),)


def test_the_replication_user_may_read_and_follow_but_not_write(database: Database) -> None:
    server = database.server
    with server.connect(user=server.user, password=server.password) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        assert cursor.fetchall()[0][0].startswith("mysql-bin.")
        with pytest.raises(pymysql.OperationalError, match="CREATE command denied"):
            cursor.execute(f"CREATE TABLE {database.name}.t (id INT)")


@pytest.mark.parametrize("user", ["root", "repl"])
def test_nobody_gets_in_without_the_password(user: str, mysql: MySQLServer) -> None:
    with pytest.raises(pymysql.OperationalError, match="Access denied"):
        mysql.connect(user=user, password="")


def test_the_log_begins_with_the_users_first_statement(tmp_path: Path) -> None:
    with MySQLServer(tmp_path) as server, server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW BINARY LOGS")
        assert [name for name, _ in cursor.fetchall()] == ["mysql-bin.000001"]
        cursor.execute("SELECT @@gtid_executed")
        assert cursor.fetchall() == (("",),)


def test_options_replace_the_defaults_and_none_leaves_one_out(tmp_path: Path) -> None:
    options = {"binlog_row_metadata": "MINIMAL", "server_id": 7, "binlog_row_image": None}
    with MySQLServer(tmp_path, options) as server:
        assert variables(server, "binlog_row_metadata", "server_id", "binlog_row_image") == ["MINIMAL", "7", "FULL"]


@pytest.mark.thorough
def test_two_servers_beside_each_other_are_two(tmp_path: Path) -> None:
    with MySQLServer(tmp_path / "one") as first, MySQLServer(tmp_path / "two") as two:
        assert first.port != two.port
        assert variables(first, "server_uuid") != variables(two, "server_uuid")


@pytest.mark.thorough
def test_a_directory_with_a_name_longer_than_a_socket_may_have(tmp_path: Path) -> None:
    directory = tmp_path / ("d" * 120) / ("e" * 120)
    with MySQLServer(directory) as server:
        assert server.data.parent == directory


@pytest.mark.thorough
@pytest.mark.parametrize("crash", [False, True])
def test_what_was_committed_is_there_after_a_restart(crash: bool, tmp_path: Path) -> None:
    with MySQLServer(tmp_path) as server:
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE shop")
            cursor.execute("CREATE TABLE shop.t (id INT PRIMARY KEY)")
            cursor.execute("INSERT INTO shop.t VALUES (1)")
        if crash:
            server.kill()
            server.start()
        else:
            server.restart()
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT id FROM shop.t")
            assert cursor.fetchall() == ((1,),)
            cursor.execute("SHOW BINARY LOGS")
            assert [row[0] for row in cursor.fetchall()] == ["mysql-bin.000001", "mysql-bin.000002"]


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"did not start: .*unknown variable 'no_such_option=1'"):
        MySQLServer(tmp_path, {"no_such_option": 1}).start()


def test_a_running_server_is_not_started_again(mysql: MySQLServer) -> None:
    with pytest.raises(SourceError, match="running already"):
        mysql.start()


@pytest.mark.thorough
def test_stopping_twice_is_stopping(tmp_path: Path) -> None:
    with MySQLServer(tmp_path) as server:
        server.stop()
    server.kill()
    with pytest.raises(pymysql.OperationalError, match="Can't connect"):
        server.connect()


def test_a_library_without_stand_in_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_missing_library", lambda *_: "libstdc++.so.6")
    with pytest.raises(ConfigError, match=r"needs libstdc\+\+\.so\.6, which this machine lacks"):
        MySQLServer(tmp_path).start()


@pytest.mark.thorough
def test_it_works_on_stand_ins_for_all_libraries(tmp_path: Path) -> None:
    for name in LIBRARIES:
        write_library(tmp_path / "lib", name)
    with MySQLServer(tmp_path) as server:
        pid = int((tmp_path / "mysqld.pid").read_text())
        assert str(tmp_path / "lib" / "libnuma.so.1") in Path(f"/proc/{pid}/maps").read_text()
        assert variables(server, "version") == ["8.0.12"]


PARENT = """
import sys, time
from pathlib import Path
from spark_jobs.demo.server import MySQLServer
with MySQLServer(Path(sys.argv[1])):
    print((Path(sys.argv[1]) / "mysqld.pid").read_text(), flush=True)
    time.sleep(600)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_its_parent(end: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert alive(pid)
        parent.send_signal(end)
        parent.wait(30)
        assert ends(pid, within=30)
