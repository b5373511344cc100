"""A lake as commit 212e5c2 wrote it, and the log that follows: `python -m tests.lakes.lake_recording`.

Put here: how the recording was made. Not here: what later versions do with it (pipeline/test_recorded_lake.py). Making
the recording with a later version would lose what it is for: it was made once, with the code of that commit.
"""

import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from pymysql.cursors import Cursor

from spark_jobs.demo.server import MySQLServer

RECORDING = Path(__file__).parents[1] / "recorded" / "lake-0.1.0.tar.xz"
SALT = "salt-of-the-recorded-lake"
PIPELINE = """\
lake: ./lake
sources:
  shop: {files: ./binlogs}
tables: ["shop.*"]
routes:
  - {from: "shop.visits_*", to: shop.visits, sources: [shop]}
columns:
  people: {tables: ["shop.customers"], mask: {email: {hash: "${SALT}"}}}
on_incompatible: new_column
retention: {bronze: 3650d}
"""
FIRST = [
    "CREATE DATABASE shop",
    "CREATE TABLE shop.customers (id INT PRIMARY KEY, name VARCHAR(40), email VARCHAR(60), born DATE)",
    "INSERT INTO shop.customers VALUES (1,'Ann','ann@example.com','1970-01-02'),(2,'Bo','bo@example.com','0000-00-00')",
    "CREATE TABLE shop.orders (id BIGINT UNSIGNED PRIMARY KEY, customer INT, total DECIMAL(10,2), placed DATETIME(3))",
    "INSERT INTO shop.orders VALUES (1,1,9.99,'2026-01-01 10:00:00.125'),(2,1,5,'2026-01-02'),(3,2,7.5,NULL)",
    "CREATE TABLE shop.clicks (page VARCHAR(20), at TIMESTAMP NULL, kind ENUM('a','b'))",
    "INSERT INTO shop.clicks VALUES ('home','2026-01-01 00:00:01','a'),('home','2026-01-01 00:00:01','a'),('x',NULL,'b')",  # noqa: E501
    "CREATE TABLE shop.visits_1 (id INT PRIMARY KEY, n INT)",
    "CREATE TABLE shop.visits_2 (id INT PRIMARY KEY, n INT)",
    "INSERT INTO shop.visits_1 VALUES (1,10),(2,20)",
    "INSERT INTO shop.visits_2 VALUES (1,100)",
    "CREATE TABLE shop.stock (id INT PRIMARY KEY, a INT DEFAULT 5, doc JSON, note TEXT)",
    "SET SESSION binlog_row_image = 'MINIMAL'",
    'INSERT INTO shop.stock (id, doc) VALUES (1,\'{"x": [1, 2.5, "é"]}\'),(2,NULL)',
    "UPDATE shop.stock SET a = 6 WHERE id = 2",
    "SET SESSION binlog_row_image = 'FULL'",
    "CREATE TABLE shop.logged_by_statement (id INT PRIMARY KEY)",
    "INSERT INTO shop.logged_by_statement VALUES (1)",
]
"""Read by the first run."""
SECOND = [
    "ALTER TABLE shop.orders ADD COLUMN state VARCHAR(10) NOT NULL DEFAULT 'new' AFTER customer",
    "UPDATE shop.orders SET state = 'paid', total = 10 WHERE id = 1",
    "DELETE FROM shop.orders WHERE id = 2",
    "ALTER TABLE shop.customers RENAME COLUMN name TO full_name",
    "INSERT INTO shop.customers VALUES (3,'Cy','cy@example.com','1999-12-31')",
    "DELETE FROM shop.clicks WHERE page = 'home' LIMIT 1",
    "ALTER TABLE shop.visits_1 MODIFY n BIGINT",
    "UPDATE shop.visits_1 SET n = 5000000000 WHERE id = 2",
    "RENAME TABLE shop.stock TO shop.goods",
    "INSERT INTO shop.goods VALUES (3,7,NULL,'seven')",
    "SET SESSION binlog_format = 'STATEMENT'",
    "INSERT INTO shop.logged_by_statement VALUES (2)",
    "SET SESSION binlog_format = 'ROW'",
    "ALTER TABLE shop.orders MODIFY total INT",
    "INSERT INTO shop.orders VALUES (4,3,'new',12,'2026-02-01')",
]
PREPARED = [
    "XA START 'open'",
    "INSERT INTO shop.visits_2 VALUES (7,700)",
    "XA END 'open'",
    "XA PREPARE 'open'",
]
"""Both read by the second run; PREPARED by a session of its own, which leaves the XA transaction to the next one."""
THIRD = [
    "XA COMMIT 'open'",
    "UPDATE shop.orders SET state = 'sent' WHERE id IN (1, 3)",
    "INSERT INTO shop.customers VALUES (4,'Di','di@example.com',NULL)",
    "UPDATE shop.customers SET email = 'new@example.com' WHERE id = 1",
    "INSERT INTO shop.clicks VALUES ('home','2026-01-01 00:00:01','a')",
    "DELETE FROM shop.goods WHERE id = 1",
    "ALTER TABLE shop.goods ADD COLUMN size FLOAT DEFAULT 1.5",
    "INSERT INTO shop.goods VALUES (4,1,'[]','four',2.25)",
    "DELETE FROM shop.visits_2 WHERE id = 1",
    "INSERT INTO shop.visits_1 VALUES (3,30)",
    "CREATE TABLE shop.later (id INT PRIMARY KEY)",
    "INSERT INTO shop.later VALUES (1)",
]
"""Read by nobody yet."""
TABLES = ("customers", "orders", "clicks", "visits_1", "visits_2", "goods", "later", "logged_by_statement")


