from typing import Any

import pytest

from spark_jobs.binlog import Column
from spark_jobs.delivery.encode import OutputColumn
from spark_jobs.delivery.lake_table import LakeColumn, LakeTableShape
from spark_jobs.delivery.target import Facts
from spark_jobs.delivery.target_table import (
    Alterations,
    Dialect,
    IndexPart,
    TargetColumn,
    TargetTable,
    creation,
    index_notes,
    key_notes,
    types_of,
)
from spark_jobs.errors import DeliveryError

COLLATIONS = {255: "utf8mb4_0900_ai_ci", 8: "latin1_swedish_ci", 47: "latin1_bin", 309: "utf8mb4_0900_bin"}
MYSQL = Dialect(Facts("8.0.36", False, False, 1 << 20), COLLATIONS)
OLD = Dialect(Facts("5.7.22", False, False, 1 << 20), {})
INT, LONG = 3, 8
KEY = LakeColumn("id", "p0", "INT", Column("id", INT, nullable=False))


def column(name: str, physical: str, type_code: int = INT, **values: Any) -> LakeColumn:
    return LakeColumn(name, physical, "INT", Column(name, type_code, **values))


def shape(*columns: LakeColumn) -> LakeTableShape:
    return LakeTableShape((KEY, *columns), ("id",), "mysql-bin.000001:4")


def target(*names: str) -> TargetTable:
    return TargetTable(tuple(TargetColumn(name, "int", "int(11)", name != "id", False) for name in names), (("id",),))


def clauses(
    before: LakeTableShape,
    after: LakeTableShape,
    present: TargetTable,
    dialect: Dialect = MYSQL,
    *,
    is_checked: bool = False,
) -> list[str]:
    return Alterations(types_of(before, dialect), after, present, dialect).clauses(is_checked=is_checked)


A, B = column("a", "p1"), column("b", "p2")


@pytest.mark.parametrize(
    "after, present, expected",
    [
        (shape(A, B), ("id", "a", "b"), []),
        (shape(A), ("id", "a", "b", "theirs"), ["DROP COLUMN `b`"]),
        (shape(A), ("id", "a"), []),
        (shape(A, column("c", "p3"), B), ("id", "a", "b"), ["ADD COLUMN `c` int NULL AFTER `a`"]),
        (shape(A, column("c", "p3"), B), ("id", "a", "b", "C"), []),
        (shape(column("z", "p1"), B), ("id", "a", "b"), ["RENAME COLUMN `a` TO `z`"]),
        (shape(column("z", "p1"), B), ("id", "z", "b"), []),
        (shape(column("z", "p1", LONG), B), ("id", "a", "b"), ["CHANGE COLUMN `a` `z` bigint NULL"]),
        (shape(column("b", "p1")), ("id", "a", "b"), ["DROP COLUMN `b`", "RENAME COLUMN `a` TO `b`"]),
        (shape(column("b", "p1")), ("id", "b"), []),
        (shape(A, column("b", "p2", LONG)), ("id", "a", "b"), ["MODIFY COLUMN `b` bigint NULL"]),
        (shape(A, column("b", "p9")), ("id", "a", "b"), ["DROP COLUMN `b`", "ADD COLUMN `b` int NULL AFTER `a`"]),
        (
            shape(column("b", "p1"), column("c", "p2")),
            ("id", "a", "b"),
            ["RENAME COLUMN `a` TO `b`", "RENAME COLUMN `b` TO `c`"],
        ),
        (shape(column("b", "p1"), column("c", "p2")), ("id", "b", "c"), []),
    ],
)  # fmt: skip
def test_clauses(after: LakeTableShape, present: tuple[str, ...], expected: list[str]) -> None:
    assert clauses(shape(A, B), after, target(*present)) == expected


def test_columns_that_exchange_their_names() -> None:
    with pytest.raises(DeliveryError, match="exchanged their names"):
        clauses(shape(A, B), shape(column("b", "p1"), column("a", "p2")), target("id", "a", "b"))


@pytest.mark.parametrize("is_checked", [False, True])
def test_a_key_column_that_was_made_again(*, is_checked: bool) -> None:
    """Old rows have no value in it, and a server does not exchange a column of a key."""
    new = LakeColumn("ID", "p9", "BIGINT", Column("ID", LONG, nullable=False))
    after = LakeTableShape((new, A), ("ID",), "")
    with pytest.raises(DeliveryError, match=r"another key column ID; .* --reload"):
        clauses(shape(A, B), after, target("id", "a", "b"), is_checked=is_checked)
    assert clauses(LakeTableShape((), (), ""), after, target("id", "a", "b"), is_checked=is_checked) == []


def test_an_old_server_renames_by_change() -> None:
    after = shape(column("z", "p1"), B)
    assert clauses(shape(A, B), after, target("id", "a", "b"), OLD) == ["CHANGE COLUMN `a` `z` int NULL"]


