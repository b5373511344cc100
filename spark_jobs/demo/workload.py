"""A small shop: its schema, and everything that is done to its rows.

Put here: SQL, and who runs it when (``load``, ``change``, ``Traffic``). Not here: the server, or what becomes of the log.

Rows are made by the server itself out of row numbers wherever they can be: pseudo-random by CRC32, the same at each run.
What a pipeline may get wrong is all in it: keys that change, swap and differ by case alone, keys deleted and used again,
unsigned numbers above 2⁶³, negative times, zero and partial dates, binary padding, rollbacks, and a large transaction.
"""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import pymysql
from pymysql.cursors import Cursor

SCHEMA = "shop"
TABLES = (f"{SCHEMA}.*", f"!{SCHEMA}.audit_*")
"""The patterns for pipeline.yaml: everything but the audit log."""

CHUNK = 5_000
"""Rows that one statement of ``load`` inserts."""
HIGH = 1 << 63
"""Every tenth order has a number above this: no signed 64-bit integer holds it."""

Connection = "pymysql.Connection[Cursor]"

_DDL = f"""
CREATE DATABASE {SCHEMA} CHARACTER SET utf8mb4;
USE {SCHEMA};
CREATE TABLE customers (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name VARCHAR(80) NOT NULL,
  email VARCHAR(120) CHARACTER SET ascii NOT NULL,
  country CHAR(2) CHARACTER SET latin1 NOT NULL,
  birthday DATE,
  newsletter BOOLEAN NOT NULL DEFAULT FALSE,
  balance DECIMAL(12,2) NOT NULL DEFAULT 0,
  joined TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  UNIQUE KEY (email)
);
CREATE TABLE products (
  id MEDIUMINT UNSIGNED NOT NULL PRIMARY KEY,
  serial BIGINT UNSIGNED NOT NULL,
  name VARCHAR(100) NOT NULL,
  latin_name VARCHAR(100) CHARACTER SET latin1,
  kind ENUM('tool', 'toy', 'book', 'food') NOT NULL DEFAULT 'tool',
  tags SET('new', 'sale', 'fragile', 'heavy') NOT NULL DEFAULT '',
  description TEXT,
  price DECIMAL(12,2) NOT NULL,
  margin DECIMAL(38,18),
  rank_now TINYINT,
  stock SMALLINT NOT NULL DEFAULT 0,
  weight FLOAT,
  volume DOUBLE,
  added DATETIME(6),
  changed TIMESTAMP(3) NULL,
  opens TIME(3),
  available DATE,
  season YEAR,
  flags BIT(12),
  mask BIT(64),
  digest BINARY(16),
  picture BLOB
);
CREATE TABLE orders (
  id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
  customer INT UNSIGNED NOT NULL,
  placed DATETIME NOT NULL,
  status ENUM('new', 'paid', 'sent', 'returned') NOT NULL DEFAULT 'new',
  currency CHAR(3) CHARACTER SET ascii NOT NULL,
  total DECIMAL(14,2) NOT NULL,
  note VARCHAR(200),
  KEY (customer)
);
CREATE TABLE order_lines (
  order_id BIGINT UNSIGNED NOT NULL,
  line SMALLINT UNSIGNED NOT NULL,
  product MEDIUMINT UNSIGNED NOT NULL,
  quantity INT NOT NULL,
  price DECIMAL(10,4) NOT NULL,
  discount FLOAT,
  PRIMARY KEY (order_id, line)
);
CREATE TABLE carts (
  code VARCHAR(40) NOT NULL PRIMARY KEY,
  customer INT UNSIGNED,
  contents TEXT,
  touched DATETIME(3) NOT NULL
);
CREATE TABLE audit_log (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
  what JSON NOT NULL
)
"""

