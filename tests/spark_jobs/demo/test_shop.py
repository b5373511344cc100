import pytest

from spark_jobs.config.table_patterns import Scope
from spark_jobs.demo.shop import HIGH, TABLES
from tests.fix_mysql import Database


@pytest.mark.mysql
@pytest.mark.parametrize(
    "question",
    [
        f"SELECT COUNT(*) FROM orders WHERE id > {HIGH}",
        "SELECT COUNT(*) FROM products WHERE opens < 0",
        "SELECT COUNT(*) FROM products WHERE CAST(available AS CHAR) = '0000-00-00'",
        "SELECT COUNT(*) FROM products WHERE CAST(available AS CHAR) LIKE '%-02-00'",
        "SELECT COUNT(*) FROM products WHERE digest = CAST('a' AS BINARY(16)) OR digest = CAST('' AS BINARY(16))",
        "SELECT COUNT(*) FROM products WHERE mask = 18446744073709551615",
        "SELECT COUNT(*) FROM audit_log",
    ],
)
def test_rows_that_are_hard_to_hold_are_in_it(shop: Database, question: str) -> None:
    assert shop.execute(question.replace("FROM ", "FROM shop."))[0][0] > 0


def test_the_audit_log_is_out_of_scope() -> None:
    scope = Scope.parse(TABLES)
    assert scope.holds("shop", "orders")
    assert not scope.holds("shop", "audit_log")
