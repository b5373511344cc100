"""The page that leads from an empty folder to an alert: every command in order, with a real server and a browser."""

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from spark_jobs.demo.server import MySQLServer
from tests.browser.eyes import Eyes, browser, lacking
from tests.dagster_project.test_component import Project
from tests.page_walk import Walk
from tests.services.dev_server import development_server

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "dagster-project.md").read_text(encoding="utf-8")
SECTIONS = [section.split("\n", 1) for section in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]]
BLOCKS = [
    (title, kind, text)
    for title, section in SECTIONS
    for kind, text in re.findall(r"^```(sh|text)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
]
"""The page's commands, and what they print, each with the heading that it is under."""
UI = "dg dev\n"
CLIENT = """\
#!{python}
import sys
import pymysql

pymysql.connect(host="127.0.0.1", port={port}, user={user!r}, password={password!r}).cursor().execute(sys.argv[-1])
"""
"""What stands for the client of MySQL."""


def tables(eyes: Eyes) -> None:
    """The table in the graph, and its page."""
    eyes.open("/asset-groups")
    eyes.see("shop_bronze", "shop_silver", "shop_downstream")
    eyes.open("/assets/downstream/shop/orders?view=lineage")
    eyes.see("shop_silver", "shop_downstream", "orders", "Materialized", "Delta Lake")
    eyes.miss("fetching statuses")
    eyes.miss("Loading")
    eyes.picture("project_graph")
    eyes.open("/assets/downstream/shop/orders")
    eyes.see("\nRow count\n2\n", "decimal(10,2)", "Current rows of shop.orders from source shop")
    eyes.picture("project_table")


def failing_check(eyes: Eyes) -> None:
    """The check of the table that stopped, in red, with the statement and what to do."""
    eyes.open("/assets/downstream/shop/orders?view=checks")
    eyes.click("//*[text()='replicating']")
    eyes.see("Failed", "ALTER TABLE shop.orders MODIFY total INT", "set on_incompatible: new_column")
    eyes.picture("project_check")


def alert(eyes: Eyes) -> None:
    """The tick of the sensor that sent the alert, by its log."""
    eyes.open("/locations/acme/sensors/alert_sensor")
    eyes.see("View logs", seconds=180)
    eyes.click("(//*[text()='View logs'])[last()]")
    eyes.see("sent: Alert: shop: 1 of 1 tables stopped: shop.orders")
    eyes.picture("project_alert")


LOOKS: Mapping[str, Callable[[Eyes], None]] = {
    "the table in the graph": tables,
    "the failing check": failing_check,
    "the tick that sent the alert": alert,
}
"""What is looked at by each `dg dev` of the page, in order."""


def client(folder: Path, server: MySQLServer) -> None:
    """A program `mysql` for the server's administrator."""
    folder.mkdir()
    login = {"port": server.port, "user": "root", "password": server.root_password}
    (folder / "mysql").write_text(CLIENT.format(python=sys.executable, **login))
    (folder / "mysql").chmod(0o755)


def filled_in(commands: str, server: MySQLServer) -> str:
    """What a reader types in place of the page's address, password and path; without `dg dev`."""
    text = commands.removesuffix(UI).replace("/path/to/your/clone", str(ROOT))
    text = text.replace("--port 3306 --user repl", f"--port {server.port} --user {server.user}")
    return text.replace("SHOP_PASSWORD=secret", f"SHOP_PASSWORD={server.password}")


def starting_point(folder: Path) -> Walk:
    """After the first block, with the tests' own environment in place of the one that the block makes."""
    names = ("STRATALOG_CON", "DAG", "PYTHON", "VIRTUAL_ENV")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(names)}
    path = f"{folder / 'bin'}:{Path(sys.executable).parent}:{variables['PATH']}"
    source = str(Project(folder / "acme").folder / "src")
    walk = Walk(folder, variables | {"PATH": path, "PYTHONPATH": source})
    assert "create-dagster project acme" in BLOCKS[0][2]
    walk.run("cd acme")
    return walk


def walk_on(walk: Walk, server: MySQLServer, eyes: Callable[[str], Eyes]) -> Iterator[str]:
    """The blocks after the first: yields what each block of commands prints, having compared it with the page."""
    looks, output = iter(LOOKS.items()), ""
    for title, kind, text in BLOCKS[1:]:
        if kind == "text":
            assert [line for line in text.splitlines() if line not in output] == [], output
            continue
        with walk.step(title):
            output = walk.run(filled_in(text, server))
        yield output
        # Where a block ends with the UI, a browser looks at it, and then Ctrl-C ends it.
        if text.endswith(UI):
            name, look = next(looks)
            log = walk.folder / "dev.log"
            with ExitStack() as stack, walk.step(f"`dg dev`, until a browser shows {name}"):
                served = stack.enter_context(development_server(walk.variables, log, UI.split(), walk.location))
                page = eyes(served.url)
                page.open("/runs")
                page.click("//*[text()='Hide navigation']")  # more room in the pictures
                look(page)
    assert next(looks, None) is None, "each of them is behind a dg dev"


@pytest.mark.long
@pytest.mark.mysql
@pytest.mark.spark
@pytest.mark.dagster
def test_every_command_does_what_the_page_says(
    tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    if reason := lacking():
        pytest.skip(f"the walk needs Debian's chromium and chromium-driver, and {reason}")
    pictures = request.config.getoption("--pictures")
    with MySQLServer(tmp_path / "server") as server, browser(tmp_path / "profile") as driver:
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE shop")
            cursor.execute("CREATE TABLE shop.orders (id INT PRIMARY KEY, total DECIMAL(10,2))")
            cursor.execute("INSERT INTO shop.orders VALUES (1, 9.99), (2, 5)")
        walk = starting_point(tmp_path / "walk")
        client(tmp_path / "walk" / "bin", server)
        outputs = [*walk_on(walk, server, lambda url: Eyes(driver, url, Path(pictures) if pictures else None))]
        history = walk.run("stratalog schema -c src/acme/defs/shop/pipeline.yaml --table shop.orders --history")
    with capsys.disabled():
        print(walk.table())  # noqa: T201 - for the table of the page
    assert "current" in outputs[1]
    assert "the run failed" in outputs[2]
    assert "total: decimal(10,2) -> int" in history, "the statement that stopped the table is in its history"
