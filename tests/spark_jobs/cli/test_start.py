"""init on real servers, and completion by the shells' own protocol."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.checks import Check
from spark_jobs.cli.start import _remarks
from spark_jobs.config.loader import load
from tests.fix_cli import Stratalog
from tests.fix_servers import Servers

TABLE = "CREATE TABLE t (id INT PRIMARY KEY)"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SHOP_PASSWORD", raising=False)
    return tmp_path


def test_init_writes_a_file_that_check_takes(
    stratalog: Stratalog, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = stratalog("init", "--host", "db.internal")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "wrote pipeline.yaml",
        "next: export SHOP_PASSWORD=…, then stratalog check --connect",
    ]
    monkeypatch.setenv("SHOP_PASSWORD", "p")
    checked = stratalog("check", "-c", "pipeline.yaml")
    assert (checked.status, checked.out) == (0, "pipeline.yaml: no problems found\n")


@pytest.mark.parametrize(
    "arguments, status, message",
    [
        (["--files", "x", "--connect"], 2, "--files is in place of --host and --connect"),
        (["--connect"], 2, "--connect needs --host"),
        (["--source", "a b"], 2, "a source's name is made of letters"),
        (["--password-variable", "a-b"], 2, "a-b is not the name of a variable"),
        (["--host", "h", "--connect"], 2, "the environment has no variable SHOP_PASSWORD, the password of repl"),
        (["-c", "none/pipeline.yaml"], 2, "none/pipeline.yaml: cannot be written: No such file or directory"),
    ],
)
def test_wrong_use_is_one_message(
    arguments: list[str], status: int, message: str, stratalog: Stratalog, folder: Path
) -> None:
    ran = stratalog("init", *arguments)
    assert ran.status == status
    assert message in ran.err
    assert "Traceback" not in ran.err
    assert list(folder.iterdir()) == []


def test_a_file_that_is_there_stays(stratalog: Stratalog, folder: Path) -> None:
    (folder / "pipeline.yaml").write_text("mine")
    ran = stratalog("init")
    assert (ran.status, (folder / "pipeline.yaml").read_text()) == (2, "mine")
    assert "pipeline.yaml exists already, and is left alone" in ran.err


def test_the_dagster_project_is_written_beside_a_file_that_is_there(stratalog: Stratalog, folder: Path) -> None:
    assert stratalog("init", "--host", "db.internal", "--password-variable", "DB_WORD").status == 0
    text = (folder / "pipeline.yaml").read_text()
    ran = stratalog("init", "--dagster")
    assert (ran.status, ran.err) == (0, "")
    lines = ran.out.splitlines()
    written = [f"wrote {name}" for name in ("workspace.yaml", "dagster/dagster.yaml", ".gitignore", ".env")]
    assert lines[:-1] == ["pipeline.yaml: kept", *written, "next: export DB_WORD=…, then stratalog check --connect"]
    assert lines[-1].startswith(f"Dagster, in {folder}: ")
    assert (folder / "pipeline.yaml").read_text() == text
    assert "# DB_WORD=" in (folder / ".env").read_text().splitlines()
    repeated = stratalog("init", "--dagster")
    assert (repeated.status, repeated.err) == (0, "")
    assert repeated.out.splitlines()[:2] == ["pipeline.yaml: kept", "nothing was written: all files are there"]


def test_a_file_that_cannot_be_read_has_no_project_beside_it(stratalog: Stratalog, folder: Path) -> None:
    (folder / "pipeline.yaml").write_text("sources: [")
    ran = stratalog("init", "--dagster")
    assert (ran.status, [path.name for path in folder.iterdir()]) == (2, ["pipeline.yaml"])
    assert "pipeline.yaml: " in ran.err


def test_a_server_that_does_not_answer_leaves_no_file(
    stratalog: Stratalog, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "p")
    ran = stratalog("init", "--host", "127.0.0.1", "--port", 1, "--connect")
    assert (ran.status, list(folder.iterdir())) == (1, [])
    assert (
        "cannot be reached: Connection refused; pipeline.yaml was not written; start the server, or correct host and "
        "port of source shop" in ran.err
    )


MONITOR = {"mysql-8.0": "REPLICATION CLIENT", "mysql-5.7": "REPLICATION CLIENT", "mariadb-11.4": "BINLOG MONITOR"}


@pytest.mark.mysql
@pytest.mark.parametrize("name", list(MONITOR))
def test_a_server_says_what_it_has_and_lacks(
    name: str, servers: Servers, stratalog: Stratalog, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = servers.get(name)
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in (
            "CREATE DATABASE `init shop`",
            f"CREATE TABLE `init shop`.{TABLE.removeprefix('CREATE TABLE ')}",
            "CREATE USER 'starter'@'%' IDENTIFIED BY 'hidden-1'",
            "GRANT SELECT ON `init shop`.* TO 'starter'@'%'",
            "SET GLOBAL binlog_format = 'STATEMENT'",
        ):
            cursor.execute(statement)
        try:
            monkeypatch.setenv("SHOP_PASSWORD", "hidden-1")
            ran = stratalog("init", "--host", server.host, "--port", server.port, "--user", "starter", "--connect")
        finally:
            cursor.execute("SET GLOBAL binlog_format = 'ROW'")
            cursor.execute("DROP USER 'starter'@'%'")
            cursor.execute("DROP DATABASE `init shop`")
    assert (ran.status, ran.err) == (0, "")
    text = (folder / "pipeline.yaml").read_text()
    lines = [
        "problem: binlog_format is STATEMENT: SET GLOBAL binlog_format = 'ROW' and let the applications connect again",
        "GRANT REPLICATION SLAVE ON *.* TO 'starter'@'%';",
        f"GRANT {MONITOR[name]} ON *.* TO 'starter'@'%';",
    ]
    assert set(lines) <= set(ran.out.splitlines())
    assert ran.out.count("GRANT REPLICATION SLAVE") == 1
    assert ran.out.splitlines()[-1] == (
        "next: have an administrator of the server execute the statements above, then stratalog check --connect"
    )
    assert [line for line in lines if line not in text] == []
    assert "hidden-1" not in text + ran.out
    assert '"`init shop`.*"  # 1 table' in text
    pipeline = load(folder / "pipeline.yaml", {"SHOP_PASSWORD": "x"})
    assert pipeline.scope.holds("init shop", "t")
    assert not pipeline.scope.holds("other", "t")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_the_shells_script(shell: str, stratalog: Stratalog) -> None:
    ran = stratalog("completion", shell)
    assert ran.status == 0
    assert "_STRATALOG_COMPLETE" in ran.out


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize(
    "words, completed",
    [
        ("stratalog sta", ["status"]),
        ("stratalog status --for", ["--format"]),
        ("stratalog status -c pipeline.yaml --source ", ["shop", "stock"]),
        ("stratalog backfill -c pipeline.yaml --source st", ["stock"]),
        ("stratalog run -c gone.yaml --source ", []),
        ("stratalog status --format pro", ["prometheus"]),
    ],
)
def test_a_shell_completes(words: str, completed: list[str], folder: Path) -> None:
    (folder / "pipeline.yaml").write_text('lake: l\nsources:\n  shop: {files: "${NOT_SET}"}\n  stock: {files: .}\n')
    parts = words.split(" ")
    variables = {"_STRATALOG_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(parts) - 1)}
    command = [sys.executable, "-m", "stratalog"]
    output = subprocess.run(command, env=os.environ | variables, cwd=folder, capture_output=True, text=True, check=True)
    assert [line.partition(",")[2] for line in output.stdout.splitlines() if line] == completed


def test_what_a_server_lacks_is_told_in_sentences_with_each_grant_once() -> None:
    grant = "GRANT LOCK TABLES ON `shop`.* TO 'repl'@'%'"
    checks = [
        Check("server version", "ok", "MySQL 8.0.12"),
        Check("LOCK TABLES", "warning", "not granted", f"stratalog mend needs it: {grant}"),
        Check("unlogged changes", "warning", "shop.lines: is changed by a foreign key", "mend its rows"),
        Check("SELECT", "problem", "not granted", grant),
    ]
    assert [*_remarks(checks)] == [
        "server version: MySQL 8.0.12",
        "warning: LOCK TABLES is not granted: stratalog mend needs it",
        "warning: unlogged changes: shop.lines: is changed by a foreign key: mend its rows",
        "problem: SELECT is not granted",
        "an administrator of the server executes:",
        f"{grant};",
    ]
