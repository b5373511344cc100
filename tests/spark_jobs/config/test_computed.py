import pytest

from spark_jobs.config.computed import Computed, type_text
from spark_jobs.config.conditions import Condition
from spark_jobs.errors import ConfigError
from tests.condition_columns import COLUMNS


def spark(text: str, kind: str) -> str:
    return Computed.parse("c", text, kind).to_spark(COLUMNS.__getitem__)


@pytest.mark.parametrize(
    "text, kind",
    [
        ("price * n", "DECIMAL(21,2)"),
        ("n + 1", "bigint"),
        ("f", "DOUBLE"),
        ("n % 7 = 0", "BOOLEAN"),
        ("name", "STRING"),
        ("state", "STRING"),
        ("blob", "BINARY"),
        ("day", "DATE"),
        ("DATE(at)", "DATE"),
        ("seen", "TIMESTAMP"),
        ("MONTH(at)", "SMALLINT"),
        ("IF(n > 3, f, n)", "DOUBLE"),
        ("CASE WHEN n > 3 THEN n ELSE 0.5 END", "decimal(11, 1)"),
        ("CONCAT(LEFT(name, 1), RIGHT(name, 2), SUBSTRING(name, 2, 1), '''')", "STRING"),
        ("IF(n, NULL, NULL)", "INT"),
    ],
)
def test_types_that_hold_every_value(text: str, kind: str) -> None:
    assert spark(text, kind).endswith(f" AS {type_text(kind)})")


@pytest.mark.parametrize(
    "text, kind, refused",
    [
        ("price * n", "DECIMAL(20,2)", "is DECIMAL(21,2), which DECIMAL(20,2) does not hold"),
        ("price", "DECIMAL(20,1)", "does not hold"),
        ("n", "INT", "does not hold"),
        ("n", "STRING", "does not hold"),
        ("name", "INT", "is text, which INT does not hold"),
        ("doc", "STRING", "is of a type that is asked for NULL alone"),
        ("n", "NUMBER", "'NUMBER' is no type of a computed column"),
        ("n", "DECIMAL(39,0)", "is no type of a computed column"),
        ("1 + 1", "INT", "names no column"),
        ("UPPER(name)", "STRING", "`UPPER(name)` is no function"),
        ("RAND() * n", "DOUBLE", "`RAND()` is no function"),
        ("(SELECT n)", "INT", "is a subquery"),
        ("java_method('java.lang.System', 'exit', n)", "INT", "is no function"),
        ("CONCAT(name, n)", "STRING", "is made of text, and `n` is DECIMAL(10,0)"),
        ("IF(n, name, n)", "STRING", "is a whole number or a DECIMAL or text; write one of them"),
        ("CASE n WHEN 1 THEN 2 END", "INT", "write CASE WHEN with conditions"),
        ("SUBSTRING(name, 0)", "STRING", "begins at 0"),
        ("LEFT(name, n)", "STRING", "counts by what is not a whole number"),
        ("n / 2", "DOUBLE", "`n / 2` is not among"),
        ("DATE(seen)", "DATE", "is taken of what is a TIMESTAMP"),
    ],
)
def test_refused(text: str, kind: str, refused: str) -> None:
    with pytest.raises(ConfigError) as error:
        spark(text, kind)
    assert refused in str(error.value)


@pytest.mark.parametrize(
    "text, kind, condition",
    [
        ("price * n", "DECIMAL(21,2)", "c > 9.99 AND c * n < 100"),
        ("MONTH(at)", "SMALLINT", "c IN (1, 12)"),
        ("n + 1", "BIGINT", "c % 2 = 0"),
        ("f", "DOUBLE", "c < 1e3"),
        ("n % 7 = 0", "BOOLEAN", "c OR NOT n"),
        ("CONCAT(LEFT(name, 1))", "STRING", "c COLLATE utf8mb4_0900_bin = 'a'"),
        ("DATE(at)", "DATE", "c < '2024-02-29'"),
        ("seen", "TIMESTAMP", "c IS NULL OR c < '2024-02-29 12:00:00'"),
        ("blob", "BINARY", "LENGTH(c) > 3"),
    ],
)
def test_a_condition_may_name_a_computed_column(text: str, kind: str, condition: str) -> None:
    term = Computed.parse("c", text, kind).term(COLUMNS.__getitem__)
    columns = {**COLUMNS, "c": term}
    assert term.sql in Condition.parse(condition).to_spark(columns.__getitem__)


def test_text_that_is_computed_is_compared_by_its_characters_alone() -> None:
    columns = {**COLUMNS, "c": Computed.parse("c", "CONCAT(name)", "STRING").term(COLUMNS.__getitem__)}
    with pytest.raises(ConfigError, match="compares text by a collation"):
        Condition.parse("c = 'a'").to_spark(columns.__getitem__)


def test_a_text_is_no_part_of_the_statement() -> None:
    assert "DROP" not in spark("CONCAT(name, '); DROP TABLE x; --')", "STRING")
