import pytest

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.binlog.types.charsets import CHARSET_ALONE
from spark_jobs.ddl.alter import altered_definition
from spark_jobs.ddl.default_values import Fill
from spark_jobs.ddl.parse_alter import created_definition, operations
from spark_jobs.errors import Unsupported

NAME = TableName("shop", "t")
BEFORE = TableDefinition(NAME, (Column("id", 3, nullable=False), Column("a", 3), Column("b", 8)), (0,))
SAME = ["id", "a", "b"]


def columns(text: str) -> list[str]:
    """The columns behind an ALTER, each with the column that it was."""
    after = altered_definition(BEFORE, operations(text))
    was = [None if origin is None else BEFORE.column_names()[origin] for origin in after.origins]
    return [
        f"{name}<{old}" if name != old else name for name, old in zip(after.definition.column_names(), was, strict=True)
    ]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("ALTER TABLE t ADD c INT", ["id", "a", "b", "c<None"]),
        ("ALTER TABLE `s`.`t` ADD COLUMN `c d` INT FIRST", ["c d<None", "id", "a", "b"]),
        ("ALTER TABLE t ADD c INT AFTER id, ADD d INT AFTER c", ["id", "c<None", "d<None", "a", "b"]),
        ("ALTER TABLE t ADD (c INT, d DECIMAL(10,2), KEY (c))", ["id", "a", "b", "c<None", "d<None"]),
        ("ALTER TABLE t ADD IF NOT EXISTS a INT, ADD COLUMN IF NOT EXISTS c INT", ["id", "a", "b", "c<None"]),
        ("ALTER TABLE t DROP a, DROP COLUMN IF EXISTS zz", ["id", "b"]),
        ("ALTER TABLE t DROP COLUMN A", ["id", "b"]),
        ("ALTER TABLE t DROP a, ADD a INT", ["id", "b", "a<None"]),
        ("ALTER TABLE t MODIFY b BIGINT FIRST", ["b", "id", "a"]),
        ("ALTER TABLE t MODIFY COLUMN a INT AFTER b", ["id", "b", "a"]),
        ("ALTER TABLE t CHANGE a c INT", ["id", "c<a", "b"]),
        ("ALTER TABLE t CHANGE COLUMN a c INT AFTER b, ADD d INT AFTER c", ["id", "b", "c<a", "d<None"]),
        ("ALTER TABLE t CHANGE a b INT, CHANGE b a BIGINT", ["id", "b<a", "a<b"]),
        ("ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a", ["id", "b<a", "a<b"]),
        ("ALTER TABLE t RENAME COLUMN id TO `key`", ["key<id", "a", "b"]),
        ("ALTER TABLE t ADD INDEX (a), ADD UNIQUE KEY u (b), ADD CONSTRAINT c FOREIGN KEY (a) REFERENCES u (x)", SAME),
        ("ALTER TABLE t DROP INDEX i, DROP KEY k, DROP CONSTRAINT d", ["id", "a", "b"]),
        ("ALTER TABLE t DROP FOREIGN KEY f, DROP CHECK c", None),
        ("ALTER TABLE t RENAME INDEX a TO b", ["id", "a", "b"]),
        ("ALTER TABLE t DROP a, RENAME TO s.u", ["id", "b"]),
        ("ALTER TABLE t ALTER a SET DEFAULT 5, ALTER COLUMN a DROP DEFAULT", ["id", "a", "b"]),
        ("ALTER TABLE t ALTER INDEX i INVISIBLE, ALTER CHECK c NOT ENFORCED", None),
        ("ALTER TABLE t ALTER COLUMN a SET INVISIBLE", SAME),
        ("ALTER TABLE t ENGINE = InnoDB ROW_FORMAT=COMPRESSED COMMENT 'ADD c INT, DROP a', AUTO_INCREMENT = 7", None),
        ("ALTER TABLE t ALGORITHM=INPLACE, LOCK=NONE, FORCE, DISABLE KEYS, ORDER BY a, b", None),
        ("ALTER TABLE t PARTITION BY HASH (id) PARTITIONS 4", None),
        ("ALTER TABLE t ADD c INT PARTITION BY HASH (id) PARTITIONS 4", ["id", "a", "b", "c<None"]),
        ("ALTER TABLE t ADD c INT, DROP b REMOVE PARTITIONING", ["id", "a", "c<None"]),
        ("ALTER TABLE t ADD VECTOR INDEX (a), ADD VECTOR KEY IF NOT EXISTS v (a) M=8 DISTANCE=cosine", None),
        ("ALTER TABLE t ADD vector INT", ["id", "a", "b", "vector<None"]),
        ("ALTER TABLE t ENGINE_ATTRIBUTE = '{}', DATA DIRECTORY = '/x' INDEX DIRECTORY '/x', IETF_QUOTES = YES", None),
        ("ALTER TABLE t CHECK PARTITION ALL FOR UPGRADE", None),
        ("ALTER TABLE t STORAGE DISK TABLESPACE x", None),
        ("ALTER TABLE t RENAME COLUMN IF EXISTS zz TO b, RENAME COLUMN IF EXISTS a TO c", ["id", "c<a", "b"]),
        ("ALTER TABLE t REORGANIZE PARTITION p0, p1 INTO (PARTITION p VALUES LESS THAN (9))", None),
        ("ALTER TABLE t ADD PARTITION (PARTITION p VALUES LESS THAN (9))", None),
        ("ALTER TABLE t DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", None),
        ("ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4", ["id", "a", "b"]),
    ],
)  # fmt: skip
def test_columns_come_go_and_move_as_on_the_server(text: str, expected: list[str] | None) -> None:
    if expected is None:
        assert operations(text) == []
    else:
        assert columns(text) == expected


