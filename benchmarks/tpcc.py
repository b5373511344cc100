"""TPC-C by go-tpc against a private MySQL while ``run --follow`` runs: conditions of consistency, all rows, freshness.

While the load runs, and after it, TPC-C's conditions are asked of the lake: of the nine tables at the versions that
``published`` names, which are of one position of the log. At last ``stratalog verify`` compares every row of the nine
tables with the server's.

Source: TPC Benchmark C, revision 5.11, clause 3.3.2 (conditions 1 to 12); the load is github.com/pingcap/go-tpc, whose
tables have no foreign keys.

Put here: the load, the conditions, the table of figures. Not here: heartbeats and the follower (heartbeats.py).
"""

import json
import re
import secrets
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from benchmarks.heartbeats import (
    Beats,
    beating,
    configured,
    followed,
    follower_processor,
    published_versions,
    quantiles,
)
from benchmarks.progress_lines import print_progress
from spark_jobs.config.loader import load
from spark_jobs.demo.server import MySQLServer
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.rows import rows_of
from spark_jobs.runtime.provision import made_once
from tests.services import go_programs

_VERSION = "v1.0.7"
_MODULE = f"github.com/pingcap/go-tpc/cmd/go-tpc@{_VERSION}"
_SCHEMA = _USER = "tpcc"
_WARM = 20.0
"""Seconds of load that are not measured, besides those in which the conditions are asked."""
_CHECKED = 10.0
"""Seconds that this takes, about."""
THREADS = 4
COLUMNS = {
    "warehouse": ("w_id", "w_ytd"),
    "district": ("d_w_id", "d_id", "d_ytd", "d_next_o_id"),
    "customer": ("c_w_id", "c_d_id", "c_id", "c_balance", "c_ytd_payment", "c_delivery_cnt"),
    "history": ("h_w_id", "h_d_id", "h_c_w_id", "h_c_d_id", "h_c_id", "h_amount"),
    "new_order": ("no_w_id", "no_d_id", "no_o_id"),
    "orders": ("o_w_id", "o_d_id", "o_id", "o_c_id", "o_carrier_id", "o_ol_cnt"),
    "order_line": ("ol_w_id", "ol_d_id", "ol_o_id", "ol_amount", "ol_delivery_d"),
    "stock": ("s_w_id", "s_i_id"),
    "item": ("i_id",),
}
"""The nine tables, with the columns that the conditions are about. Sums of money are in cents."""
_DELIVERED = """
    SELECT o_w_id AS w, o_d_id AS d, o_c_id AS c, sum(ol_amount) AS amount
    FROM orders JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
    WHERE ol_delivery_d IS NOT NULL GROUP BY 1, 2, 3"""