def test_what_somebody_else_alters() -> None:
    after = shape(A, column("b", "p2", nullable=False))
    assert clauses(shape(A, B), after, target("id", "a", "b"), is_checked=True) == ["MODIFY COLUMN `b` int NOT NULL"]
    altered = TargetTable((*target("id", "a").columns, TargetColumn("b", "int", "int(11)", False, False)), (("id",),))
    assert clauses(shape(A, B), after, altered, is_checked=True) == []


def test_a_table_is_created() -> None:
    text = LakeColumn("t", "p3", "STRING", Column("t", 252, 2, charset=8))
    label = LakeColumn("e", "p4", "STRING", Column("e", 247, 1, charset=255, labels=("a", "it's")))
    unknown = LakeColumn("_source", "p5", "STRING", None)
    key = LakeTableShape((KEY, text, label, unknown), ("id", "t"), "")
    assert creation("s", "t", key, MYSQL)[1] == (
        "CREATE TABLE IF NOT EXISTS `s`.`t` (`id` int NOT NULL, "
        "`t` text CHARACTER SET latin1 COLLATE latin1_swedish_ci NOT NULL, "
        "`e` enum('a','it''s') CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci NULL, "
        "`_source` varchar(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL, PRIMARY KEY (`id`, `t`(3068)))"
    )


def test_a_key_whose_collation_the_server_lacks() -> None:
    """It gets a binary one; another column gets the server's default."""
    columns = [LakeColumn(name, name, "STRING", Column(name, 15, 40, charset=278)) for name in ("k", "t")]
    latin = LakeColumn("l", "l", "STRING", Column("l", 252, 2, charset=94))
    hashed = LakeColumn("h", "h", "STRING", None)
    key = LakeTableShape((*columns, latin, hashed), ("k", "l", "h"), "")
    assert creation("s", "t", key, MYSQL)[1] == (
        "CREATE TABLE IF NOT EXISTS `s`.`t` ("
        "`k` varchar(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin NOT NULL, "
        "`t` varchar(10) CHARACTER SET utf8mb4 NULL, "
        "`l` text CHARACTER SET latin1 COLLATE latin1_bin NOT NULL, "
        "`h` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin NOT NULL, "
        "PRIMARY KEY (`k`, `l`(1516), `h`(379)))"
    )
    notes = key_notes(key, MYSQL)
    assert [note.partition(";")[0] for note in notes] == [
        "key column k: the server has no collation 278",
        "key column l: the server has no collation 94",
        "key column h: the source's collation is not known",
        "its key has l(1516), h(379)",
    ]


def test_indexes_that_may_take_rows_for_one() -> None:
    columns = [LakeColumn(name, name, "STRING", Column(name, 15, 40, charset=278)) for name in ("k", "t")]
    lake = LakeTableShape(tuple(columns), ("k",), "")

    def notes(collation: str, *indexes: tuple[IndexPart, ...]) -> list[str]:
        target_columns = tuple(
            TargetColumn(name, "varchar", "varchar(10)", False, False, collation) for name in ("K", "t", "n")
        )
        return index_notes(lake, TargetTable(target_columns, (("K",),), indexes), MYSQL)

    key = (IndexPart("K", None),)
    assert notes("utf8mb4_0900_bin", key) == []
    assert notes("utf8mb4_bin", key) == ["unique column k has the collation utf8mb4_bin, and the source's has another"]
    assert notes("utf8mb4_0900_bin", key, (IndexPart("t", None), IndexPart(None, None))) == [
        "a unique index on (t, an expression), which the source's key does not have"
    ]
    assert notes("utf8mb4_0900_bin", (IndexPart("K", 5),)) == [
        "a unique index on (K) with a prefix, which may be shorter than the source's"
    ]
    assert notes("utf8mb4_0900_bin", key, (IndexPart("n", None), *key)) == []


def test_the_columns_of_unique_indexes() -> None:
    columns = (OutputColumn("id", "int"), OutputColumn("a", "int"), OutputColumn("b", "int"))
    own_column = TargetColumn("own", "int", "int", True, False)
    computed = TargetColumn("twice", "int", "int", True, True)

    def unique(*parts: str | None) -> list[str]:
        indexes = ((IndexPart("ID", None),), tuple(IndexPart(part, None) for part in parts))
        table = TargetTable((*target("ID", "a", "b").columns, own_column, computed), (("ID",),), indexes)
        return [column.name for column in table.unique_columns(columns)]

    assert unique("a") == ["id", "a"]
    assert unique("own", "B") == ["id", "b"]
    assert unique(None) == unique("twice") == ["id", "a", "b"]


def test_rows_are_found_by_a_key_of_columns_that_are_written() -> None:
    table = TargetTable(target("ID", "a", "own").columns, (("own",), ("ID",)))
    columns = table.output_columns(shape(A, B))
    assert [(column.name, column.kind) for column in columns] == [("id", "int"), ("a", "int")]
    assert table.key(columns) == ("id",)
    assert TargetTable(table.columns, (("own",),)).key(columns) == ()