_ORDER = f"IF(i % 10, i, {HIGH} + i)"
_LOAD = {
    "customers": """
        SELECT i, CONCAT(ELT(1 + CRC32(i) % 6, 'Ada', 'Bo', 'Zoë', 'Łukasz', 'Ólöf', '晴子'), ' ', HEX(CRC32(i))),
          CONCAT('customer', i, '@example.org'), ELT(1 + CRC32(i + 1) % 4, 'DE', 'IS', 'JP', 'PL'),
          IF(i % 7, DATE '1940-01-01' + INTERVAL CRC32(i) % 25000 DAY, NULL), i % 3 = 0,
          (CAST(CRC32(i + 2) % 2000000 AS SIGNED) - 500000) / 100,
          FROM_UNIXTIME(1600000000 + CRC32(i) % 90000000 + (i % 1000) / 1000)
        FROM numbers""",
    "orders": f"""
        SELECT {_ORDER}, 1 + CRC32(i) % GREATEST(1, {{customers}}),
          '2024-01-01' + INTERVAL CRC32(i + 3) % 31536000 SECOND, ELT(1 + CRC32(i + 4) % 3, 'new', 'paid', 'sent'),
          ELT(1 + i % 3, 'EUR', 'ISK', 'JPY'), CRC32(i + 5) % 100000000 / 100, IF(i % 5, NULL, CONCAT('call first ☎ ', i))
        FROM numbers""",
    "order_lines": f"""
        SELECT {_ORDER}, line, 1 + CRC32(i * 2 + line) % {{products}}, 1 + CRC32(i + line) % 20,
          CRC32(i * line) % 100000000 / 10000, IF(i % 4, NULL, CRC32(i) / 4294967296e0)
        FROM numbers CROSS JOIN (SELECT 1 AS line UNION ALL SELECT 2) AS pair""",
    "carts": """
        SELECT CONCAT('cart-', LOWER(HEX(i * 7919))), IF(i % 3, 1 + CRC32(i) % 50, NULL),
          IF(i % 11, REPEAT(CONCAT(i, ' × tea; '), 1 + i % 9), NULL),
          '2025-01-01' + INTERVAL CRC32(i) % 8640000 SECOND + INTERVAL i % 1000 * 1000 MICROSECOND
        FROM numbers""",
}

_EDGES: tuple[tuple[Any, ...], ...] = (
    # The highest and the lowest of each type; what a typed column cannot hold; nothing at all.
    (
        *((1 << 24) - 1, (1 << 64) - 1, "👩‍🚀 \\ ' \" \t\n", "Größe ÿ", "food", "new,sale,fragile,heavy", "x" * 300),
        *("9999999999.99", "9" * 20 + "." + "9" * 18, 127, 32767, 3.4028234e38, 1.7976931348623157e308),
        *("9999-12-31 23:59:59.999999", "2038-01-19 03:14:07.999", "838:59:59", "9999-12-31", 2155),
        *((1 << 12) - 1, (1 << 64) - 1, b"\xff" * 16, bytes(range(256))),
    ),
    (
        *(1 << 23, HIGH, "", "", "tool", "", ""),
        *("-9999999999.99", "-" + "9" * 20 + "." + "9" * 18, -128, -32768, -3.4028234e38, 5e-324),
        *("1000-01-01 00:00:00.000001", "1970-01-01 00:00:01.001", "-838:59:59", "1000-01-01", 1901),
        *(0, HIGH, b"", b""),
    ),
    (
        *(9_000_001, 0, "zero dates", None, "book", "sale", None),
        *("0.00", "0", 0, 0, 0.0, 0.1),
        *("0000-00-00 00:00:00", "0000-00-00 00:00:00", "-00:00:00.001", "0000-00-00", 0),
        *(1, 1, b"a\x00b\x00", b"\x00"),
    ),
    (
        *(9_000_002, 1, "partial dates", "é", "toy", "heavy,new", "  spaces  "),
        *("0.01", "-0." + "0" * 17 + "1", -1, -1, 1 / 3, 1 / 3),
        *("2024-00-00 12:34:56.789", None, "00:00:00", "2024-02-00", 2000),
        *(2, 2, b"\x00" * 16, b"\xde\xad\xbe\xef"),
    ),
    (*(9_000_003, HIGH - 1, "nulls", None, "tool", "", None, "1.00"), *(None, None, 0), *(None,) * 11),
)


