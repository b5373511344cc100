"""Writers to the shop: a round of changes, and small transactions that continue while the pipeline runs.

What a pipeline may get wrong is in it: keys that change, swap and differ by case alone, keys deleted and used again,
rows that live within one transaction, rollbacks, savepoints, and a large transaction.

Put here: SQL that changes rows, and who runs it. Not here: tables (shop.py).
"""

import random
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self

import pymysql

from spark_jobs.demo.shop import HIGH, SCHEMA

_LOCK_ERRORS = (1205, 1213)
"""The server's errors for a lock waited for too long, and for a deadlock."""
_TRIES = 50
FIRST_ORDER = 2_000_000_000
"""The orders of Traffic are numbered from here on, some of them above HIGH."""

_CHANGES: tuple[tuple[str, ...], ...] = (
    # Each line is one transaction, or statements that commit by themselves.
    ("UPDATE products SET price = price * 1.1, changed = '2025-06-01 10:00:00.5' WHERE id % 3 = 0 AND id < 8000000",),
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
        "DELETE FROM products WHERE id = 9000003",
        "INSERT INTO products (id, serial, name, price) VALUES (9000003, 18446744073709551614, 'again', -0.01)",
        "INSERT INTO orders VALUES (7777777, 1, NOW(), 'new', 'EUR', 1, 'never seen')",
        "DELETE FROM orders WHERE id = 7777777",
        "COMMIT",
    ),
    ("REPLACE INTO carts VALUES ('cart-1eef', 7, 'replaced', '2025-07-01 00:00:00.007')",),
    (
        "INSERT INTO carts VALUES ('CART-1EEF', 8, 'by case', NOW()) ON DUPLICATE KEY UPDATE contents = 'by case'",
        "INSERT IGNORE INTO carts VALUES ('cart-ß', 9, 'Straße', NOW()), ('cart-1eef', 0, 'ignored', NOW())",
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
    """A round of changes; it may run again, and then moves on what is left to move."""
    _run_each(connection, [f"USE {SCHEMA}"])
    for transaction in _CHANGES:
        _insist(connection, transaction)


def _insist(connection: Any, transaction: Sequence[str]) -> None:
    """Run a transaction, and again after a deadlock, as an application does; the server has rolled it back then."""
    for tries_left in reversed(range(_TRIES)):
        try:
            _run_each(connection, transaction)
        except pymysql.OperationalError as error:
            if error.args[0] not in _LOCK_ERRORS or not tries_left:
                raise
            _run_each(connection, ["ROLLBACK"])
        else:
            return


def _run_each(connection: Any, statements: Iterable[str]) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def rotate(connection: Any) -> None:
    """Continues in a new binlog file."""
    _run_each(connection, ["FLUSH BINARY LOGS"])


class Traffic:
    """Small transactions, one after the other, each by its number: the same number does the same."""

    def __init__(self, connection: Any, first: int = 1) -> None:
        self.connection = connection
        self.last = first - 1

    def write(self, count: int) -> None:
        _run_each(self.connection, [f"USE {SCHEMA}"])
        for number in range(self.last + 1, self.last + count + 1):
            chance = random.Random(number)  # noqa: S311 - customers, not secrets
            statements = chance.choice(_TRANSACTIONS)(number, chance)
            _insist(self.connection, ["BEGIN", *statements, "COMMIT" if number % 10 else "ROLLBACK"])
            self.last = number


def _buys(number: int, chance: random.Random) -> Iterator[str]:
    order = FIRST_ORDER + number + chance.choice([0, HIGH])
    yield f"INSERT INTO orders VALUES ({order}, {chance.randrange(1, 100)}, NOW(), 'new', 'EUR', {number}.5, NULL)"
    for line in range(chance.randrange(1, 5)):
        yield f"INSERT INTO order_lines VALUES ({order}, {line}, {line + 1}, {number % 9}, {number}.125, NULL)"
    yield f"UPDATE customers SET balance = balance - 0.5 WHERE id = {chance.randrange(1, 100)}"
    yield f"INSERT INTO audit_log (what) VALUES (JSON_OBJECT('bought', {order}))"


def _pays(number: int, chance: random.Random) -> Iterator[str]:
    yield f"UPDATE orders SET status = 'paid' WHERE customer = {chance.randrange(1, 100)} AND status = 'new' LIMIT 3"
    yield f"UPDATE products SET stock = stock - 1, rank_now = {number % 100} WHERE id = {chance.randrange(1, 20)}"


def _fills(number: int, chance: random.Random) -> Iterator[str]:
    code = chance.choice(["cart-{}", "CART-{}"]).format(chance.randrange(20))
    yield (
        f"INSERT INTO carts VALUES ('{code}', {number}, 'tea', NOW(3))"
        " ON DUPLICATE KEY UPDATE contents = CONCAT('more ', LEFT(COALESCE(contents, ''), 60)), touched = NOW(3)"
    )
    yield f"UPDATE carts SET code = '{code}' WHERE code = '{code}'"


def _drops(number: int, chance: random.Random) -> Iterator[str]:
    yield f"DELETE FROM carts WHERE code = 'cart-{chance.randrange(20)}'"
    yield f"DELETE FROM order_lines WHERE order_id BETWEEN {chance.randrange(1, 1000)} AND 1000 LIMIT {number % 3}"


def _moves(number: int, chance: random.Random) -> Iterator[str]:
    yield f"UPDATE IGNORE customers SET id = id + 3000000000 WHERE id = {chance.randrange(50, 300)}"
    yield f"UPDATE order_lines SET line = line + 100 WHERE order_id = {chance.randrange(1, 1000)} AND line < 100"
    product = chance.randrange(1, 40)
    yield f"UPDATE IGNORE products SET id = id + 4000000, digest = UNHEX('{number:08x}00') WHERE id = {product}"


_TRANSACTIONS: tuple[Callable[[int, random.Random], Iterator[str]], ...] = (_buys, _buys, _pays, _fills, _drops, _moves)


class Writers(threading.Thread):
    """Traffic in a thread of its own until the ``with`` block ends; what it raises is raised there."""

    def __init__(self, traffic: Traffic, pause: float = 0.015) -> None:
        super().__init__(name="writers", daemon=True)
        self.traffic = traffic
        self.pause = pause
        self._over = threading.Event()
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._over.wait(self.pause):
                self.traffic.write(1)
        except pymysql.MySQLError as error:
            self._error = error

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._over.set()
        self.join()
        if self._error and kind is None:
            raise self._error
