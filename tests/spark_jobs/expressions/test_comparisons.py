import pytest

from spark_jobs.errors import ConfigError
from spark_jobs.expressions.condition import Condition
from tests.twins.expression_table import named, resolve


@pytest.mark.parametrize(
    "text, refused",
    [
        ("name = 'x'", "write it COLLATE utf8mb4_0900_bin"),
        ("n = '1'", "compares a text literal with what is a whole number or a DECIMAL"),
        ("n = day", "compares a whole number or a DECIMAL with a DATE"),
        ("at > seen", "compares a DATETIME with a TIMESTAMP"),
        ("state = 'PAID'", "asks for 'PAID', which is none of (new, open, paid, Ä)"),
        ("state > 'open'", "puts an ENUM in an order, which depends on how it is compared"),
        ("state = 1", "compares an ENUM with a whole number or a DECIMAL"),
        ("day = '2024-02-30'", "compares a DATE with '2024-02-30'; write it like 2024-02-29"),
        ("day = '2024-02-29 00:00:00'", "write it like 2024-02-29"),
        ("at = 'yesterday'", "write it like 2024-02-29 or 2024-02-29 12:00:00"),
        ("doc = 'x'", "compares what is of a type that is asked for NULL alone"),
        ("wide > d9", "compares numbers of together more than 38 digits"),
        ("(n = 1) = 1", "compares a condition; write AND, OR, NOT, IS TRUE"),
        ("y = 24", "compares a YEAR with what a server may read as one of two digits"),
        ("y IN (1970, ABS(70))", "compares a YEAR with what a server may read as one of two digits"),
        ("2024.0 = (y)", "compares a YEAR with what a server may read as one of two digits"),
        ("day <=> day", "compares times by <=>, which MySQL before 9 does otherwise; write = and IS NULL"),
        ("'a' <=> photo", "has a text literal left of <=>"),
        ("'2024-02-29' BETWEEN day AND day", "begins with a text literal; write two comparisons"),
        ("at BETWEEN '2024-02-29' AND at6", "puts a DATETIME between what are no literals; write two comparisons"),
    ],
)
def test_refused(text: str, refused: str) -> None:
    with pytest.raises(ConfigError) as error:
        Condition.parse(text).compiled(resolve())
    assert refused in str(error.value)


@pytest.mark.parametrize(
    "text, truth",
    [
        ("ubig = 18446744073709551615", True),
        ("ubig > big", True),
        ("n = NULL", None),
        ("n <=> NULL", False),
        ("y = 1970", True),
        ("y < n", False),
        ("big = 9007199254740993", True),
        ("big = 9007199254740992e0", True),
        ("big - 1 BETWEEN 9007199254740993 AND 1e300", True),
        ("n IN (1, NULL)", None),
        ("n NOT IN (7, NULL)", False),
        ("blob_ < 'b'", True),
        ("seen = '2024-02-29 12:00:00.5'", True),
    ],
)  # fmt: skip
def test_numbers_and_literals_are_compared_as_servers_do(text: str, truth: bool | None) -> None:
    from datetime import UTC, datetime

    row = named(
        n=7, big=9007199254740993, ubig=18446744073709551615, y=1970, blob_=b"a\xff",
        seen=datetime(2024, 2, 29, 12, 0, 0, 500_000, UTC),
    )  # fmt: skip
    condition = Condition.parse(text)
    cells = condition.compiled(resolve())({name: cell for name, cell in row.items() if name in condition.columns})
    assert cells.over(1).to_pylist() == [truth]
