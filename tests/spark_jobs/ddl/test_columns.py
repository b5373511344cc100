from dataclasses import replace

import pytest

from spark_jobs.binlog import Session
from spark_jobs.binlog.types.charsets import CHARSET_ALONE
from spark_jobs.ddl.columns import DeclaredColumn, column_in_charset, declared_column, require_plain, words_of
from spark_jobs.errors import Unsupported


def column(text: str) -> DeclaredColumn:
    name, *rest = words_of(text)
    return declared_column(name.text, rest)


_UNREADABLE = "the character set of its text is not known"
_ESCAPED = "its text has bytes that are not text of its client's character set"


@pytest.mark.parametrize(
    "text, collation, reason",
    [
        ("DROP TABLE t", None, None),
        ("DROP TABLE t", 9999, None),
        ("DROP TABLE t", 63, None),
        ("DROP TABLE é", None, _UNREADABLE),
        ("DROP TABLE é", 9999, _UNREADABLE),
        ("DROP TABLE é", 63, _UNREADABLE),
        ("DROP TABLE é", 54, _UNREADABLE),
        ("DROP TABLE é", 10, _UNREADABLE),
        ("DROP TABLE é", 45, None),
        ("DROP TABLE é", 8, None),
        ("DROP TABLE é", 28, None),
        ("DROP TABLE \\xe9", 45, _ESCAPED),
        ("DROP TABLE \\xe9", None, _ESCAPED),
        ("c VARCHAR(9) DEFAULT '\\x7f'", 45, None),
        ("c VARCHAR(9) DEFAULT '{'", 10, _UNREADABLE),
        ("c VARCHAR(9) DEFAULT 'x'", 10, None),
    ],
)
def test_which_clients_statements_are_read(text: str, collation: int | None, reason: str | None) -> None:
    session = Session(0, collation)
    if reason is None:
        require_plain(text, session)
        return
    with pytest.raises(Unsupported) as refused:
        require_plain(text, session)
    assert str(refused.value) == reason


@pytest.mark.parametrize(
    "text, expected",
    [
        ("c INT", "int"),
        ("c INTEGER(11) UNSIGNED ZEROFILL NOT NULL", "int unsigned"),
        ("c BOOL", "tinyint"),
        ("c INT8", "bigint"),
        ("c MIDDLEINT", "mediumint"),
        ("c DEC", "decimal(10,0)"),
        ("c NUMERIC(5)", "decimal(5,0)"),
        ("c FIXED(12,2) UNSIGNED", "decimal(12,2) unsigned"),
        ("c FLOAT(7,3)", "float"),
        ("c FLOAT(25)", "double"),
        ("c DOUBLE PRECISION", "double"),
        ("c REAL", "double"),
        ("c BIT", "bit(1)"),
        ("c BIT(64)", "bit(64)"),
        ("c YEAR(4)", "year"),
        ("c DATE", "date"),
        ("c DATETIME(6) ON UPDATE CURRENT_TIMESTAMP(6)", "datetime(6)"),
        ("c TIMESTAMP NULL DEFAULT NULL", "timestamp"),
        ("c TIME(3)", "time(3)"),
        ("c CHAR", "char(1)"),
        ("c CHARACTER VARYING(7)", "varchar(7)"),
        ("c NATIONAL VARCHAR(7)", "varchar(7)"),
        ("c NCHAR(3)", "char(3)"),
        ("c VARCHAR(7) CHARACTER SET latin1 COLLATE latin1_bin", "varchar(7)"),
        ("c VARCHAR(7) CHARSET binary", "varbinary(7)"),
        ("c CHAR(7) COLLATE binary", "binary(7)"),
        ("c CHAR(7) BYTE", "binary(7)"),
        ("c VARBINARY(300)", "varbinary(300)"),
        ("c LONG VARCHAR", "mediumtext"),
        ("c LONG VARBINARY", "mediumblob"),
        ("c LONG", "mediumtext"),
        ("c TINYTEXT", "tinytext"),
        ("c TEXT(63) CHARACTER SET utf8mb4", "tinytext"),
        ("c TEXT(64) CHARACTER SET utf8mb4", "text"),
        ("c TEXT(21846) CHARACTER SET utf8mb3", "mediumtext"),
        ("c BLOB(65536)", "mediumblob"),
        ("c VARCHAR(17000) CHARACTER SET utf16", "mediumtext"),
        ("c VARBINARY(65536)", "mediumblob"),
        ("c SERIAL", "bigint unsigned"),
        ("c YEAR(4) UNSIGNED", "year"),
        ("c INT WITHOUT SYSTEM VERSIONING", "int"),
        ("c BLOB(65535)", "blob"),
        ("c INT GENERATED ALWAYS AS (a + (b)) STORED NOT NULL COMMENT 'NULL'", "int"),
        ("c TIMESTAMP(6) GENERATED ALWAYS AS ROW START INVISIBLE", "timestamp(6)"),
        ("c VARCHAR(9) COMPRESSED=zlib CHARACTER SET latin1", "varchar(9) compressed"),
        ("c TEXT CHARACTER SET binary", "blob"),
        ("c LONGBLOB", "longblob"),
        ("c JSON", "json"),
        ("c POINT SRID 4326 NOT NULL", "geometry"),
        ("c ENUM('a','it''s','back\\\\slash')", "enum('a','it''s','back\\slash')"),
        ("c SET('a','b') CHARACTER SET utf8", "set('a','b')"),
        ("c INT COMMENT 'DEFAULT 5, or so' UNIQUE KEY CHECK (c > 0) VISIBLE", "int"),
        ("`c` INT REFERENCES other (id) ON DELETE CASCADE", "int"),
    ],
)
def test_a_declared_type_is_the_one_that_the_log_would_tell(text: str, expected: str) -> None:
    assert column(text).column.sql_type.replace(" unsigned", "") == expected.replace(" unsigned", "")
    assert column(text).column.unsigned == ("unsigned" in expected)
    assert column(text).column.name == "c"


