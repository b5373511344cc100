import pytest

from spark_jobs.binlog import Column, Moment
from spark_jobs.errors import Unsupported
from spark_jobs.schema.declared import (
    Declared,
    Fill,
    converted,
    declared,
    fill_of,
    on_server_default,
    with_default,
    words_of,
)


def column(text: str) -> Declared:
    name, *rest = words_of(text)
    return declared(name.text, rest)


@pytest.mark.parametrize(
    "text, shown",
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
def test_a_declared_type_is_the_one_that_the_log_would_tell(text: str, shown: str) -> None:
    assert column(text).column.sql_type.replace(" unsigned", "") == shown.replace(" unsigned", "")
    assert column(text).column.unsigned == ("unsigned" in shown)
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


@pytest.mark.parametrize("text, said", [("c VECTOR(4)", "vector(4)"), ("c VECTOR", "vector(2048)")])
def test_a_vector_says_how_many_numbers_it_has(text: str, said: str) -> None:
    assert column(text).column.declared == said


def test_text_that_names_no_character_set_has_the_table_s() -> None:
    assert declared("c", words_of("CHAR(3)"), "latin1").column.charset == 5
    assert declared("c", words_of("CHAR(3) CHARACTER SET ascii"), "latin1").column.charset == 11
    assert declared("c", words_of("NCHAR(3)"), "latin1").column.meta == 9
    assert declared("c", words_of("CHAR(3)"), "binary").column.sql_type == "binary(3)"


@pytest.mark.parametrize("text", ["c ENUM('a', 0xc3a6)", "c SET(_utf8'a')"])
def test_labels_that_are_not_plain_text_are_refused(text: str) -> None:
    with pytest.raises(Unsupported, match="its labels are not all written as text"):
        column(text)


@pytest.mark.parametrize("text", ["c KLINGON", "c INT KLINGON", "c VARCHAR(3) CHARACTER SET klingon", "c"])
def test_what_is_not_known_is_refused(text: str) -> None:
    with pytest.raises(Unsupported):
        column(text)


@pytest.mark.parametrize(
    "text, fill",
    [
        ("c INT", None),
        ("c INT DEFAULT NULL", None),
        ("c INT NOT NULL", "0"),
        ("c INT DEFAULT -5", "-5"),
        ("c INT DEFAULT '7'", "7"),
        ("c TINYINT(1) DEFAULT TRUE", "1"),
        ("c BIT(5) DEFAULT b'101'", "5"),
        ("c BIGINT DEFAULT 0x10", "16"),
        ("c DECIMAL(10,2) DEFAULT 1.5", "'1.50'"),
        ("c DECIMAL(10,2) NOT NULL", "'0.00'"),
        ("c DOUBLE DEFAULT -1e3", "'-1E+3'"),
        ("c VARCHAR(9) DEFAULT 'it''s'", "'it\\'s'"),
        ("c VARCHAR(9) DEFAULT 5", "'5'"),
        ("c CHAR(9) DEFAULT 'a  '", "'a'"),
        ("c VARCHAR(9) NOT NULL", "''"),
        ("c VARBINARY(9) DEFAULT 'ab'", "X'6162'"),
        ("c BINARY(4) DEFAULT 'ab'", "X'61620000'"),
        ("c VARBINARY(9) DEFAULT 0x4100", "X'4100'"),
        ("c ENUM('a','b') NOT NULL", "'a'"),
        ("c ENUM('a','b') DEFAULT 'b'", "'b'"),
        ("c SET('a','b') DEFAULT 'b,a'", "'a,b'"),
        ("c DATE DEFAULT '2024-02-29'", "'2024-02-29'"),
        ("c DATETIME(3) DEFAULT '2024-02-29 01:02:03.5'", "'2024-02-29 01:02:03.500000'"),
        ("c DATETIME DEFAULT '2024-02-29'", "'2024-02-29 00:00:00'"),
        ("c TIME(2) DEFAULT '-10:00:00'", "'-10:00:00.00'"),
        ("c TIME NOT NULL", "'00:00:00'"),
        ("c YEAR DEFAULT 1999", "1999"),
        ("c JSON", None),
        ("c TEXT NOT NULL", "''"),
    ],
)
def test_older_rows_get_what_the_server_gives_them(text: str, fill: str | None) -> None:
    assert fill_of(column(text)) == (fill and Fill(fill))


HALF_PAST = Moment(1_900_000_000, 123_456, "+05:30")  # 2030-03-17 17:46:40 UTC


@pytest.mark.parametrize(
    "text, fill",
    [
        ("c TIMESTAMP DEFAULT CURRENT_TIMESTAMP", "TIMESTAMP'2030-03-17 17:46:40Z'"),
        ("c TIMESTAMP NOT NULL DEFAULT current_timestamp() ON UPDATE NOW()", "TIMESTAMP'2030-03-17 17:46:40Z'"),
        ("c TIMESTAMP(3) DEFAULT NOW(3)", "TIMESTAMP'2030-03-17 17:46:40.123000Z'"),
        ("c TIMESTAMP(6) DEFAULT LOCALTIMESTAMP(6)", "TIMESTAMP'2030-03-17 17:46:40.123456Z'"),
        ("c TIMESTAMP(6) DEFAULT NOW()", "TIMESTAMP'2030-03-17 17:46:40Z'"),  # as MariaDB lets it be
        ("c DATETIME DEFAULT LOCALTIME", "'2030-03-17 23:16:40'"),
        ("c DATETIME(2) DEFAULT CURRENT_TIMESTAMP(2)", "'2030-03-17 23:16:40.120000'"),
        ("c TIMESTAMP DEFAULT '2024-02-29 03:00:00'", "TIMESTAMP'2024-02-28 21:30:00Z'"),
        ("c TIMESTAMP(1) DEFAULT '2024-02-29 12:00:00.5'", "TIMESTAMP'2024-02-29 06:30:00.500000Z'"),
        ("c DATETIME DEFAULT '2024-02-29 12:00:00'", "'2024-02-29 12:00:00'"),
        ("c TIMESTAMP NULL", None),
    ],
)
def test_older_rows_get_the_time_of_the_statement(text: str, fill: str | None) -> None:
    assert fill_of(column(text), HALF_PAST) == (fill and Fill(fill))


def test_a_timestamp_of_zeros_is_no_time_of_a_zone() -> None:
    assert fill_of(column("c TIMESTAMP NOT NULL DEFAULT 0"), HALF_PAST) == Fill("NULL", "0000-00-00 00:00:00")


@pytest.mark.parametrize(
    "text, moment, why",
    [
        ("c TIMESTAMP(6) DEFAULT NOW(6)", Moment(1, None, "UTC"), "the fraction of its second is not in the log"),
        ("c DATETIME DEFAULT NOW()", Moment(1, 2, "SYSTEM"), r"time zone is the server's own \(SYSTEM\)"),
        ("c DATETIME DEFAULT NOW()", Moment(1, 2), "session's time zone is not in the log"),
        ("c TIMESTAMP DEFAULT '2024-02-29 12:00:00'", Moment(1, 2, "system"), r"zone is the server's own \(SYSTEM\)"),
        ("c DATETIME DEFAULT NOW()", Moment(1, 2, "Europe/Atlantis"), "time zone 'Europe/Atlantis' is not known here"),
        ("c DATE DEFAULT (CURRENT_DATE)", HALF_PAST, "it is no constant"),
    ],
)
def test_a_time_that_the_log_does_not_tell_is_refused(text: str, moment: Moment, why: str) -> None:
    with pytest.raises(Unsupported, match=why):
        fill_of(column(text), moment)


@pytest.mark.parametrize(
    "text, exact",
    [
        ("c DATE NOT NULL", "0000-00-00"),
        ("c DATETIME NOT NULL", "0000-00-00 00:00:00"),
        ("c DATETIME(3) NOT NULL DEFAULT '0000-00-00 00:00:00'", "0000-00-00 00:00:00.000"),
        ("c DATETIME DEFAULT '0000-00-00'", "0000-00-00 00:00:00"),
        ("c TIMESTAMP NOT NULL DEFAULT 0", "0000-00-00 00:00:00"),
        ("c DATE DEFAULT '0000-00-00'", "0000-00-00"),
    ],
)
def test_older_rows_get_a_date_of_zeros_as_its_text(text: str, exact: str) -> None:
    assert fill_of(column(text)) == Fill("NULL", exact)
    assert with_default(column(text)).default is None


@pytest.mark.parametrize(
    "text, why",
    [
        ("c DATETIME DEFAULT CURRENT_TIMESTAMP", "it is no constant"),
        ("c INT DEFAULT (1 + 1)", "it is no constant"),
        ("c INT AUTO_INCREMENT UNIQUE", "it counts by itself"),
        ("c SERIAL", "it counts by itself"),
        ("c INT GENERATED ALWAYS AS (id + 1) STORED", "it is computed"),
        ("c INT AS (id + 1)", "it is computed"),
        ("c DECIMAL(5,1) DEFAULT 1.25", "it is rounded"),
        ("c INT DEFAULT 1.5", "it is rounded"),
        ("c DATE DEFAULT '24-2-29'", "it is no date"),
        ("c DATE DEFAULT '2023-02-29'", "it is no date of the calendar"),
        ("c TIMESTAMP NOT NULL", "no constant of type timestamp is known here"),
        ("c TIMESTAMP NOT NULL DEFAULT '2024-02-29 00:00:00'", "no constant of type timestamp is known here"),
        ("c ENUM('a','b') DEFAULT 'A'", "none of the labels"),
        ("c ENUM('a','b') DEFAULT 2", "none of the labels"),
        ("c YEAR DEFAULT 99", "no year of four digits"),
        ("c VARBINARY(9) DEFAULT 'ü'", "character set"),
        ("c JSON NOT NULL", "no constant of type json"),
    ],
)
def test_what_only_the_server_knows_is_refused(text: str, why: str) -> None:
    with pytest.raises(Unsupported, match=why):
        fill_of(column(text))


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
    assert (latin.meta, converted(latin, "utf8mb4").meta, converted(latin, "utf8").meta) == (7, 28, 21)
    assert converted(column("c BINARY(7)").column, "utf8mb4").meta == 7
    assert converted(column("c CHAR(7)").column, "utf8mb4").meta == 28
    assert converted(column("c INT").column, "utf8mb4") == column("c INT").column


@pytest.mark.parametrize(
    "text, fallback, extra, is_mariadb, wanted",
    [
        ("c INT", None, "", False, "NULL"),
        ("c INT NOT NULL", None, "", False, "0"),
        ("c INT", "7", "", False, "7"),
        ("c VARCHAR(9)", "NULL", "", False, "'NULL'"),
        ("c VARCHAR(9)", "it's", "", False, "'it\\'s'"),
        ("c BIT(4)", "b'101'", "", False, "5"),
        ("c DATETIME", "CURRENT_TIMESTAMP", "on update CURRENT_TIMESTAMP", False, None),
        ("c DATETIME", "2024-01-02 03:04:05", "", False, "'2024-01-02 03:04:05'"),
        ("c VARCHAR(36)", "uuid()", "DEFAULT_GENERATED", False, None),
        ("c BINARY(2)", "0x61", "", False, None),
        ("c INT NOT NULL", None, "auto_increment", False, None),
        ("c INT", "NULL", "", True, "NULL"),
        ("c VARCHAR(9)", "'NULL'", "", True, "'NULL'"),
        ("c INT", "7", "", True, "7"),
        ("c INT", "(1 + 1)", "", True, None),
        ("c DATETIME", "current_timestamp()", "", True, None),
    ],
)
def test_a_default_as_information_schema_has_it(
    text: str, fallback: str | None, extra: str, is_mariadb: bool, wanted: str | None
) -> None:
    one = on_server_default(column(text).column, {"fallback": fallback, "extra": extra}, is_mariadb=is_mariadb)
    assert (one.default, one.computed) == (wanted, False)


@pytest.mark.parametrize("extra", ["VIRTUAL GENERATED", "STORED GENERATED", "STORED GENERATED INVISIBLE"])
def test_a_column_that_is_computed_has_no_default(extra: str) -> None:
    one = on_server_default(Column("c", 3), {"fallback": None, "extra": extra}, is_mariadb=True)
    assert (one.default, one.computed) == (None, True)
