"""A small shop: its schema, and the rows that it begins with.

Rows are made by the server itself out of row numbers wherever they can be: pseudo-random by CRC32, the same each time.
What a pipeline may get wrong is among them: unsigned numbers above 2⁶³, negative times, zero and partial dates, binary
padding, the highest and lowest of each type.

Put here: tables and first rows. Not here: what is done to them then (writers.py).
"""

import random
from typing import Any

from pymysql.cursors import Cursor

from spark_jobs.errors import ConfigError

SCHEMA = "shop"
TABLES = (f"{SCHEMA}.*", f"!{SCHEMA}.audit_*")
"""The patterns for pipeline.yaml: everything but the audit log."""

FEWEST_ROWS = 500
CHUNK = 5_000
"""Rows that one statement of ``fill`` inserts."""
HIGH = 1 << 63
"""Every tenth order has a number above this: no signed 64-bit integer holds it."""

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
_FILL = {
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
          ELT(1 + i % 3, 'EUR', 'ISK', 'JPY'), CRC32(i + 5) % 100000000 / 100,
          IF(i % 5, NULL, CONCAT('call first ☎ ', i))
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
    """Number of products that a shop of so many rows has, those at the edges not counted."""
    return min(2_000, max(20, rows // 50))


def require_rows(rows: int) -> None:
    """Raise ConfigError for too few rows for every kind of change."""
    if rows < FEWEST_ROWS:
        raise ConfigError(f"--rows: {rows} are too few for every kind of change; {FEWEST_ROWS} are the least")


def create(connection: Any) -> None:
    """The schema and its tables, empty."""
    with connection.cursor() as cursor:
        for statement in _DDL.split(";\n"):
            cursor.execute(statement)


def fill(connection: Any, rows: int) -> int:
    """Fill the tables with about so many rows; return how many they are."""
    counts = {"customers": rows // 10, "orders": rows * 3 // 10, "order_lines": rows * 3 // 10}
    counts["carts"] = max(10, min(500, rows // 100))
    totals = {"customers": counts["customers"], "products": products(rows)}
    with connection.cursor() as cursor:
        cursor.execute(f"USE {SCHEMA}")
        cursor.execute(f"SET SESSION cte_max_recursion_depth = {CHUNK}")
        _insert_products(cursor, totals["products"])
        for table, count in counts.items():
            for first in range(1, count + 1, CHUNK):
                cursor.execute(f"INSERT INTO {table} {_number_rows(first, count)} {_FILL[table].format(**totals)}")
        cursor.execute("INSERT INTO audit_log (what) VALUES (JSON_OBJECT('loaded', %s))", (rows,))
        return sum(_table_count(cursor, table) for table in (*counts, "products"))


def _number_rows(first: int, last: int) -> str:
    last = min(last, first + CHUNK - 1)
    return f"WITH RECURSIVE numbers (i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM numbers WHERE i < {last})"


def _table_count(cursor: Cursor, table: str) -> int:
    cursor.execute(f"SELECT COUNT(*) FROM {table}")
    return int(cursor.fetchall()[0][0])


def _insert_products(cursor: Cursor, count: int) -> None:
    marks = ", ".join(["%s"] * len(_EDGES[0]))
    cursor.execute("SET SESSION sql_mode = ''")  # zero and partial dates are let in
    cursor.executemany(f"INSERT INTO products VALUES ({marks})", [*_EDGES, *map(_product, range(1, count + 1))])
    cursor.execute("SET SESSION sql_mode = DEFAULT")


def _product(number: int) -> tuple[Any, ...]:
    chance = random.Random(number)  # noqa: S311 - goods, not secrets
    day = f"20{chance.randrange(10, 30)}-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}"
    clock = f"{chance.randrange(24):02}:{chance.randrange(60):02}:{chance.randrange(60):02}"
    return (
        *(number, chance.getrandbits(64), f"Nº {number} 🍵", chance.choice([None, "Thé", "Käse"])),
        *(chance.choice(["tool", "toy", "book", "food"]), chance.choice(["", "new", "new,sale", "fragile,heavy"])),
        *(chance.choice([None, "Lorem ipsum. " * chance.randrange(9)]), f"{chance.randrange(10**6)}.{number % 100:02}"),
        *(f"{chance.randrange(-(10**9), 10**9)}.{chance.randrange(10**18):018}", chance.randrange(-128, 128)),
        *(chance.randrange(500), chance.uniform(0, 100), chance.gauss(0, 1e6)),
        *(f"{day} {clock}.{chance.randrange(10**6):06}", f"{day} {clock}.{chance.randrange(1000):03}"),
        *(f"{chance.choice(['', '-'])}{chance.randrange(839)}:59:58.{chance.randrange(1000):03}", day),
        *(chance.randrange(1901, 2156), chance.getrandbits(12), chance.getrandbits(64)),
        *(chance.randbytes(chance.randrange(17)), chance.randbytes(chance.randrange(60))),
    )
