from typing import Any

import pymysql
import pytest

from spark_jobs.demo.server import MySQLServer
from spark_jobs.demo.writers import Traffic, Writers, change, rotate
from tests.fix_mysql import Database

pytestmark = pytest.mark.mysql


def checksums(shop: Database) -> tuple[tuple[Any, ...], ...]:
    return shop.execute("CHECKSUM TABLE shop.customers, shop.order_lines")


def test_a_round_of_changes_does_what_it_says(shop: Database) -> None:
    swapped = "SELECT email FROM shop.customers WHERE id IN (1, 2) ORDER BY id"
    before = shop.execute(swapped)
    change(shop.connection)
    assert shop.execute(swapped) == before[::-1]
    assert shop.execute("SELECT email FROM shop.customers WHERE id = 3") == (("else@example.org",),)
    assert shop.execute("SELECT code, contents FROM shop.carts WHERE code = 'cart-1eef'") == (("cart-1eef", "by case"),)
    assert shop.execute("SELECT COUNT(*) FROM shop.orders WHERE id = 7777777 OR total = 0") == ((0,),)
    assert shop.execute("SELECT COUNT(*) > 50 FROM shop.customers") == ((1,),)


def test_a_round_may_be_done_again(shop: Database) -> None:
    before = checksums(shop)
    change(shop.connection)
    assert all(left != right for left, right in zip(before, checksums(shop), strict=True))


def test_every_tenth_transaction_is_rolled_back(shop: Database) -> None:
    traffic, before = Traffic(shop.connection, first=10), checksums(shop)
    traffic.write(1)
    assert (traffic.last, checksums(shop)) == (10, before)
    traffic.write(20)
    assert (traffic.last, checksums(shop) == before) == (30, False)


def test_writers_go_on_until_the_block_ends(shop: Database, mysql: MySQLServer) -> None:
    with mysql.connect() as connection:
        traffic = Traffic(connection, first=1_001)
        with Writers(traffic, pause=0):
            change(shop.connection)
        count = traffic.last
        assert count > 1_001
        rotate(shop.connection)
        assert traffic.last == count


def test_what_stops_a_writer_is_raised(mysql: MySQLServer) -> None:
    connection = mysql.connect()
    connection.close()
    writers = Writers(Traffic(connection))
    with pytest.raises(pymysql.MySQLError), writers:
        writers.join(10)