@pytest.mark.parametrize(
    "text, reason",
    [
        ("ALTER TABLE t DROP PARTITION p0", "drops rows that the log does not name"),
        ("ALTER TABLE t TRUNCATE PARTITION p0", "TRUNCATE PARTITION p0 is not handled"),
        ("ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u", "EXCHANGE PARTITION p WITH is not handled"),
        ("ALTER TABLE t IMPORT TABLESPACE", "IMPORT TABLESPACE is not handled"),
        ("ALTER IGNORE TABLE t ADD UNIQUE (a)", "IGNORE drops rows that the log does not name"),
        ("ALTER TABLE t ADD SYSTEM VERSIONING", "rows of system-versioned tables are not merged"),
        ("ALTER TABLE t DROP zz", "the table had no column zz, as far as is known: shop.t (id int, a int, b bigint)"),
        ("ALTER TABLE t ADD c INT AFTER zz", "there is no column zz for AFTER"),
        ("ALTER TABLE t ADD A INT FIRST", "the table has a column A already, as far as is known: shop.t (id int, a"),
        ("ALTER TABLE t RENAME COLUMN a TO b", "the table has a column b already, as far as is known"),
        ("ALTER TABLE t MODIFY a INT AS (b + 1) STORED", "the values of column a are computed"),
        ("ALTER TABLE t MODIFY a BIGINT, RENAME COLUMN a TO c", "it changes column a twice"),
        ("ALTER TABLE t FROBNICATE a", "FROBNICATE a is not handled"),
    ],
)
def test_what_is_not_handled_is_named(text: str, reason: str) -> None:
    with pytest.raises(Unsupported) as refused:
        altered_definition(BEFORE, operations(text))
    assert reason in str(refused.value)


def test_the_key_follows_its_columns() -> None:
    after = altered_definition(BEFORE, operations("ALTER TABLE t ADD c INT FIRST, RENAME COLUMN id TO k"))
    assert [after.definition.column_names()[at] for at in after.definition.key or ()] == ["k"]


UNIQUE = TableDefinition(NAME, BEFORE.columns, (0,), "u")
UNNAMED = TableDefinition(NAME, BEFORE.columns, (0,), "")
STATED_BY_SERVER = TableDefinition(NAME, BEFORE.columns, (0,), None)
PRIMARY = TableDefinition(NAME, BEFORE.columns, (0,), "PRIMARY")
KEYLESS = TableDefinition(NAME, BEFORE.columns, ())
PAIR = TableDefinition(NAME, BEFORE.columns, (0, 1), "PRIMARY")