@pytest.mark.parametrize(
    "text, nullable",
    [
        ("c INT AS (1) VIRTUAL", True),
        ("c INT AS (1) VIRTUAL NOT NULL", False),
        ("c INT AUTO_INCREMENT UNIQUE", False),
        ("c INT AUTO_INCREMENT NULL UNIQUE", True),
        ("c INT NULL AUTO_INCREMENT UNIQUE", True),
        ("c SERIAL", False),
        ("c INT PRIMARY KEY", False),
    ],
)
def test_whether_null_is_a_value(text: str, nullable: bool) -> None:
    assert column(text).column.nullable is nullable


@pytest.mark.parametrize("text, expected", [("c VECTOR(4)", "vector(4)"), ("c VECTOR", "vector(2048)")])
def test_a_vector_says_how_many_numbers_it_has(text: str, expected: str) -> None:
    assert column(text).column.declared == expected


def test_text_that_names_no_character_set_has_the_table_s() -> None:
    assert declared_column("c", words_of("CHAR(3)"), "latin1").column.charset == 5 | CHARSET_ALONE
    assert declared_column("c", words_of("CHAR(3) CHARACTER SET ascii"), "latin1").column.charset == 11 | CHARSET_ALONE
    assert declared_column("c", words_of("NCHAR(3)"), "latin1").column.meta == 9
    assert declared_column("c", words_of("CHAR(3)"), "binary").column.sql_type == "binary(3)"


def test_a_collation_of_any_set_is_of_the_set_around() -> None:
    words = words_of("VARCHAR(3) COLLATE uca1400_ai_ci")
    given = {
        charset: declared_column("c", words, charset).column.charset for charset in ("utf8mb4_bin", "utf8mb3", None)
    }
    assert given == {"utf8mb4_bin": 2304, "utf8mb3": 2048, None: None}


@pytest.mark.parametrize(
    "attributes, expected",
    [
        ("CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci", 224),
        ("COLLATE latin1_swedish_ci", 8),
        ("COLLATE = utf8_bin", 83),
        ("COLLATE latin1_german2_ci", 5 | CHARSET_ALONE),
        ("CHARACTER SET utf8mb4 COLLATE uca1400_ai_ci", 2304),
        ("CHARACTER SET utf8mb4 COLLATE uca1400_german2_ai_ci", 45 | CHARSET_ALONE),
        ("CHARACTER SET utf8mb4", 45 | CHARSET_ALONE),
        ("CHARACTER SET binary", 63),
    ],
)
def test_the_collation_is_the_one_named_or_marked_as_any_of_its_set(attributes: str, expected: int) -> None:
    assert declared_column("c", words_of(f"ENUM('a') {attributes}"), None).column.charset == expected


@pytest.mark.parametrize(
    "attributes, expected",
    [
        ("", 192),
        ("BINARY", 83),
        ("CHARACTER SET latin1", 5 | CHARSET_ALONE),
        ("CHARACTER SET latin1 BINARY", 47),
        ("COLLATE latin1_bin", 47),
        ("CHARACTER SET ascii COLLATE ascii_bin", 65),
    ],
)
def test_text_without_a_character_set_of_its_own_has_the_table_s_collation(attributes: str, expected: int) -> None:
    assert declared_column("c", words_of(f"VARCHAR(3) {attributes}"), "utf8_unicode_ci").column.charset == expected
    assert declared_column("c", words_of("NCHAR(3)"), "utf8_unicode_ci").column.charset == 33 | CHARSET_ALONE


@pytest.mark.parametrize("text", ["c ENUM('a', 0xc3a6)", "c SET(_utf8'a')"])
def test_labels_that_are_not_plain_text_are_refused(text: str) -> None:
    with pytest.raises(Unsupported, match="its labels are not all written as text"):
        column(text)


@pytest.mark.parametrize("text", ["c KLINGON", "c INT KLINGON", "c VARCHAR(3) CHARACTER SET klingon", "c"])
def test_what_is_not_known_is_refused(text: str) -> None:
    with pytest.raises(Unsupported):
        column(text)


@pytest.mark.parametrize(
    "text, is_open",
    [
        ("c TIMESTAMP", True),
        ("c TIMESTAMP(3) COMMENT 'x'", True),
        ("c TIMESTAMP NULL", False),
        ("c TIMESTAMP NOT NULL", False),
        ("c TIMESTAMP DEFAULT NOW()", False),
        ("c DATETIME", False),
    ],
)
def test_a_bare_timestamp_leaves_open_whether_it_may_be_null(text: str, is_open: bool) -> None:
    assert column(text).is_open == is_open


def test_text_into_another_character_set_has_as_many_characters() -> None:
    latin = column("c VARCHAR(7) CHARACTER SET latin1").column
    assert (latin.meta, column_in_charset(latin, "utf8mb4").meta, column_in_charset(latin, "utf8").meta) == (7, 28, 21)
    assert column_in_charset(latin, "utf8mb4_unicode_ci") == replace(latin, charset=224, meta=28)
    assert column_in_charset(column("c BINARY(7)").column, "utf8mb4").meta == 7
    assert column_in_charset(column("c CHAR(7)").column, "utf8mb4").meta == 28
    assert column_in_charset(column("c INT").column, "utf8mb4") == column("c INT").column
