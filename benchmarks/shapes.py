"""The logs that decoders are compared on: bulk and OLTP, narrow and wide, of each server; a log is one line of SHAPES.

Put here: what is in them, and how a server is made to write them. Not here: who reads them (decoding.py).
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pymysql.constants import CLIENT
from pymysql.cursors import Cursor
from pymysql.err import MySQLError

SCHEMA = "bench"
OPTIONS: dict[str, object] = {"binlog_row_event_max_size": 32768, "max_binlog_size": 1 << 30}
"""64 rows an event and more, of the wide table too; a log is one file."""
SAMPLE = 10
"""A sample is so many times smaller."""


class Server(Protocol):
    """A running server: ``data`` is the directory of its binlog files."""

    @property
    def data(self) -> Path: ...
    def connect(self, **arguments: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class Log:
    """One closed binlog file. values: column values of all row images, of updates both. size: in bytes.

    sample: a smaller log of the same shape, for readers that take minutes over a whole one.
    """

    name: str
    path: Path
    changes: int
    values: int
    sample: "Log | None" = None

    @property
    def size(self) -> int:
        return self.path.stat().st_size


@dataclass(frozen=True, slots=True)
class Shape:
    """One log: its table's columns as (type, expression of ``n``), and what is done to the table."""

    name: str
    columns: tuple[tuple[str, str], ...]
    write: "Callable[[Cursor, Shape, int], int]"
    """(cursor, shape, amount) -> changes; ``amount`` rows or transactions."""
    amount: int
    compressed: bool = False
    """Written with MySQL's compressed transactions, or MariaDB's compressed events of 10 bytes and more."""

    @property
    def names(self) -> list[str]:
        return ["id", *(f"c{offset}" for offset in range(2, len(self.columns) + 2))]

    @property
    def select(self) -> str:
        return ", ".join(["n", *(expression for _, expression in self.columns)])

    def create(self, table: str) -> str:
        types = [f"{name} {kind}" for name, (kind, _) in zip(self.names[1:], self.columns, strict=True)]
        return f"CREATE TABLE {table} (id BIGINT NOT NULL PRIMARY KEY, {', '.join(types)}) CHARSET utf8mb4"


NARROW = (
    ("INT NOT NULL", "n * 7919 % 100003"),
    ("DECIMAL(12,2) NOT NULL", "(n * 37 % 100000) / 100"),
    ("VARCHAR(40)", "IF(n % 5, CONCAT('note für ', n), NULL)"),
)
MIDDLE = (
    ("INT NOT NULL", "n * 7919 % 100003"),
    ("SMALLINT NOT NULL", "n % 50"),
    ("DECIMAL(12,2) NOT NULL", "(n * 37 % 100000) / 100"),
    ("DECIMAL(5,4)", "IF(n % 3, (n % 9999) / 10000, NULL)"),
    ("VARCHAR(32) NOT NULL", "CONCAT('SKU-', LPAD(n * 31 % 9999, 6, '0'))"),
    ("VARCHAR(200)", "IF(n % 5, CONCAT('note ', n, REPEAT(' and more', n % 8)), NULL)"),
    ("ENUM('new', 'paid', 'sent', 'closed') NOT NULL", "1 + n % 4"),
    ("DATETIME(3) NOT NULL", "'2024-01-01' + INTERVAL n SECOND"),
    ("TIMESTAMP(3) NOT NULL", "'2024-01-01' + INTERVAL n SECOND"),
    ("DOUBLE", "IF(n % 3, n / 7, NULL)"),
)
WIDE = 7 * (
    ("INT NOT NULL", "n * 7919 % 100003"),
    ("BIGINT", "IF(n % 3, n * 104729, NULL)"),
    ("SMALLINT NOT NULL", "n % 50"),
    ("DECIMAL(12,2) NOT NULL", "(n * 37 % 100000) / 100"),
    ("DOUBLE", "IF(n % 3, n / 7, NULL)"),
    ("VARCHAR(32) NOT NULL", "CONCAT('SKU-', LPAD(n * 31 % 9999, 6, '0'))"),
    ("DATETIME(3) NOT NULL", "'2024-01-01' + INTERVAL n SECOND"),
)
DOCUMENTS = (
    ("JSON NOT NULL", "JSON_OBJECT('id', n, 'name', CONCAT('user ', n), 'tags', JSON_ARRAY(n % 7, 'b', n / 8))"),
    ("JSON", "JSON_OBJECT('address', JSON_OBJECT('street', CONCAT('no. ', n), 'zip', n % 99999), 'active', n % 2 = 0)"),
)
TEXTS = (
    ("VARCHAR(60) CHARACTER SET latin1", "CONCAT('Größe und Gewicht für ', n, ', geprüft')"),
    ("VARCHAR(60) CHARACTER SET cp1251", "CONCAT('заказ номер ', n, ', оплачен')"),
    ("VARCHAR(60) CHARACTER SET gbk", "CONCAT('订单号码 ', n, ' 已付款')"),
    ("VARCHAR(60) CHARACTER SET sjis", "CONCAT('注文番号 ', n, ' 支払い済み')"),
    ("VARCHAR(60) CHARACTER SET utf16", "CONCAT('παραγγελία ', n, ' 😀')"),
    ("VARCHAR(60) CHARACTER SET utf8mb4", "CONCAT('commande numéro ', n, ' payée')"),
)