@pytest.mark.parametrize(
    "before, text, key, index",
    [
        (UNIQUE, "DROP INDEX v, DROP KEY w", ["id"], "u"),
        (UNIQUE, "DROP INDEX U", None, None),
        (UNIQUE, "DROP CONSTRAINT `u`", None, None),
        (UNIQUE, "RENAME INDEX u TO v", None, None),
        (UNNAMED, "DROP KEY IF EXISTS anything", None, None),
        (STATED_BY_SERVER, "DROP INDEX u", ["id"], None),
        (STATED_BY_SERVER, "DROP INDEX `PRIMARY`", None, None),
        (PRIMARY, "DROP INDEX u", ["id"], "PRIMARY"),
        (PRIMARY, "DROP INDEX `primary`", None, None),
        (UNIQUE, "MODIFY id BIGINT", None, None),
        (UNIQUE, "MODIFY id BIGINT NOT NULL", ["id"], "u"),
        (PRIMARY, "MODIFY id BIGINT", ["id"], "PRIMARY"),
        (UNIQUE, "ADD UNIQUE (a)", ["id"], "u"),
        (UNIQUE, "ADD PRIMARY KEY (a)", ["a"], "PRIMARY"),
        (PRIMARY, "DROP PRIMARY KEY", None, None),
        (PRIMARY, "DROP PRIMARY KEY, ADD CONSTRAINT p PRIMARY KEY (b, id)", ["b", "id"], "PRIMARY"),
        (PRIMARY, "DROP PRIMARY KEY, ADD c INT PRIMARY KEY FIRST", ["c"], "PRIMARY"),
        (PRIMARY, "DROP id", None, None),
        (PRIMARY, "DROP id, ADD PRIMARY KEY (a)", ["a"], "PRIMARY"),
        (PRIMARY, "ADD COLUMN IF NOT EXISTS id INT PRIMARY KEY", ["id"], "PRIMARY"),
        (PAIR, "DROP id", ["a"], "PRIMARY"),
        (KEYLESS, "ADD UNIQUE (b)", [], None),
        (KEYLESS, "MODIFY a INT NOT NULL", [], None),
        (KEYLESS, "ADD PRIMARY KEY (a)", ["a"], "PRIMARY"),
        (KEYLESS, "DROP INDEX u", [], None),
    ],
)
def test_what_tells_rows_apart_behind_a_statement(
    before: TableDefinition, text: str, key: list[str] | None, index: str | None
) -> None:
    after = altered_definition(before, operations(f"ALTER TABLE t {text}")).definition
    key_names = None if after.key is None else [after.column_names()[at] for at in after.key]
    assert (key_names, after.index) == (key, index)


def test_a_second_primary_key_is_refused() -> None:
    for text in ("ADD PRIMARY KEY (a)", "ADD c INT PRIMARY KEY"):
        with pytest.raises(Unsupported, match="adds a primary key to a table that has one, as far as is known"):
            altered_definition(PRIMARY, operations(f"ALTER TABLE t {text}"))


@pytest.mark.parametrize(
    "inside, key, index",
    [
        ("a INT NOT NULL, b INT, UNIQUE u (a)", (0,), "u"),
        ("a INT NOT NULL UNIQUE, b INT", (0,), ""),
        ("a INT UNIQUE KEY NOT NULL, b INT", (0,), ""),
        ("id SERIAL, b INT", (0,), ""),
        ("a INT NOT NULL UNIQUE, b INT, PRIMARY KEY (b)", (1,), "PRIMARY"),
        ("a INT UNIQUE, b INT NOT NULL, CONSTRAINT c UNIQUE KEY v USING BTREE (b DESC)", (1,), "v"),
        ("a INT NOT NULL, b INT NOT NULL, KEY k (a), UNIQUE x (b, a), UNIQUE y (a)", (1, 0), "x"),
        ("a INT NOT NULL UNIQUE, b VECTOR(3) NOT NULL, VECTOR INDEX (b)", (0,), ""),
        ("a INT NOT NULL, b INT, UNIQUE (a, b)", (), None),
        ("a VARCHAR(9) NOT NULL, b INT, UNIQUE (a(5))", (), None),
        ("a INT NOT NULL, b INT, UNIQUE ((a + 1))", (), None),
        ("a INT NOT NULL, b INT AS (a) NOT NULL UNIQUE", (), None),
        ("a TIMESTAMP UNIQUE, b INT", (), None),
        ("a INT NOT NULL, b INT, KEY (a)", (), None),
    ],
)
def test_the_key_is_the_first_unique_index_without_null(inside: str, key: tuple[int, ...], index: str | None) -> None:
    definition = created_definition(NAME, f"CREATE TABLE t ({inside})")
    assert definition is not None
    assert (definition.key, definition.index) == (key, index)


MADE = (
    "CREATE TABLE t (id INT PRIMARY KEY, n INT, d INT NOT NULL DEFAULT 7, s VARCHAR(9) DEFAULT 'x', c DECIMAL(5,2) "
    "NOT NULL, t DATETIME DEFAULT CURRENT_TIMESTAMP, e INT DEFAULT (1 + 1), k BIGINT AUTO_INCREMENT UNIQUE, "
    "g INT AS (d + 1), z TIMESTAMP, y ENUM('p', 'q') NOT NULL, w BLOB)"
)
DEFAULTS = {"id": "0", "n": "NULL", "d": "7", "s": "'x'", "c": "'0.00'", "y": "'p'", "w": "NULL"}


