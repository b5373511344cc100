import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.text.disclosure import cell, foreign, printable, statement, text_lines


@pytest.mark.parametrize(
    "text, expected",
    [
        ("INSERT INTO cu VALUES (2,'SECRET',NULL)", "INSERT INTO cu VALUES (?,?,NULL)"),
        ("INSERT INTO cu VALUES (-2.5e3, X'5345', 0xFF, b'1', N'SECRET', _utf8mb4'SECRET')", None),
        ("UPDATE cu SET a = 'it''s SECRET', b=\"SECRET\" WHERE id = 5", "UPDATE cu SET a = ?, b=? WHERE id = ?"),
        ("INSERT INTO cu VALUES ('a\\', SECRET', 'b')", "INSERT INTO cu VALUES (..."),
        ("INSERT INTO cu VALUES ('SECRET", "INSERT INTO cu VALUES (?"),
        ("/* SECRET */ DELETE /*!50000 QUICK */ FROM cu -- SECRET\nWHERE a # SECRET\n= 1", None),
        ("DELETE FROM cu /* SECRET", "DELETE FROM cu"),
        (
            "ALTER TABLE cu ADD x DECIMAL(10,2) DEFAULT 'SECRET' COMMENT 'SECRET', ADD y ENUM('a','b') DEFAULT 'b'",
            "ALTER TABLE cu ADD x DECIMAL(10,2) DEFAULT ? COMMENT ?, ADD y ENUM('a','b') DEFAULT ?",
        ),
        (
            "CREATE TABLE cu (id INT(11) NOT NULL DEFAULT (CHAR(83)), a CHAR(3), KEY (a(2))) COMMENT='SECRET'",
            "CREATE TABLE cu (id INT(11) NOT NULL DEFAULT (CHAR(?)), a CHAR(3), KEY (a(?))) COMMENT=?",
        ),
        ("CREATE TABLE cu AS SELECT CAST('SECRET' AS CHAR(6))", "CREATE TABLE cu AS SELECT CAST(? AS CHAR(?))"),
        ("ALTER TABLE cu PARTITION BY LIST COLUMNS (a) (PARTITION p VALUES IN ('SECRET'))", None),
        ("CREATE TABLE cu SELECT CHAR(83)", "CREATE TABLE cu SELECT CHAR(?)"),
        ("ALTER TABLE `a'b` MODIFY `1 \\ '2` INT", "ALTER TABLE `a'b` MODIFY `1 \\ '2` INT"),
        ("ALTER TABLE t\n  ADD x INT", "ALTER TABLE t ADD x INT"),
    ],
)
def test_a_statement_is_shown_without_its_literals(text: str, expected: str | None) -> None:
    content_text = statement(text)
    assert "SECRET" not in content_text
    if expected is not None:
        assert content_text == expected


def test_a_long_statement_is_cut_and_only_its_beginning_is_read() -> None:
    text = statement("INSERT INTO t VALUES " + "(1,'SECRET')," * 2_000_000)
    assert len(text) == 120
    assert text.endswith("...")


@given(
    st.lists(st.sampled_from(["'", '"', "\\", "`", "(", ",", "/*", "*/", "-- ", "\n", "a", "''", "1", "#"]), max_size=9)
)
def test_no_text_that_a_server_reads_as_a_literal_is_shown(parts: list[str]) -> None:
    noise = "".join(parts)
    escaped = noise.replace("\\", "\\\\").replace("'", "''")
    assert "SECRET" not in statement(f"INSERT INTO t VALUES ('{escaped}', 'SECRET')")
    if not noise.endswith("\\"):
        plain = noise.replace("'", "''")  # as a session with NO_BACKSLASH_ESCAPES writes it
        assert "SECRET" not in statement(f"UPDATE t SET a = '{plain}', b = 'SECRET'")


@pytest.mark.parametrize(
    "text, expected",
    [
        (
            (
                '[CAST_INVALID_INPUT] The value \'SECRET\' of the type "STRING" cannot be cast to "INT".\n'
                "== SQL (line 1, position 8) ==\nSELECT CAST('SECRET' AS INT)\n       ^^^^\n"
            ),
            '[CAST_INVALID_INPUT] The value ? of the type "STRING" cannot be cast to "INT".',
        ),
        (
            (
                "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint c (a > 1) violated by row with values:\n"
                " - a : SECRET"
            ),
            "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint c (a > 1) violated by a row",
        ),
        ("File 'file:/lake/silver' cannot be read\n\tat java.base", "File 'file:/lake/silver' cannot be read"),
        ("The value 'it\\'s SECRET", "The value ?"),
        ("The value 'O'Brien SECRET' of it", "The value ? of it"),
        ("The value '/home/SECRET' of it", "The value ? of it"),
        ("The value 'http://SECRET' of it", "The value ? of it"),
        ("It doesn't have 'SECRET' or 'SECRET'", "It doesn't have ? or ?"),
        ("A file 'SECRET' is not there", "A file ? is not there"),
        ("one\n\ntwo\nthree\nfour", "one two three"),
        ("An exception was thrown:\nTraceback (most recent call last):\nSECRET", "An exception was thrown:"),
    ],
)
def test_another_programs_message_is_shown_without_literals_and_traces(text: str, expected: str) -> None:
    assert foreign(text) == expected


@given(st.text())
def test_what_is_printed_moves_no_terminal_and_is_a_text(text: str) -> None:
    output = printable(text)
    assert [
        character for character in output if unicodedata.category(character) in ("Cc", "Cs") and character not in "\t\n"
    ] == []
    assert not set(output) & set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
    assert json.loads(f'"{printable(json.dumps(text, ensure_ascii=False)[1:-1])}"') == text
    assert len(cell(text).split("\n")) == 1
    assert "\t" not in cell(text)


def test_ordinary_text_is_printed_as_it_is() -> None:
    assert printable("größer 日本 😀\n\tb") == "größer 日本 😀\n\tb"
    assert printable("a\x1b[31mb\x9b\u202e\udcff") == "a\\u001b[31mb\\u009b\\u202e\\udcff"


@pytest.mark.parametrize(
    "text, expected",
    [
        ("one", ["one"]),
        ("", [""]),
        ("one\n  two\r\n\tthree\rfour  \n", ["one", "  two", "    three", "four"]),
        ("one\n    two\n      three", ["one", "two", "  three"]),
        ("one\n\n  two", ["one", "", "two"]),
        ("a\x1b[31m\x07\x9b", ["a\\u001b[31m\\u0007\\u009b"]),
    ],
)
def test_lines_of_a_text(text: str, expected: list[str]) -> None:
    assert text_lines(text) == expected
