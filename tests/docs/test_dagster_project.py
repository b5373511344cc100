"""The page that leads from an empty folder to an alert: every command in its order, with a real server."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spark_jobs.demo.server import MySQLServer
from tests.dagster_project.test_component import Project

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "dagster-project.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(sh|text)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
MARK = "@@ block"
CLIENT = """\
#!{python}
import sys
import pymysql

pymysql.connect(host="127.0.0.1", port={port}, user={user!r}, password={password!r}).cursor().execute(sys.argv[-1])
"""
"""What stands for the client of MySQL."""


def script(server: MySQLServer) -> str:
    """All commands but those that make the project, and the UI."""
    blocks = [text for kind, text in BLOCKS if kind == "sh"]
    assert "create-dagster project acme" in blocks[0]
    text = "".join(f"{block}echo '{MARK}'\n" for block in blocks[1:])
    assert "dg dev\n" in text
    text = text.replace("dg dev\n", "").replace("/path/to/your/clone", str(ROOT))
    text = text.replace("--port 3306 --user repl", f"--port {server.port} --user {server.user}")
    return "set -euo pipefail\n" + text.replace("SHOP_PASSWORD=secret", f"SHOP_PASSWORD={server.password}")


@pytest.mark.long
@pytest.mark.mysql
@pytest.mark.spark
@pytest.mark.dagster
def test_every_command_does_what_the_page_says(tmp_path: Path) -> None:
    with MySQLServer(tmp_path / "server") as server:
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE shop")
            cursor.execute("CREATE TABLE shop.orders (id INT PRIMARY KEY, total DECIMAL(10,2))")
            cursor.execute("INSERT INTO shop.orders VALUES (1, 9.99), (2, 5)")
        project = Project(tmp_path / "acme")
        client = tmp_path / "bin" / "mysql"
        client.parent.mkdir()
        login = {"port": server.port, "user": "root", "password": server._root_password}
        client.write_text(CLIENT.format(python=sys.executable, **login))
        client.chmod(0o755)
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("STRATALOG_CON", "DAG"))
        }
        path = f"{client.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        began = time.monotonic()
        process = subprocess.run(
            ["bash", "-c", script(server)],
            cwd=project.folder,
            env=environment | {"PATH": path, "PYTHONPATH": str(project.folder / "src")},
            capture_output=True,
            text=True,
            check=False,
            timeout=1800,
        )
    print(process.stdout, process.stderr, f"{time.monotonic() - began:.0f} s")  # noqa: T201 - shown where it fails
    assert process.returncode == 0
    outputs = process.stdout.split(f"{MARK}\n")
    printed = iter(outputs)
    output = ""
    for kind, text in BLOCKS[1:]:
        if kind == "sh":
            output = next(printed)
            continue
        assert [line for line in text.splitlines() if line not in output] == [], output
    assert "current" in outputs[1]
    assert "the run failed" in outputs[2]
