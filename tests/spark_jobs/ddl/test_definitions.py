from dataclasses import replace

import pytest

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.ddl import definitions
from spark_jobs.ddl.definitions import (
    HistoryAnswer,
    completed_by_history,
    declared_as_logged,
    from_json,
    to_json,
    with_numbered_columns,
    with_server_definition,
)
from spark_jobs.errors import TableStopped
from spark_jobs.log.position import Position

NAME = TableName("shop", "t")
UNNAMED = TableDefinition(NAME, (Column(None, 3), Column(None, 15, 40, charset=255)))
KNOWN = TableDefinition(NAME, (Column("id", 3, nullable=True), Column("note", 15, 40, charset=255)), (0,))
READ_AT = Position("mysql-bin.000003", 500)
MISSING = "shop: shop.t: the log does not name its columns (binlog_row_metadata is not FULL)"


def test_a_log_that_names_its_columns_needs_nobody() -> None:
    assert with_server_definition("shop", KNOWN, None, None) is KNOWN


@pytest.mark.parametrize("change", [None, "mysql-bin.000003:500", "mysql-bin.000002:9999"])
def test_a_definition_read_after_the_last_change_is_believed(change: str | None) -> None:
    assert (
        with_server_definition("shop", UNNAMED, (READ_AT, KNOWN), Position.parse(change) if change else None) == KNOWN
    )


def test_whether_a_column_may_be_null_is_what_the_log_says() -> None:
    assert [column.nullable for column in with_server_definition("shop", UNNAMED, (READ_AT, KNOWN), None).columns] == [
        True,
        True,
    ]


def test_a_change_after_the_reading_stops_the_table() -> None:
    with pytest.raises(TableStopped) as refused:
        with_server_definition("shop", UNNAMED, (READ_AT, KNOWN), Position("mysql-bin.000003", 501))
    assert str(refused.value) == (
        f"{MISSING}, and the server's definition was read at {READ_AT}, before a change at mysql-bin.000003:501"
    )


def test_a_table_without_a_definition_stops() -> None:
    with pytest.raises(TableStopped) as refused:
        with_server_definition("shop", UNNAMED, None, None)
    assert str(refused.value) == (
        f"{MISSING}, and no definition was read from a server; SET GLOBAL binlog_row_metadata = 'FULL', or name a "
        "schema dump of known position (schema_dump: of a source of files)"
    )


def test_a_type_that_is_not_known_is_named_with_its_column() -> None:
    strange = replace(KNOWN, columns=(KNOWN.columns[0], Column("place", -1)))
    with pytest.raises(TableStopped) as refused:
        with_server_definition("shop", UNNAMED, (READ_AT, strange), None)
    assert str(refused.value) == f"{MISSING}, and the type of its column place is not known; leave the table out"


def test_definitions_are_the_same_after_storing() -> None:
    labelled = replace(KNOWN, columns=(*KNOWN.columns, Column("e", 247, 1, False, True, 255, ("it's", "ä", ""))))
    assert definitions.from_json(definitions.to_json(labelled)) == labelled


LOGGED = TableDefinition(
    NAME,
    (
        Column("id", 3),
        Column("u", 254, 16, charset=63),
        Column("v", 15, 12, charset=63),
        Column("b", 254, 16, charset=63),
        Column("t", 11),
    ),
    (0,),
)
DECLARED = TableDefinition(
    NAME,
    (
        Column("id", 3),
        Column("u", 254, 16, charset=63, declared="uuid"),
        Column("v", 242, 4, declared="vector(3)"),
        Column("b", 254, 16, charset=63),
        Column("t", 19, 3),
    ),
    (0,),
)
"""What MariaDB's information_schema says of the same columns."""


@pytest.mark.parametrize("has_names", [True, False])
def test_what_the_log_writes_as_another_type_is_taken_from_the_definition(has_names: bool) -> None:
    unnamed = replace(LOGGED, columns=tuple(replace(column, name=None) for column in LOGGED.columns), key=None)
    definition = with_server_definition("shop", LOGGED if has_names else unnamed, (READ_AT, DECLARED), None)
    assert definition.column_names() == ["id", "u", "v", "b", "t"]
    assert [column.sql_type for column in definition.columns] == ["int", "uuid", "vector(3)", "binary(16)", "time(3)"]
    assert [column.type_code for column in definition.columns] == [3, 254, 15, 254, 11]
    assert definition.key == (0,)


def test_declared_types_from_before_a_change_are_not_believed() -> None:
    later = Position(READ_AT.file, READ_AT.offset + 1)
    with pytest.raises(TableStopped, match=r"does not tell UUID, INET and VECTOR from BINARY, and .* run again"):
        with_server_definition("shop", LOGGED, (READ_AT, DECLARED), later)


@pytest.mark.parametrize("definition", [None, replace(DECLARED, columns=DECLARED.columns[:2]), LOGGED])
def test_a_log_with_names_goes_without_a_definition(definition: TableDefinition | None) -> None:
    answer = None if definition is None else (READ_AT, definition)
    assert with_server_definition("shop", LOGGED, answer, None) == LOGGED