def products(rows: int) -> int:
    """How many products a shop of so many rows has, those at the edges not counted."""
    return min(2_000, max(20, rows // 50))


def create(connection: Any) -> None:
    """The schema and its tables, empty."""
    _each(connection, _DDL.split(";\n"))


def load(connection: Any, rows: int) -> int:
    """Fills the tables with about so many rows; returns how many they are."""
    counts = {"customers": rows // 10, "orders": rows * 3 // 10, "order_lines": rows * 3 // 10}
    counts["carts"] = max(10, min(500, rows // 100))
    many = {"customers": counts["customers"], "products": products(rows)}
    with connection.cursor() as cursor:
        cursor.execute(f"USE {SCHEMA}")
        cursor.execute(f"SET SESSION cte_max_recursion_depth = {CHUNK}")
        _insert_products(cursor, many["products"])
        for table, count in counts.items():
            for first in range(1, count + 1, CHUNK):
                cursor.execute(f"INSERT INTO {table} {_numbers(first, count)} {_LOAD[table].format(**many)}")
        cursor.execute("INSERT INTO audit_log (what) VALUES (JSON_OBJECT('loaded', %s))", (rows,))
        return sum(_count(cursor, table) for table in (*counts, "products"))


def _numbers(first: int, last: int) -> str:
    last = min(last, first + CHUNK - 1)
    return f"WITH RECURSIVE numbers (i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM numbers WHERE i < {last})"


def _count(cursor: Cursor, table: str) -> int:
    cursor.execute(f"SELECT COUNT(*) FROM {table}")
    return int(cursor.fetchall()[0][0])


def _insert_products(cursor: Cursor, count: int) -> None:
    marks = ", ".join(["%s"] * len(_EDGES[0]))
    cursor.execute("SET SESSION sql_mode = ''")  # zero and partial dates are let in
    cursor.executemany(f"INSERT INTO products VALUES ({marks})", [*_EDGES, *map(_product, range(1, count + 1))])
    cursor.execute("SET SESSION sql_mode = DEFAULT")


def _product(number: int) -> tuple[Any, ...]:
    some = random.Random(number)  # noqa: S311 - goods, not secrets
    day = f"20{some.randrange(10, 30)}-{some.randrange(1, 13):02}-{some.randrange(1, 29):02}"
    clock = f"{some.randrange(24):02}:{some.randrange(60):02}:{some.randrange(60):02}"
    return (
        *(number, some.getrandbits(64), f"Nº {number} 🍵", some.choice([None, "Thé", "Käse"])),
        *(some.choice(["tool", "toy", "book", "food"]), some.choice(["", "new", "new,sale", "fragile,heavy"])),
        *(some.choice([None, "Lorem ipsum. " * some.randrange(9)]), f"{some.randrange(10**6)}.{number % 100:02}"),
        *(f"{some.randrange(-(10**9), 10**9)}.{some.randrange(10**18):018}", some.randrange(-128, 128)),
        *(some.randrange(500), some.uniform(0, 100), some.gauss(0, 1e6)),
        *(f"{day} {clock}.{some.randrange(10**6):06}", f"{day} {clock}.{some.randrange(1000):03}"),
        *(f"{some.choice(['', '-'])}{some.randrange(839)}:59:58.{some.randrange(1000):03}", day),
        *(some.randrange(1901, 2156), some.getrandbits(12), some.getrandbits(64)),
        *(some.randbytes(some.randrange(17)), some.randbytes(some.randrange(60))),
    )


_CHANGES: tuple[tuple[str, ...], ...] = (
    # Each line is one transaction, or statements that commit by themselves.
    (
        "UPDATE products SET price = price * 1.1, changed = '2025-06-01 10:00:00.5' WHERE id % 3 = 0 AND id < 8000000",
    ),
    ("UPDATE orders SET status = 'paid', total = total + 0.01 WHERE status = 'new' AND CRC32(id) % 3 = 0",),
    ("DELETE orders, order_lines FROM orders JOIN order_lines ON order_id = id WHERE id % 23 = 0",),
    # Keys that change: one by one, many at once, up by one (each takes the place of the next), and by case alone.
    ("UPDATE orders SET id = id + 5000000000 WHERE id % 50 = 1 AND id < 5000000000",),
    ("UPDATE order_lines SET order_id = order_id + 5000000000 WHERE order_id % 50 = 1 AND order_id < 5000000000",),
    ("UPDATE order_lines SET line = line + 1 WHERE order_id % 40 = 3 ORDER BY order_id DESC, line DESC",),
    ("UPDATE carts SET code = UPPER(code) WHERE CRC32(code) % 4 = 0",),
    # Two keys that swap, through a third.
    (
        "BEGIN",
        "UPDATE customers SET id = 4294967295 WHERE id = 1",
        "UPDATE customers SET id = 1 WHERE id = 2",
        "UPDATE customers SET id = 2 WHERE id = 4294967295",
        "COMMIT",
    ),
    # A key deleted and used again, in two transactions and in one; a row that was never there outside its own.
    ("DELETE FROM customers WHERE id = 3",),
    ("INSERT INTO customers (id, name, email, country) VALUES (3, 'Somebody else', 'else@example.org', 'FR')",),
    (
        "BEGIN",
        "DELETE FROM products WHERE id = 9000001",
        "INSERT INTO products (id, serial, name, price) VALUES (9000001, 18446744073709551614, 'again', -0.01)",
        "INSERT INTO orders VALUES (7777777, 1, NOW(), 'new', 'EUR', 1, 'never seen')",
        "DELETE FROM orders WHERE id = 7777777",
        "COMMIT",
    ),
    ("REPLACE INTO carts VALUES ('cart-1eef', 7, 'replaced', '2025-07-01 00:00:00.007')",),
    (
        "INSERT INTO carts VALUES ('CART-1EEF', 8, 'by case', NOW()), ('cart-ß', 9, 'Straße', NOW())"
        " ON DUPLICATE KEY UPDATE contents = CONCAT(COALESCE(carts.contents, ''), '!')",
    ),
    # What is rolled back never happened; what comes before a savepoint did.
    ("BEGIN", "UPDATE orders SET total = 0", "DELETE FROM order_lines", "ROLLBACK"),
    (
        "BEGIN",
        "UPDATE customers SET balance = balance + 1 WHERE id % 10 = 4",
        "SAVEPOINT here",
        "DELETE FROM customers",
        "ROLLBACK TO SAVEPOINT here",
        "UPDATE customers SET newsletter = NOT newsletter WHERE id % 10 = 5",
        "COMMIT",
    ),
    ("INSERT INTO audit_log (what) VALUES (JSON_OBJECT('round', 'changes'))",),
    # A large transaction: two whole tables.
    (
        "BEGIN",
        "UPDATE order_lines SET quantity = quantity + 1, discount = 1 / quantity",
        "UPDATE customers SET balance = balance * 1.005, name = CONCAT(name, ' ✓')",
        "COMMIT",
    ),
)


def change(connection: Any) -> None:
    """A round of changes; may be done again, and then changes other rows."""
    with connection.cursor() as cursor:
        cursor.execute(f"USE {SCHEMA}")
    for transaction in _CHANGES:
        _each(connection, transaction)


def _each(connection: Any, statements: Any) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def rotate(connection: Any) -> None:
    """Goes on in a new binlog file."""
    _each(connection, ["FLUSH BINARY LOGS"])


class Traffic:
    """Small transactions, one after the other, each by its number: the same number does the same."""

    def __init__(self, connection: Any, first: int = 1) -> None:
        self.connection = connection
        self.done = first - 1

    def some(self, count: int) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(f"USE {SCHEMA}")
            for _ in range(count):
                self._next(cursor)

    def _next(self, cursor: Cursor) -> None:
        number = self.done + 1
        some = random.Random(number)  # noqa: S311 - customers, not secrets
        cursor.execute("BEGIN")
        for statement in some.choice(_TRANSACTIONS)(number, some):
            cursor.execute(statement)
        cursor.execute("COMMIT" if number % 10 else "ROLLBACK")
        self.done = number


def _buys(number: int, some: random.Random) -> Iterator[str]:
    order = 2_000_000_000 + number + some.choice([0, HIGH])
    yield f"INSERT INTO orders VALUES ({order}, {some.randrange(1, 100)}, NOW(), 'new', 'EUR', {number}.5, NULL)"
    for line in range(some.randrange(1, 5)):
        yield f"INSERT INTO order_lines VALUES ({order}, {line}, {line + 1}, {number % 9}, {number}.125, NULL)"
    yield f"UPDATE customers SET balance = balance - 0.5 WHERE id = {some.randrange(1, 100)}"
    yield f"INSERT INTO audit_log (what) VALUES (JSON_OBJECT('bought', {order}))"


def _pays(number: int, some: random.Random) -> Iterator[str]:
    yield f"UPDATE orders SET status = 'paid' WHERE customer = {some.randrange(1, 100)} AND status = 'new' LIMIT 3"
    yield f"UPDATE products SET stock = stock - 1, rank_now = {number % 100} WHERE id = {some.randrange(1, 20)}"


def _fills(number: int, some: random.Random) -> Iterator[str]:
    code = some.choice(["cart-{}", "CART-{}"]).format(some.randrange(20))
    yield (
        f"INSERT INTO carts VALUES ('{code}', {number}, 'tea', NOW(3))"
        " ON DUPLICATE KEY UPDATE contents = CONCAT('more ', LEFT(COALESCE(contents, ''), 60)), touched = NOW(3)"
    )
    yield f"UPDATE carts SET code = '{code}' WHERE code = '{code}'"


def _drops(number: int, some: random.Random) -> Iterator[str]:
    yield f"DELETE FROM carts WHERE code = 'cart-{some.randrange(20)}'"
    yield f"DELETE FROM order_lines WHERE order_id BETWEEN {some.randrange(1, 1000)} AND 1000 LIMIT {number % 3}"


def _moves(number: int, some: random.Random) -> Iterator[str]:
    yield f"UPDATE IGNORE customers SET id = id + 3000000000 WHERE id = {some.randrange(50, 300)}"
    yield f"UPDATE order_lines SET line = line + 100 WHERE order_id = {some.randrange(1, 1000)} AND line < 100"
    yield f"UPDATE IGNORE products SET id = id + 4000000, digest = UNHEX('{number:08x}00') WHERE id = {some.randrange(1, 40)}"


_TRANSACTIONS: tuple[Callable[[int, random.Random], Iterator[str]], ...] = (_buys, _buys, _pays, _fills, _drops, _moves)


class Writers(threading.Thread):
    """Traffic in a thread of its own until the ``with`` block ends; what it raises is raised there."""

    def __init__(self, traffic: Traffic, pause: float = 0.004) -> None:
        super().__init__(name="writers", daemon=True)
        self.traffic = traffic
        self.pause = pause
        self._over = threading.Event()
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._over.wait(self.pause):
                self.traffic.some(1)
        except pymysql.MySQLError as error:
            self._error = error

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        self._over.set()
        self.join()
        if self._error and kind is None:
            raise self._error