_PAID = "SELECT h_c_w_id AS w, h_c_d_id AS d, h_c_id AS c, sum(h_amount) AS amount FROM history GROUP BY 1, 2, 3"
_ORDERS_AT_FIRST = 2100
"""Orders of a district that are delivered in the initial population."""
CONDITIONS = {
    1: "SELECT w_id FROM warehouse WHERE w_ytd <> (SELECT sum(d_ytd) FROM district WHERE d_w_id = w_id)",
    2: """SELECT d_w_id, d_id FROM district
        JOIN (SELECT o_w_id, o_d_id, max(o_id) AS newest FROM orders GROUP BY 1, 2)
          ON o_w_id = d_w_id AND o_d_id = d_id
        LEFT JOIN (SELECT no_w_id, no_d_id, max(no_o_id) AS waiting FROM new_order GROUP BY 1, 2)
          ON no_w_id = d_w_id AND no_d_id = d_id
        WHERE d_next_o_id - 1 <> newest OR waiting <> newest""",
    3: """SELECT no_w_id, no_d_id FROM new_order GROUP BY 1, 2
        HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)""",
    4: """SELECT o_w_id, o_d_id FROM orders GROUP BY 1, 2 HAVING sum(o_ol_cnt) <>
        (SELECT count(*) FROM order_line WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id)""",
    5: """SELECT o_id FROM orders LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
        WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)""",
    6: """SELECT o_id FROM orders WHERE o_ol_cnt <>
        (SELECT count(*) FROM order_line WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id)""",
    7: """SELECT o_id FROM order_line JOIN orders ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
        WHERE (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)""",
    8: "SELECT w_id FROM warehouse WHERE w_ytd <> (SELECT sum(h_amount) FROM history WHERE h_w_id = w_id)",
    9: """SELECT d_w_id, d_id FROM district WHERE d_ytd <>
        (SELECT sum(h_amount) FROM history WHERE h_w_id = d_w_id AND h_d_id = d_id)""",
    10: f"""SELECT c_w_id, c_d_id, c_id FROM customer
        LEFT JOIN ({_DELIVERED}) AS delivered ON delivered.w = c_w_id AND delivered.d = c_d_id AND delivered.c = c_id
        LEFT JOIN ({_PAID}) AS paid ON paid.w = c_w_id AND paid.d = c_d_id AND paid.c = c_id
        WHERE c_balance <> coalesce(delivered.amount, 0) - coalesce(paid.amount, 0)""",
    11: f"""SELECT d_w_id, d_id FROM district WHERE
        (SELECT count(*) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)
        - (SELECT count(*) FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d_id)
        <> (SELECT sum(c_delivery_cnt) FROM customer WHERE c_w_id = d_w_id AND c_d_id = d_id) + {_ORDERS_AT_FIRST}""",
    12: f"""SELECT c_w_id, c_d_id, c_id FROM customer
        LEFT JOIN ({_DELIVERED}) AS delivered ON delivered.w = c_w_id AND delivered.d = c_d_id AND delivered.c = c_id
        WHERE c_balance + c_ytd_payment <> coalesce(delivered.amount, 0)""",
}
"""By the condition's number in clause 3.3.2 what finds the rows that break it."""


@dataclass(frozen=True)
class Consistency:
    """Rows that were looked at, and by condition how many break it."""

    rows: int
    broken: dict[int, int]


def built() -> Path:
    """go-tpc, built by Go at first use: a minute. Raises ConfigError."""

    def build(folder: Path) -> None:
        go_programs.output_of("go-tpc", "install", _MODULE, GOBIN=str(folder), GOFLAGS="-mod=mod")

    return made_once(f"go-tpc-{_VERSION}", build) / "go-tpc"


def measure(folder: Path, warehouses: int, seconds: float, interval: float) -> None:
    """Prints transactions, freshness, conditions and the comparison. Ends with SystemExit where something is wrong."""
    program = built()
    with MySQLServer(folder / "server") as server:
        password = secrets.token_urlsafe(18)
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {_SCHEMA}")
            cursor.execute(f"CREATE USER {_USER} IDENTIFIED WITH mysql_native_password BY '{password}'")
            cursor.execute(f"GRANT ALL ON {_SCHEMA}.* TO {_USER}")
        config = configured(folder, server, f"{_SCHEMA}.*")
        address = ["-H", server.host, "-P", str(server.port), "-U", _USER, "-p", password, "-D", _SCHEMA]
        command = [str(program), "tpcc", *address, "--warehouses", str(warehouses), "-T", str(THREADS)]
        print_progress(f"loading {warehouses} warehouses")
        # Its own conditions take MySQL 8.0 many minutes, since one of them looks orders up by customer without a key.
        _output_of([*command, "prepare", "--no-check"])
        with followed(config, interval):
            found = _measured(server, config, command, seconds)
        print_progress("comparing every row with the server's")
        verified = _output_of([sys.executable, "-m", "spark_jobs.cli", "verify", "-c", str(config), "--json"])
        verdicts = [json.loads(line) for line in verified.splitlines()]
    broken = sum(sum(consistency.broken.values()) for consistency in found)
    rows = sum(consistency.rows for consistency in found)
    print(
        f"\nconditions 1 to 12 over {len(found)} published sets of nine tables, {rows:,} rows: {broken} rows break one"
    )
    print("\n| table | rows of the server, of the lake | compared |\n| --- | --- | --- |")
    for verdict in verdicts:
        print(f"| {verdict['table']} | {verdict['source_rows']:,}, {verdict['lake_rows']:,} | {verdict['state']} |")
    if broken:
        raise SystemExit(f"conditions broken: {[consistency.broken for consistency in found]}")


