import pytest

from spark_jobs.config.conditions import Condition
from spark_jobs.errors import ConfigError
from tests.condition_columns import COLUMNS


def spark(text: str) -> str:
    return Condition.parse(text).to_spark(COLUMNS.__getitem__)


@pytest.mark.parametrize(
    "text, refused",
    [
        ("n = (SELECT 1)", "`(SELECT 1)` is a subquery, and a filter looks at its row alone"),
        ("n IN (SELECT 1)", "`n IN (SELECT 1)` is a subquery, and a filter looks at its row alone"),
        ("EXISTS (SELECT 1) OR n", "`EXISTS(SELECT 1)` is a subquery, and a filter looks at its row alone"),
        ("NOW() > at", "`NOW()` is no function that a filter may use"),
        ("RAND() < n", "`RAND()` is no function that a filter may use"),
        ("SLEEP(n)", "`SLEEP(n)` is no function that a filter may use"),
        ("java_method('java.lang.System', 'exit', n)", "is no function that a filter may use"),
        ("@x = n", "`@x` is not among what a filter may say"),
        ("n = ?", "`?` is not among what a filter may say"),
        ("n := 1", "is not among what a filter may say"),
        ("t.n = 1", "`t.n` names a table; a filter names columns of its row alone"),
        ("n = 1; DROP TABLE t", "must be one expression"),
        ("n = 1 OR", "'n = 1 OR' is no expression of MySQL: "),
        ("", "'' must be one expression"),
        ("1 = 1", "'1 = 1' names no column, and so says nothing about a row"),
        ("n / 2 = 1", "`n / 2` is not among what a filter may say"),
        ("n DIV 2 = 1", "`n DIV 2` is not among what a filter may say"),
        ("n & 1", "`n & 1` is not among what a filter may say"),
        ("n XOR f", "`n XOR f` is no function that a filter may use"),
        ("name REGEXP 'a'", "is no function that a filter may use"),
        ("(n, f) = (1, 2)", "is not among what a filter may say"),
        ("BINARY name = 'x'", "is no function that a filter may use"),
        ("name COLLATE utf8mb4_general_ci = 'x'", "names a collation that the lake does not know"),
        ("(n = 1) = 1", "compares a condition; write AND, OR, NOT, IS TRUE"),
    ],
)
def test_refused_by_itself(text: str, refused: str) -> None:
    with pytest.raises(ConfigError) as error:
        Condition.parse(text)
    assert refused in str(error.value)


@pytest.mark.parametrize(
    "text, refused",
    [
        ("name = 'x'", "write it COLLATE utf8mb4_0900_bin"),
        ("name LIKE 'x%'", "write it COLLATE utf8mb4_0900_bin"),
        ("name", "`name` is text, and no condition"),
        ("n = '1'", "compares a text literal with what is a whole number or a DECIMAL"),
        ("n = day", "compares a whole number or a DECIMAL with a DATE"),
        ("at > seen", "compares a DATETIME with a TIMESTAMP"),
        ("state = 'PAID'", "asks for 'PAID', which is none of (open, paid)"),
        ("state > 'open'", "puts an ENUM in an order, which depends on how it is compared"),
        ("state = 1", "compares an ENUM with a whole number or a DECIMAL"),
        ("day = '2024-02-30'", "compares a DATE with '2024-02-30'; write it like 2024-02-29"),
        ("day = '2024-02-29 00:00:00'", "write it like 2024-02-29"),
        ("at = 'yesterday'", "write it like 2024-02-29 or 2024-02-29 12:00:00"),
        ("doc = 'x'", "compares what is of a type that is asked for NULL alone"),
        ("big * n > 0", "may have more than 38 digits, which the lake does not hold"),
        ("big > price", "compares numbers of together more than 38 digits"),
        ("f + 1 > 0", "counts with what is a FLOAT or a DOUBLE, not a whole number or a DECIMAL"),
        ("LENGTH(name) > 1", "counts bytes of text"),
        ("CHAR_LENGTH(n) > 1", "counts characters of what is a whole number or a DECIMAL"),
        ("YEAR(name) = 1", "is taken of what is text"),
        ("name COLLATE utf8mb4_0900_bin LIKE 'a\\\\%'", "has a backslash in its pattern"),
        ("f < 1e999", "is larger than any DOUBLE"),
    ],
)
def test_refused_for_a_columns_type(text: str, refused: str) -> None:
    with pytest.raises(ConfigError) as error:
        spark(text)
    assert refused in str(error.value)


def test_no_text_of_the_condition_reaches_spark() -> None:
    quoted = "name COLLATE utf8mb4_0900_bin = 'x'') OR assert_true(false) -- /* */ \\\\'"
    assert spark(quoted).replace("CAST(X'", "").count("'") == 1


def test_names_are_told_in_small_letters() -> None:
    assert Condition.parse("`N` = 1 AND Price > 2").columns == {"n", "price"}
