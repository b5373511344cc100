"""The logs that are read: written by a real server, one shape each.

Put here: what is in them. Not here: who reads them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.demo.server import MySQLServer

SCHEMA = "bench"
ORDERS = """
CREATE TABLE orders (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, customer_id INT NOT NULL, sku VARCHAR(32) NOT NULL,
  qty SMALLINT NOT NULL, price DECIMAL(12,2) NOT NULL, discount DOUBLE, status VARCHAR(10) NOT NULL,
  note VARCHAR(255), paid TINYINT NOT NULL DEFAULT 0, created_at DATETIME(3) NOT NULL,
  updated_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)
) CHARSET utf8mb4
"""
# No ENUM: the peer fails on the labels of a server that does not log their character set (MySQL 8.0.12).
FILL = """
INSERT INTO orders (customer_id, sku, qty, price, discount, status, note, paid, created_at)
WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {rows})
SELECT n * 7919 % 100003, CONCAT('SKU-', LPAD(n * 31 % 9999, 6, '0')), n % 50, (n * 37 % 100000) / 100,
       IF(n % 3, n / 7, NULL), ELT(1 + n % 3, 'new', 'paid', 'shipped'),
       IF(n % 5, CONCAT('note für order ', n, REPEAT('x', n % 40)), NULL), n % 2, '2024-01-01' + INTERVAL n SECOND
FROM s
"""
ACCOUNTS = "CREATE TABLE accounts (id INT PRIMARY KEY, balance BIGINT NOT NULL, name VARCHAR(40), changed DATETIME(6))"
TRANSFERS = """
CREATE PROCEDURE transfers (n INT) BEGIN DECLARE i INT DEFAULT 0; WHILE i < n DO
  START TRANSACTION;
  UPDATE accounts SET balance = balance + 1, changed = NOW(6) WHERE id = 1 + i * 7919 % 1000;
  INSERT INTO orders (customer_id, sku, qty, price, status, created_at) VALUES (i, 'SKU-1', 1, 9.99, 'new', NOW(3));
  COMMIT; SET i = i + 1;
END WHILE; END
"""


@dataclass(frozen=True, slots=True)
class Log:
    """One closed binlog file of the server: its name, and how many changes and bytes it holds."""

    shape: str
    path: Path
    changes: int
    tables: tuple[str, ...]

    @property
    def size(self) -> int:
        return self.path.stat().st_size


def write(
    server: MySQLServer, rows: int, transactions: int, *, image: str = "FULL", key: str = "PRIMARY KEY"
) -> Iterator[Log]:
    """Bulk statements of many rows, then transactions of two rows.

    image: the row image of the session; key: how the index on id is declared. What the tables have before is in files
    of their own, older than the first log.
    """
    with server.connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {SCHEMA}")
        connection.select_db(SCHEMA)
        settings = "SET cte_max_recursion_depth = 100000000", f"SET binlog_row_image = {image}"
        for statement in (*settings, ORDERS, ACCOUNTS, TRANSFERS):
            cursor.execute(statement.replace("PRIMARY KEY", key))
        cursor.execute(FILL.replace("{rows}", "1000"))
        cursor.execute("INSERT INTO accounts SELECT id, 0, sku, created_at FROM orders")
        cursor.execute("DELETE FROM orders")
        cursor.execute("FLUSH BINARY LOGS")
        changes = cursor.execute(FILL.replace("{rows}", str(rows)))
        changes += cursor.execute(
            "UPDATE orders SET qty = qty + 1, status = 'paid', updated_at = NOW(6) WHERE id % 2 = 0"
        )
        changes += cursor.execute("DELETE FROM orders WHERE id % 10 = 3")
        yield _closed_log(server, cursor, "bulk", changes, ("orders",))
        cursor.execute("CALL transfers(%s)", (transactions,))
        yield _closed_log(server, cursor, "OLTP", 2 * transactions, ("accounts", "orders"))


def _closed_log(server: MySQLServer, cursor: object, shape: str, changes: int, tables: tuple[str, ...]) -> Log:
    from pymysql.cursors import Cursor

    assert isinstance(cursor, Cursor)
    cursor.execute("SHOW MASTER STATUS")
    status = cursor.fetchone()
    assert status
    cursor.execute("FLUSH BINARY LOGS")
    return Log(shape, server.data / status[0], changes, tables)