def _measured(server: MySQLServer, config: Path, command: list[str], seconds: float) -> list[Consistency]:
    """Prints the table of figures. Conditions of a set during the load, and of one after it."""
    with beating(server, _SCHEMA, config) as beats:
        print_progress("waiting for the first rows")
        while not beats.visible or set(COLUMNS) - set(published_versions(config)):
            time.sleep(0.1)
        print_progress("under load")
        load_process = subprocess.Popen(
            [*command, "run", "--time", f"{_WARM + _CHECKED + seconds:.0f}s"], stdout=subprocess.PIPE, text=True
        )
        time.sleep(_WARM / 2)
        during = consistency_of(config)
        time.sleep(_WARM / 2)
        since, before = time.monotonic(), _processor()
        output, _ = load_process.communicate()
        until = time.monotonic()
        cores = (_processor() - before) / (until - since)
        if load_process.returncode:
            raise SystemExit(output)
    _print_figures(beats, since, until, output, cores)
    return [during, consistency_of(config)]


def _processor() -> float:
    return follower_processor("go-tpc")


def _print_figures(beats: Beats, since: float, until: float, output: str, cores: float) -> None:
    ages = beats.ages(since, until)
    p50, p95, p99 = quantiles(ages)
    rates = re.findall(r"^tpmC: ([\d.]+)", output, re.MULTILINE)
    print("\n| new orders a minute (tpmC) | heartbeats | p50, s | p95, s | p99, s | most, s | cores |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    print(
        f"| {rates[-1] if rates else '?'} | {len(ages):,} | {p50:.2f} | {p95:.2f} | {p99:.2f} | {ages[-1]:.2f} "
        f"| {cores:.2f} |",
        flush=True,
    )


def _output_of(command: list[str]) -> str:
    """What a program prints. Raises SystemExit where it fails."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"{result.stdout[-2000:]}\n{result.stderr[-2000:]}")
    return result.stdout


def consistency_of(config: Path) -> Consistency:
    """The conditions over the nine tables at the versions that ``published`` names now."""
    versions, lake = published_versions(config), lake_of(load(config))
    with sqlite3.connect(":memory:") as database:
        rows = 0
        for table, columns in COLUMNS.items():
            path = lake.downstream(_SCHEMA, table).path
            database.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
            marks = ", ".join("?" * len(columns))
            cursor = database.executemany(
                f"INSERT INTO {table} VALUES ({marks})",
                _cells(path, versions[table], columns),
            )
            rows += cursor.rowcount
        database.execute("CREATE INDEX lines ON order_line (ol_w_id, ol_d_id, ol_o_id)")
        database.execute("CREATE INDEX waiting ON new_order (no_w_id, no_d_id, no_o_id)")
        database.execute("CREATE INDEX all_orders ON orders (o_w_id, o_d_id, o_id)")
        broken = {number: len(database.execute(query).fetchall()) for number, query in CONDITIONS.items()}
    return Consistency(rows, {number: count for number, count in broken.items() if count})


def _cells(path: str, version: int, columns: tuple[str, ...]) -> Iterator[tuple[object, ...]]:
    """Rows of a table: decimals as whole hundredths, times as whether there is one."""
    for batch in rows_of(path, version, columns, None, rows=1 << 16):
        yield from zip(*([_plain(cell) for cell in column.to_pylist()] for column in batch.columns), strict=True)


def _plain(cell: object) -> object:
    if isinstance(cell, Decimal):
        return int(cell.scaleb(2))
    return cell if cell is None or isinstance(cell, int) else 1