@pytest.mark.parametrize(
    "row, code, meta, declared",
    [
        ({"kind": "uuid", "declared": "uuid"}, 254, 16, "uuid"),
        ({"kind": "inet4", "declared": "inet4"}, 254, 4, "inet4"),
        ({"kind": "inet6", "declared": "inet6"}, 254, 16, "inet6"),
        ({"kind": "vector", "declared": "vector(3)"}, 242, 4, "vector(3)"),
        ({"kind": "binary", "declared": "binary(16)", "octets": 16}, 254, 16, None),
    ],
)
def test_columns_of_types_that_the_log_does_not_tell(
    row: dict[str, object], code: int, meta: int, declared: str | None
) -> None:
    column = definitions.column_of_row({"name": "c", "nullable": "YES", "collation": None} | row, {})
    assert (column.type_code, column.meta, column.declared) == (code, meta, declared)
    assert column.charset == 63


@pytest.mark.parametrize(
    "row, code, meta",
    [
        ({"kind": "varchar", "octets": 100}, 141, 101),
        ({"kind": "varbinary", "octets": 255}, 141, 256),
        ({"kind": "text", "octets": 65535}, 140, 2),
        ({"kind": "longblob", "octets": 2**32 - 1}, 140, 4),
    ],
)
def test_compressed_columns(row: dict[str, object], code: int, meta: int) -> None:
    one_row_cells = {
        "name": "c",
        "nullable": "YES",
        "collation": None,
        "declared": f"{row['kind']}(…) /*M!100301 COMPRESSED*/",
    }
    column = definitions.column_of_row(one_row_cells | row, {})
    assert (column.type_code, column.meta, column.charset) == (code, meta, 63)


def test_text_of_an_unknown_collation_is_not_taken_for_bytes() -> None:
    row = {"name": "c", "nullable": "YES", "kind": "text", "declared": "text", "collation": "klingon_ci"}
    assert definitions.column_of_row(row, {"latin1_bin": 47}).type_code == definitions._UNKNOWN
    assert definitions.column_of_row(row, {"klingon_ci": 47}).type_code == 252
    assert definitions.column_of_row(row, {"klingon_ci": 47}).charset == 47


def test_a_default_comes_by_name_and_never_as_a_label_that_values_have_not() -> None:
    enum = Column("e", 247, 1, labels=("p", "q"), default="'p'", computed=False)
    source = TableDefinition(TableName("d", "t"), (Column("a", 3, default="1", computed=False), enum))
    logged = TableDefinition(
        source.name, (replace(enum, labels=None, default=None, computed=None), Column("a", 3), Column("b", 3))
    )
    completed_definition = definitions.with_defaults(logged, source)
    assert [column.default for column in completed_definition.columns] == [None, "1", None]
    labelled = replace(logged, columns=(replace(enum, default=None, computed=None),))
    assert definitions.with_defaults(labelled, source).columns[0].default == "'p'"
    assert (
        definitions.with_defaults(completed_definition, replace(source, columns=(Column("a", 3, default="2"),)))
        .columns[1]
        .default
        == "1"
    )
    assert definitions.without_defaults(completed_definition) == completed_definition, "equal, whatever the defaults"
    assert definitions.defaults(definitions.without_defaults(completed_definition)) == [(None, None)] * 3
    assert definitions.from_json(definitions.to_json(completed_definition)).columns[1].default == "1"


@pytest.mark.parametrize(
    "logged, declared, expected",
    [
        (Column(None, 15, 80, charset=255), Column("v", 15, 80, charset=45), True),
        (Column(None, 15, 20, charset=8), Column("v", 15, 20, charset=45), False),
        (Column(None, 15, 80), Column("v", 15, 80, charset=45), True),
        (Column(None, 15, 80, charset=255), Column("v", 15, 20), True),
        (Column(None, 15, 80), Column("v", 15, 20), False),
        (Column(None, 252, 2, charset=8), Column("v", 252, 2), True),
        (Column(None, 3, unsigned=True), Column("v", 3, unsigned=False), False),
        (Column(None, 3, unsigned=None), Column("v", 3, unsigned=True), True),
        (Column(None, 3), Column("v", 8), False),
    ],
)
def test_a_declaration_fits_a_log_by_what_its_bytes_depend_on(logged: Column, declared: Column, expected: bool) -> None:
    definition = declared_as_logged(
        *(TableDefinition(TableName("shop", "t"), (column,)) for column in (logged, declared))
    )
    assert (definition is not None) == expected
    if definition:
        assert (definition.columns[0].name, definition.columns[0].meta) == ("v", logged.meta)


def test_text_of_unknown_character_set_stops_a_table() -> None:
    definition = TableDefinition(TableName("shop", "t"), (Column("v", 252, 2),))
    bare = replace(definition, columns=(replace(definition.columns[0], name=None),))
    with pytest.raises(TableStopped, match="neither the log nor the schema dump tells the character set of v"):
        completed_by_history(bare, HistoryAnswer(READ_AT, definition))


def test_columns_without_names_have_their_numbers_and_nothing_that_is_not_told() -> None:
    open_, price = Column(None, 3, unsigned=None), Column(None, 246, 1794, unsigned=None)
    logged = TableDefinition(NAME, (open_, Column(None, 3), price, Column(None, 15, 9)))
    definition = with_numbered_columns(logged)
    assert [column.name for column in definition.columns] == ["@1", "@2", "@3", "@4"]
    assert [column.declared for column in definition.columns] == ["either sign", None, None, None]
    assert (definition.key, definition.numbered, definition.has_names()) == ((), True, True)
    assert [str(column.arrow) for column in definition.columns] == ["int32", "int32", "decimal128(7, 2)", "string"]
    assert from_json(to_json(definition)) == definition
    assert "numbered" not in to_json(logged)
