import pymysql
import pytest

from spark_jobs.config.servers import MySQL
from spark_jobs.delivery.target import Connection
from spark_jobs.errors import DeliveryError

SERVER = MySQL(host="db", user="writer", password="secret")


@pytest.mark.parametrize(
    "number, text, message",
    [
        (
            1062,
            "Duplicate entry 'Ann' for key 't.name'",
            "Duplicate entry ? for key 't.name'; a row of the target is in",
        ),
        (
            1366,
            "Incorrect string value: '\\xFF' for column 'c' at row 1",
            "Incorrect string value: ? for column 'c' at row",
        ),
        (
            1406,
            "Data too long for column 'c' at row 1",
            "Data too long for column 'c' at row 1; widen the target's column",
        ),
        (1142, "INSERT command denied to user 'w'@'h' for table 't'", "for table 't'; grant it"),
        (1290, "The server is running with the --read-only option", "name the server that takes writes"),
        (9999, "Some text", "answered: Some text"),
        (2013, "Lost connection to MySQL server during query", "db:3306: Lost connection"),
    ],
)
def test_refusals_are_messages_without_values(number: int, text: str, message: str) -> None:
    error = Connection("replica", SERVER).error(pymysql.OperationalError(number, text), "shop.t")
    assert isinstance(error, DeliveryError)
    assert str(error).startswith("delivery replica: shop.t: db:3306")
    assert message in str(error)
    assert not any(value in str(error) for value in ("Ann", "xFF", "secret"))
