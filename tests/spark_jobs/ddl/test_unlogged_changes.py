import pytest

from spark_jobs.binlog import TableName
from spark_jobs.ddl.columns import words_of
from spark_jobs.ddl.foreign_keys import ForeignKey
from spark_jobs.ddl.server_facts import ServerFacts
from spark_jobs.ddl.unlogged_changes import DdlStatement, is_versioned, unlogged_changes
from spark_jobs.log.position import Position

FK = "FOREIGN KEY (pid) REFERENCES p (id) ON DELETE CASCADE"
CHILD = f"CREATE TABLE c (id INT PRIMARY KEY, pid INT, {FK})"
SELF = (
    "CREATE TABLE t (id INT PRIMARY KEY, up INT, CONSTRAINT me FOREIGN KEY (up) REFERENCES t (id) ON DELETE SET NULL)"
)
THIRD = "CREATE TABLE g (id INT, CONSTRAINT h FOREIGN KEY (id) REFERENCES c (id) ON DELETE CASCADE)"
PLAIN = "CREATE TABLE v (id INT)"
VERSIONED = "CREATE TABLE v (id INT PRIMARY KEY) WITH SYSTEM VERSIONING"


def at(number: int) -> Position:
    return Position("log-bin.000001", number)


def gaps(*statements: str, facts: ServerFacts | None = None) -> list[str]:
    """Table, key or versioning, parent, and from which statement to which, by their numbers from 1 on."""
    listed = unlogged_changes([DdlStatement(at(n), text, "shop") for n, text in enumerate(statements, 1)], facts)
    return [
        f"{gap.table.table}: {f'{gap.key.name} -> {gap.key.parent.table}' if gap.key else 'versioned'} "
        f"{gap.since.offset if gap.since else '-'}..{gap.until.offset if gap.until else ''}"
        for gap in listed
    ]


@pytest.mark.parametrize(
    "statements, expected",
    [
        ([CHILD], ["c: c_ibfk_1 -> p 1.."]),
        (["CREATE TABLE c (id INT)", f"ALTER TABLE c ADD CONSTRAINT f {FK}"], ["c: f -> p 2.."]),
        ([CHILD, "ALTER TABLE c DROP FOREIGN KEY c_ibfk_1"], ["c: c_ibfk_1 -> p 1..2"]),
        (
            [CHILD, f"ALTER TABLE c DROP FOREIGN KEY c_ibfk_1, ADD {FK}"],
            ["c: c_ibfk_1 -> p 1..2", "c: c_ibfk_1 -> p 2.."],
        ),
        ([CHILD, "DROP TABLE IF EXISTS c, d"], ["c: c_ibfk_1 -> p 1..2"]),
        ([CHILD, "DROP DATABASE shop"], ["c: c_ibfk_1 -> p 1..2"]),
        ([CHILD, "CREATE TABLE IF NOT EXISTS c (id INT)"], ["c: c_ibfk_1 -> p 1.."]),
        ([CHILD, "CREATE TABLE d LIKE c"], ["c: c_ibfk_1 -> p 1.."]),
        (
            [CHILD, "RENAME TABLE c TO d", "ALTER TABLE d DROP FOREIGN KEY d_ibfk_1"],
            ["c: c_ibfk_1 -> p 1..2", "d: d_ibfk_1 -> p 2..3"],
        ),
        ([CHILD, "RENAME TABLE p TO q"], ["c: c_ibfk_1 -> p 1..2", "c: c_ibfk_1 -> q 2.."]),
        ([CHILD, "ALTER TABLE c RENAME TO d"], ["c: c_ibfk_1 -> p 1..2", "d: d_ibfk_1 -> p 2.."]),
        (
            [CHILD, "CREATE TABLE d (id INT)", "RENAME TABLE c TO x, d TO c, x TO d"],
            ["c: c_ibfk_1 -> p 1..3", "d: d_ibfk_1 -> p 3.."],
        ),
        ([SELF], ["t: me -> t 1.."]),
        ([SELF, "RENAME TABLE t TO u"], ["t: me -> t 1..2", "u: me -> u 2.."]),
        ([CHILD, THIRD], ["c: c_ibfk_1 -> p 1..", "g: h -> c 2.."]),
        (["CREATE TABLE c (id INT, FOREIGN KEY (id) REFERENCES p (id) ON DELETE RESTRICT)"], []),
        ([VERSIONED], ["v: versioned 1.."]),
        ([PLAIN, "ALTER TABLE v ADD SYSTEM VERSIONING", "ALTER TABLE v ADD x INT"], ["v: versioned 2.."]),
        ([VERSIONED, "ALTER TABLE v DROP SYSTEM VERSIONING"], ["v: versioned 1..2"]),
        ([VERSIONED, "CREATE OR REPLACE TABLE v (id INT)"], ["v: versioned 1..2"]),
        ([VERSIONED, "CREATE TABLE w LIKE v"], ["v: versioned 1..", "w: versioned 2.."]),
        (["CREATE TABLE v (id INT, a INT WITH SYSTEM VERSIONING)"], ["v: versioned 1.."]),
        (["CREATE TABLE `ROW START` (id INT COMMENT 'WITH SYSTEM VERSIONING', b INT WITHOUT SYSTEM VERSIONING)"], []),
    ],
)  # fmt: skip
def test_statements_tell_where_the_log_does_not_tell_a_tables_rows(statements: list[str], expected: list[str]) -> None:
    assert gaps(*statements) == expected