def _number_rows(rows: int) -> str:
    return f"(WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {rows}) SELECT n FROM s) s"


def _bulk(cursor: Cursor, shape: Shape, amount: int) -> int:
    """One INSERT of so many rows, an UPDATE of half of them, a DELETE of a tenth."""
    changes = cursor.execute(f"INSERT INTO one SELECT {shape.select} FROM {_number_rows(amount)}")
    changes += cursor.execute("UPDATE one SET id = -id WHERE id % 2 = 0")
    return changes + cursor.execute("DELETE FROM one WHERE id % 10 = 3")


def _oltp(cursor: Cursor, shape: Shape, amount: int) -> int:
    """Transactions of two statements of one row, an UPDATE of one table and an INSERT into another, in literal values.

    Not by a procedure: MariaDB logs the text of each statement, and of a procedure's its formulas, a variable as
    NAME_CONST('n', 1), four times as long as the values that an application sends.
    """
    cursor.execute(f"SELECT 1 + n * 7919 % 1000, {shape.select} FROM {_number_rows(amount)}")
    values = ", ".join(["%s"] * (len(shape.columns) + 1))
    for row in cursor.fetchall():
        cursor.execute(
            f"START TRANSACTION;UPDATE one SET c2 = c2 + 1 WHERE id = %s;INSERT INTO two VALUES ({values});COMMIT",
            row,
        )
        while cursor.nextset():
            pass
    return 2 * amount


SHAPES = (
    # A server's file is 1 GiB by default. These are of 110 to 150 MB, those of transactions of 40 to 55: an application
    # writes them one by one, which takes longer than all readings.
    Shape("bulk, 4 columns", NARROW, _bulk, 1_600_000),
    Shape("bulk, 11 columns", MIDDLE, _bulk, 800_000),
    Shape("bulk, 50 columns", WIDE, _bulk, 200_000),
    Shape("bulk, JSON", DOCUMENTS, _bulk, 100_000),
    Shape("bulk, texts of 6 character sets", TEXTS, _bulk, 100_000),
    Shape("OLTP, 4 columns", NARROW, _oltp, 100_000),
    Shape("OLTP, 11 columns", MIDDLE, _oltp, 50_000),
    Shape("OLTP, 50 columns", WIDE, _oltp, 20_000),
)
COMPRESSED = (
    Shape("bulk, 11 columns, compressed", MIDDLE, _bulk, 200_000, compressed=True),
    Shape("OLTP, 11 columns, compressed", MIDDLE, _oltp, 50_000, compressed=True),
)
_COMPRESS = {
    "mysql": "SET binlog_transaction_compression = ON",
    "mariadb": "SET GLOBAL log_bin_compress = ON, GLOBAL log_bin_compress_min_len = 10",
}


def write(server: Server, flavor: str, shapes: tuple[Shape, ...], prefix: str, filter_: str = "") -> Iterator[Log]:
    """One log a shape, written by the server and named after it; only those whose name contains ``filter_``.

    Those that are compressed come last: nothing ends the compression.
    """
    flag = CLIENT.MULTI_STATEMENTS
    with server.connect(autocommit=True, client_flag=flag) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {SCHEMA}")
        connection.select_db(SCHEMA)
        for setting in ("cte_max_recursion_depth", "max_recursive_iterations"):  # MySQL's name, MariaDB's
            with suppress(MySQLError):
                cursor.execute(f"SET {setting} = 100000000")
        for shape in shapes:
            name = f"{prefix}: {shape.name}"
            if filter_ not in name:
                continue
            if shape.compressed:
                cursor.execute(_COMPRESS[flavor])
            sample = _write_log(server, cursor, shape, name, shape.amount // SAMPLE, sample=None)
            yield _write_log(server, cursor, shape, name, shape.amount, sample=sample)


def _write_log(server: Server, cursor: Cursor, shape: Shape, name: str, amount: int, *, sample: Log | None) -> Log:
    for statement in ("DROP TABLE IF EXISTS one, two", shape.create("one"), shape.create("two")):
        cursor.execute(statement)
    if shape.write is _oltp:
        cursor.execute(f"INSERT INTO one SELECT {shape.select} FROM {_number_rows(1000)}")
    cursor.execute("FLUSH BINARY LOGS")
    changes = shape.write(cursor, shape, amount)
    file = max(server.data.glob("mysql-bin.[0-9]*[0-9]"))
    cursor.execute("FLUSH BINARY LOGS")
    updates = amount // 2 if shape.write is _bulk else amount
    return Log(name, file, changes, (changes + updates) * (len(shape.columns) + 1), sample)
