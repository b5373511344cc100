"""Definitions side by side."""

from dataclasses import replace

import pytest

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.ddl.diff import differences, unknown_types

LATIN1, UTF8MB4 = 8, 255
ID = Column("id", 3, 0, False, nullable=False)
NOTE = Column("note", 15, 80, False, charset=UTF8MB4)
KIND = Column("kind", 247, 1, False, charset=UTF8MB4, labels=("a", "b"))
TABLE = TableDefinition(TableName("shop", "t"), (ID, NOTE, KIND), (0,))


def changed(at: int, **to: object) -> TableDefinition:
    columns = list(TABLE.columns)
    columns[at] = replace(columns[at], **to)  # type: ignore[arg-type]
    return replace(TABLE, columns=tuple(columns))


def ordered(*columns: Column, key: tuple[int, ...] | None = None) -> TableDefinition:
    return replace(TABLE, columns=columns, key=key)


@pytest.mark.parametrize(
    "followed, declared, expected_lines",
    [
        (TABLE, TABLE, []),
        (TABLE, changed(1, name="NOTE"), []),
        (TABLE, changed(1, charset=45), []),
        (TABLE, changed(0, type_code=8), ["column id: is followed as int (type 3, 0), and the server declares bigint"]),
        (
            TABLE,
            changed(0, unsigned=True),
            ["column id: is followed as int (type 3, 0), and the server declares int unsigned"],
        ),
        (TABLE, changed(1, meta=160), ["column note: is followed as varchar(20) (type 15, 80), and the server"]),
        (TABLE, changed(1, nullable=False), ["column note: is followed as NULL, and the server declares NOT NULL"]),
        (
            TABLE,
            changed(1, charset=LATIN1),
            [
                "column note: is followed in utf8mb4, and the server declares latin1",
            ],
        ),
        (
            TABLE,
            changed(2, labels=("b", "a")),
            ["column kind: is followed with the labels ('a', 'b'), and the server declares ('b', 'a')"],
        ),
        (TABLE, ordered(ID, KIND), ["column note: the server does not have it"]),
        (ordered(ID, KIND), TABLE, ["column note: only the server has it"]),
        (ordered(ID, NOTE, NOTE, KIND), TABLE, ["it is followed with 4 columns, and the server declares 3"]),
        (
            TABLE,
            ordered(ID, KIND, NOTE),
            ["columns stand in the order (id, note, kind), on the server (id, kind, note)"],
        ),
        (TABLE, replace(TABLE, key=(0, 1)), ["the key is (id), on the server (id, note)"]),
        (TABLE, replace(TABLE, key=()), ["the key is (id), on the server (none)"]),
    ],
)
def test_what_differs_is_named(followed: TableDefinition, declared: TableDefinition, expected_lines: list[str]) -> None:
    lines = differences(followed, declared)
    assert len(lines) == len(expected_lines)
    assert all(line.startswith(expected) for line, expected in zip(lines, expected_lines, strict=True))


@pytest.mark.parametrize(
    "followed, declared",
    [
        (replace(TABLE, key=None), TABLE),
        (replace(TABLE, key=()), TABLE),
        (changed(0, unsigned=None), TABLE),
        (changed(2, labels=None), TABLE),
        (changed(1, charset=None, meta=20), TABLE),
        (changed(1, charset=None), TABLE),
        (changed(0, type_code=7), changed(0, type_code=17)),
        (changed(1, type_code=245, meta=4, charset=None), changed(1, type_code=252, meta=4, charset=46)),
        (changed(1, type_code=252, meta=1, charset=None), changed(1, type_code=252, meta=2, charset=45)),
    ],
)
def test_what_one_side_does_not_tell_is_not_compared(followed: TableDefinition, declared: TableDefinition) -> None:
    assert differences(followed, declared) == []


def test_a_length_in_characters_is_held_against_bytes() -> None:
    assert differences(changed(1, charset=None, meta=21), TABLE)


def test_types_that_are_not_known_are_named() -> None:
    assert unknown_types(changed(1, type_code=-1)) == ["note"]
    assert unknown_types(TABLE) == []
