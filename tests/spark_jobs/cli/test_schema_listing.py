"""The schema history as it is printed."""

import json
from dataclasses import replace

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.cli.schema_listing import SchemaListing
from spark_jobs.log.position import Position
from spark_jobs.schema.facts import TableVersion

T, U = TableName("shop", "t"), TableName("shop", "u")
OLD = TableDefinition(T, (Column("id", 3, nullable=False), Column("note", 15, 9, charset=8, default="'x'")), (0,))
NEW = replace(OLD, columns=(*OLD.columns, Column("n", 8, computed=True, invisible=True)), key=(0, 2))


def at(offset: int) -> Position:
    return Position("b.000001", offset)


VERSIONS = [
    TableVersion(T, at(100), "ddl", OLD, statement="CREATE\n  TABLE t …"),
    TableVersion(T, at(200), "server", NEW, holds=False, differs=("column n: only the server has it",)),
    TableVersion(T, at(300), "table_map", NEW, note="so so"),
    TableVersion(U, at(400), "ddl", is_dropped=True, statement="DROP TABLE u"),
    TableVersion(replace(U, table="v"), at(500), "ddl", note="not followed: why", statement="ALTER TABLE v …"),
]
CURRENT = {T: VERSIONS[2], U: VERSIONS[3], VERSIONS[4].name: VERSIONS[4]}
SHOWN = SchemaListing(VERSIONS, CURRENT, dict.fromkeys(CURRENT, at(900)))


def test_a_definition_is_a_row_a_column() -> None:
    table, second = SHOWN.definitions(dropped=False)
    assert table.title == "shop.t at b.000001:900: key id, n, from row metadata at b.000001:300 (so so)"
    assert table.rows == [
        ["  id", "int", "not null", "", "", ""],
        ["  note", "varchar(9)", "", "latin1", "'x'", ""],
        ["  n", "bigint", "", "", "", "generated invisible"],
    ]
    assert (second.title, second.rows) == (
        "shop.v at b.000001:900: not known since b.000001:500: not followed: why",
        [],
    )
    assert [definition.title for definition in SHOWN.definitions(dropped=True)][1] == (
        "shop.u at b.000001:900: dropped at b.000001:400"
    )


def test_a_history_is_a_row_a_version() -> None:
    table, dropped, second = SHOWN.histories()
    assert table.rows == [
        [
            "b.000001:100",
            "CREATE TABLE t …",
            "",
            "(id int not null, note varchar(9)), key: id",
        ],
        ["b.000001:200", "the server", "", "contradicts: column n: only the server has it"],
        ["b.000001:300", "row metadata", "", "+ n bigint generated invisible; key: id -> id, n; so so"],
    ]
    assert dropped.rows[0][3] == "dropped"
    assert second.rows[0][3] == "not followed: why"


def test_json_has_positions_as_users_write_them() -> None:
    first, *_ = SHOWN.as_json(history=False)
    assert json.loads(json.dumps(first)) == first
    assert {name: first[name] for name in ("at", "schema", "table", "position", "origin", "key", "dropped")} == {
        "at": "b.000001:900",
        "schema": "shop",
        "table": "t",
        "position": "b.000001:300",
        "origin": "table_map",
        "key": ["id", "n"],
        "dropped": False,
    }
    assert [line["position"] for line in SHOWN.as_json(history=True)][:2] == ["b.000001:100", "b.000001:200"]
