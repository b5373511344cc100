"""What statements say of a schema's character set."""

import pytest

from spark_jobs.binlog import Session, TableName
from spark_jobs.binlog.types.charsets import CHARSET_ALONE
from spark_jobs.ddl.classify import classify
from spark_jobs.ddl.schema_charsets import SchemaCharset, schema_charset, with_charset
from spark_jobs.log.position import Position
from spark_jobs.schema.facts import StatementFact
from spark_jobs.schema.tracker import Tracker


@pytest.mark.parametrize(
    "text, expected",
    [
        ("CREATE DATABASE `a b` /*!40100 DEFAULT CHARACTER SET latin1 */", SchemaCharset("a b", "latin1")),
        ("CREATE DATABASE d CHARSET=cp1251", SchemaCharset("d", "cp1251")),
        ("create schema x default collate latin2_bin", SchemaCharset("x", "latin2_bin")),
        ("CREATE DATABASE d CHARACTER SET utf8 COLLATE utf8_bin", SchemaCharset("d", "utf8_bin")),
        ("CREATE DATABASE IF NOT EXISTS d CHARSET latin1", SchemaCharset("d", "latin1", if_missing=True)),
        ("CREATE DATABASE d", SchemaCharset("d", None)),
        ("CREATE DATABASE d CHARACTER SET DEFAULT", SchemaCharset("d", None)),
        ("CREATE DATABASE d CHARACTER SET binary", SchemaCharset("d", None)),
        ("ALTER DATABASE CHARACTER SET = utf8mb4", SchemaCharset("shop", "utf8mb4")),
        ("ALTER DATABASE `charset` COLLATE utf8mb4_bin", SchemaCharset("charset", "utf8mb4_bin")),
        ("ALTER SCHEMA d READ ONLY = 1", None),
        ("CREATE TABLE t (a INT) CHARSET latin1", None),
        ("DROP DATABASE d", None),
        ("CREATE DATABASE d '", None),
    ],
)
def test_what_a_statement_says(text: str, expected: SchemaCharset | None) -> None:
    assert schema_charset(classify(text, "shop"), "shop") == expected


def charsets_after(*texts: str) -> list[int | None]:
    """The collations of a table's columns after statements."""
    tracker = Tracker()
    for at, text in enumerate(texts, 1):
        tracker.follow([StatementFact(Position("b.000001", at), classify(text, "shop"), "shop", Session())])
    definition = tracker.definition(TableName("shop", "t"))
    assert definition
    return [column.charset for column in definition.columns]


CREATE = "CREATE TABLE t (a VARCHAR(3), b TEXT, c CHAR(2) CHARACTER SET latin1, d INT, e BLOB)"
LATIN1, UTF8MB4, BINARY = 5 | CHARSET_ALONE, 45 | CHARSET_ALONE, 63


@pytest.mark.parametrize(
    "statements, is_known",
    [
        ([], False),
        (["CREATE DATABASE shop CHARSET cp1251"], True),
        (["CREATE DATABASE other CHARSET cp1251"], False),
        (["CREATE DATABASE shop CHARSET latin1", "ALTER DATABASE shop CHARSET cp1251"], True),
        (["CREATE DATABASE shop CHARSET cp1251", "ALTER DATABASE shop READ ONLY = 0"], True),
        (["CREATE DATABASE shop CHARSET cp1251", "CREATE DATABASE IF NOT EXISTS shop CHARSET latin1"], True),
        (["CREATE DATABASE IF NOT EXISTS shop CHARSET cp1251"], False),
        (["CREATE DATABASE shop CHARSET cp1251", "DROP DATABASE shop"], False),
        (["CREATE DATABASE shop CHARSET cp1251", "ALTER DATABASE shop CHARSET DEFAULT"], False),
        (["CREATE DATABASE shop CHARSET klingon"], False),
    ],
)
def test_a_table_takes_the_character_set_of_its_schema(statements: list[str], is_known: bool) -> None:
    collations = charsets_after(*statements, CREATE)
    assert collations[2:] == [LATIN1, None, BINARY]
    assert len(set(collations[:2])) == 1
    assert (collations[0] is not None) == is_known
    if is_known:
        model = charsets_after("CREATE DATABASE shop", f"{CREATE} CHARSET cp1251")
        assert collations == model


def test_a_later_change_of_the_schema_leaves_its_tables_alone() -> None:
    before = charsets_after("CREATE DATABASE shop CHARSET cp1251", CREATE)
    assert charsets_after("CREATE DATABASE shop CHARSET cp1251", CREATE, "ALTER DATABASE shop CHARSET latin1") == before


def test_without_a_character_set_a_definition_stays() -> None:
    tracker = Tracker()
    tracker.follow([StatementFact(Position("b.000001", 1), classify(CREATE, "shop"), "shop", Session())])
    definition = tracker.definition(TableName("shop", "t"))
    assert definition
    assert with_charset(definition, None, CREATE) is definition


@pytest.mark.parametrize(
    "statements, expected",
    [
        (["CREATE DATABASE shop COLLATE utf8mb4_unicode_ci"], 224),
        (["CREATE DATABASE shop CHARSET utf8mb4 COLLATE utf8mb4_unicode_ci"], 224),
        (["CREATE DATABASE shop COLLATE latin1_bin", "ALTER DATABASE shop COLLATE utf8mb4_unicode_ci"], 224),
        (["CREATE DATABASE shop COLLATE utf8mb4_unicode_ci", "ALTER DATABASE shop CHARSET utf8mb4"], UTF8MB4),
        (["CREATE DATABASE shop CHARSET utf8mb4"], UTF8MB4),
    ],
)
def test_a_table_takes_the_collation_of_its_schema(statements: list[str], expected: int) -> None:
    assert charsets_after(*statements, "CREATE TABLE t (a VARCHAR(3), b TEXT)") == [expected] * 2
    # A column may be of another collation, or of its character set's default.
    with_names = "CREATE TABLE t (a VARCHAR(3) COLLATE latin1_bin, b TEXT CHARSET utf8mb4, c TEXT BINARY)"
    assert charsets_after(*statements, with_names) == [47, UTF8MB4, UTF8MB4]


@pytest.mark.parametrize(
    "create", ["(a VARCHAR(3) COLLATE uca1400_ai_ci, b TEXT)", "(a VARCHAR(3), b TEXT) COLLATE uca1400_ai_ci"]
)
def test_with_a_collation_of_any_set_the_schema_tells_the_character_set_alone(create: str) -> None:
    begin = "CREATE DATABASE shop COLLATE utf8mb4_unicode_ci"
    assert charsets_after(begin, f"CREATE TABLE t {create}") == [UTF8MB4, UTF8MB4]
    # The schema's own is of a character set that no statement tells.
    assert charsets_after(begin, "ALTER DATABASE shop COLLATE uca1400_ai_ci", "CREATE TABLE t (a TEXT)") == [None]