def main() -> None:
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / "recording"
        (folder / "binlogs").mkdir(parents=True)
        (folder / "later").mkdir()
        (folder / "pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
        with MySQLServer(Path(scratch) / "server") as server, server.connect() as connection:  # noqa: SIM117
            with connection.cursor() as cursor:
                cursor.execute("RESET MASTER")
                cursor.execute("SET SESSION sql_mode = ''")
                for part, statements in enumerate((FIRST, SECOND, THIRD)):
                    for statement in statements:
                        cursor.execute(statement)
                    if part == 1:
                        _prepare(server)
                    cursor.execute("FLUSH BINARY LOGS")
                    name = f"mysql-bin.{part + 1:06d}"
                    shutil.copy(server.data / name, folder / ("later" if part == 2 else "binlogs") / name)
                    if part < 2:
                        _stratalog(folder, "run", "-c", "pipeline.yaml")
                (folder / "rows.json").write_text(json.dumps(_server_rows(cursor), indent=1), encoding="utf-8")
        _stratalog(folder, "backfill", "-c", "pipeline.yaml", "--source", "shop", "--from", "mysql-bin.000001:4",
                   "--to", "mysql-bin.000002:4")  # fmt: skip
        _stratalog(folder, "maintain", "-c", "pipeline.yaml")
        for crc in folder.rglob("*.crc"):
            crc.unlink()
        with tarfile.open(RECORDING, "w:xz") as archive:
            archive.add(folder, ".")


def _prepare(server: MySQLServer) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in PREPARED:
            cursor.execute(statement)


def _server_rows(cursor: Cursor) -> dict[str, dict[str, object]]:
    """The server's rows at the end, by table, with its CREATE TABLE: each value as CAST(… AS CHAR) prints it."""
    table_list: dict[str, dict[str, object]] = {}
    for table in TABLES:
        cursor.execute(f"SHOW CREATE TABLE shop.{table}")
        create = cursor.fetchall()[0][1]
        cursor.execute(f"SHOW COLUMNS FROM shop.{table}")
        columns = [name for name, *_ in cursor.fetchall()]
        cursor.execute(f"SELECT {', '.join(f'CAST({name} AS CHAR)' for name in columns)} FROM shop.{table}")
        table_list[table] = {
            "create": create,
            "columns": columns,
            "rows": sorted(map(list, cursor.fetchall()), key=repr),
        }
    return table_list


def _stratalog(folder: Path, *words: str) -> None:
    program = Path(sys.executable).with_name("stratalog")
    ended = subprocess.run([program, *words], cwd=folder, env={"SALT": SALT, "PATH": "/usr/bin:/bin"}, check=False)
    if ended.returncode not in (0, 1):  # 1: the table that is logged by statement has stopped
        raise SystemExit(f"stratalog {words[0]} ended with {ended.returncode}")


if __name__ == "__main__":
    main()