@pytest.mark.parametrize(
    "text, changed",
    [
        ("ALTER TABLE t ADD q INT DEFAULT 3 FIRST, DROP c", {"q": "3", "c": None}),
        ("ALTER TABLE t ALTER d SET DEFAULT 8, ALTER COLUMN s SET DEFAULT NULL", {"d": "8", "s": "NULL"}),
        ("ALTER TABLE t ALTER d DROP DEFAULT, ALTER n SET DEFAULT (2 * 3)", {"d": None, "n": None}),
        ("ALTER TABLE t ALTER COLUMN `t` SET DEFAULT '2024-01-02 03:04:05'", {"t": "'2024-01-02 03:04:05'"}),
        ("ALTER TABLE t MODIFY s VARCHAR(20)", {"s": "NULL"}),
        ("ALTER TABLE t CHANGE d x BIGINT NOT NULL", {"d": None, "x": "0"}),
        ("ALTER TABLE t RENAME COLUMN s TO r", {"s": None, "r": "'x'"}),
        ("ALTER TABLE t ENGINE = InnoDB", {}),
    ],
)
def test_what_an_insert_leaves_out_is_the_default_of_its_time(text: str, changed: dict[str, str | None]) -> None:
    def defaults(definition: TableDefinition | None) -> dict[str | None, str]:
        assert definition
        return {column.name: column.default for column in definition.columns if column.default is not None}

    before = created_definition(NAME, MADE)
    assert defaults(before) == DEFAULTS
    assert before
    assert {column.name: column.computed for column in before.columns if column.computed} == {"g": True}
    after = altered_definition(before, operations(text)).definition
    assert defaults(after) == {name: default for name, default in (DEFAULTS | changed).items() if default is not None}


@pytest.mark.parametrize("text", ["MODIFY a BIGINT", "CHANGE a a BIGINT NULL"])
def test_a_column_of_the_primary_key_stays_not_null(text: str) -> None:
    before = created_definition(NAME, "CREATE TABLE t (a INT PRIMARY KEY, b INT)")
    assert before
    after = altered_definition(before, operations(f"ALTER TABLE t {text}")).definition
    assert [column.nullable for column in after.columns] == [False, True]


@pytest.mark.parametrize("key", ["PRIMARY KEY (a, p WITHOUT OVERLAPS)", "UNIQUE (a, zz)"])
def test_a_key_of_what_is_no_column_is_refused(key: str) -> None:
    with pytest.raises(Unsupported, match="which a key is made of, is no column"):
        created_definition(NAME, f"CREATE TABLE t (a INT NOT NULL, s DATE, e DATE, PERIOD FOR p (s, e), {key})")


def test_the_ends_of_a_period_are_not_null() -> None:
    definition = created_definition(NAME, "CREATE TABLE t (a INT, s DATE, e DATE, PERIOD FOR p (s, E))")
    assert definition
    assert [column.nullable for column in definition.columns] == [True, False, False]


def test_text_into_wider_characters_becomes_a_longer_text() -> None:
    before = created_definition(NAME, "CREATE TABLE t (a INT, b TEXT, c TINYTEXT, d LONGTEXT, e BLOB) CHARSET latin1")
    assert before
    after = altered_definition(before, operations("ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4")).definition
    assert [column.sql_type for column in after.columns] == ["int", "mediumtext", "text", "longtext", "blob"]
    back = altered_definition(after, operations("ALTER TABLE t CONVERT TO CHARACTER SET latin1")).definition
    assert [column.sql_type for column in back.columns] == ["int", "mediumtext", "text", "longtext", "blob"]


@pytest.mark.parametrize(
    "into, collation",
    [
        ("CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", 46),
        ("CHARSET utf8mb4", 45 | CHARSET_ALONE),
        ("CHARACTER SET utf8mb4 COLLATE uca1400_ai_ci", 2304),
    ],
)
def test_text_is_converted_into_the_collation_that_is_named(into: str, collation: int) -> None:
    before = created_definition(NAME, "CREATE TABLE t (a INT, b VARCHAR(9)) COLLATE latin1_bin")
    assert before
    after = altered_definition(before, operations(f"ALTER TABLE t CONVERT TO {into}")).definition
    assert [column.charset for column in after.columns] == [None, collation]
    # The table's default is of columns that come later.
    unchanged = altered_definition(before, operations("ALTER TABLE t COLLATE utf8mb4_bin")).definition
    assert [column.charset for column in unchanged.columns] == [None, 47]


def test_new_columns_are_filled_by_name() -> None:
    after = altered_definition(
        BEFORE, operations("ALTER TABLE t ADD c INT DEFAULT 5, ADD d INT, ADD e CHAR(3) NOT NULL")
    )
    assert after.fills == {"c": Fill("5"), "e": Fill("''")}