def test_a_server_tells_what_is_older_than_its_log_until_a_statement_ends_it() -> None:
    name, key = TableName("shop", "c"), ForeignKey("f", TableName("shop", "p"), "CASCADE")
    facts = ServerFacts(at(2), ((name, key),), (TableName("shop", "v"),))
    assert gaps(facts=facts) == ["c: f -> p -..", "v: versioned -.."]
    assert gaps("CREATE TABLE x (id INT)", "DROP TABLE v", "ALTER TABLE c DROP CONSTRAINT f", facts=facts) == [
        "c: f -> p -..3",
        "v: versioned -..2",
    ]


def test_a_server_that_tells_what_a_statement_told_adds_nothing() -> None:
    key = ForeignKey("C_ibfk_1", TableName("shop", "p"), "CASCADE")
    assert gaps(CHILD, facts=ServerFacts(at(9), ((TableName("shop", "c"), key),))) == ["c: c_ibfk_1 -> p 1.."]


@pytest.mark.parametrize(
    "statement, expected",
    [
        ("ALTER TABLE c CHANGE pid parent INT, RENAME COLUMN id TO no", [("parent",), ("id",)]),
        ("ALTER TABLE P ADD x INT, RENAME COLUMN ID TO no", [("pid",), ("id",)]),
        ("ALTER TABLE p ADD x INT, RENAME COLUMN ID TO no", [("pid",), ("no",)]),
    ],
)
def test_keys_have_the_columns_names_of_their_time(statement: str, expected: list[tuple[str, ...]]) -> None:
    *_, gap = unlogged_changes([DdlStatement(at(1), CHILD, "shop"), DdlStatement(at(2), statement, "shop")])
    assert gap.key
    assert [gap.key.columns, gap.key.parent_columns] == expected


def test_references_in_a_column_count_where_the_server_minds_them() -> None:
    inline = "CREATE TABLE c (id INT, pid INT REFERENCES p (id) ON DELETE CASCADE)"
    assert gaps(inline) == gaps(inline, facts=ServerFacts(at(9))) == ["c: c_ibfk_1 -> p 1.."]
    assert gaps(inline, facts=ServerFacts(at(9), has_inline_keys=False)) == []


def test_a_gap_is_in_the_ranges_that_its_statements_enclose() -> None:
    (gap,) = unlogged_changes([DdlStatement(at(5), CHILD, "shop"), DdlStatement(at(8), "DROP TABLE c", "shop")])
    assert [gap.is_in(at(a), at(b)) for a, b in ((1, 5), (1, 6), (6, 7), (7, 9), (8, 9))] == [
        False,
        True,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    "text", ["", "CREATE TABLE", "ALTER TABLE x ADD FOREIGN KEY REFERENCES", "CREATE TABLE 'a REFERENCES"]
)
def test_statements_that_cannot_be_read_change_nothing(text: str) -> None:
    assert gaps(CHILD, text) == ["c: c_ibfk_1 -> p 1.."]


def test_versioning_is_read_off_words_and_not_off_names() -> None:
    assert is_versioned(words_of(VERSIONED))
    assert not is_versioned(words_of("CREATE TABLE t (`WITH SYSTEM VERSIONING` INT)"))
