"""What servers declare, beside what their log says."""

from collections.abc import Iterator

import pytest
from pydantic import SecretStr
from pymysql.cursors import Cursor

from spark_jobs.binlog import Slicer, TableDefinition, TableName, definitions_of
from spark_jobs.checks.verify.server_rows import ServerSession
from spark_jobs.config.servers import MySQL
from spark_jobs.ddl import definitions
from spark_jobs.ddl.default_values import on_server_default
from spark_jobs.ddl.definitions import with_server_definition
from spark_jobs.ddl.parse_alter import created_definition
from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import TableStopped
from spark_jobs.log.position import Position
from spark_jobs.pipeline.initial_load.key_ranges import key_of
from spark_jobs.source.information_schema import ask, logs_all, read_definitions
from spark_jobs.source.server import Server
from tests.fix_mysql import database_of
from tests.fix_servers import Servers

TYPES = [
    *(f"{kind}{sign}" for kind in ("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT") for sign in ("", " UNSIGNED")),
    *("INT(5) UNSIGNED ZEROFILL", "BOOLEAN", "FLOAT", "FLOAT UNSIGNED", "FLOAT(7,3)", "FLOAT(30)", "DOUBLE", "REAL"),
    *("DECIMAL(1,0)", "DECIMAL(12,2)", "DECIMAL(38,30)", "DECIMAL(65,30)", "DECIMAL(20,5) UNSIGNED", "NUMERIC"),
    *("BIT(1)", "BIT(8)", "BIT(9)", "BIT(64)", "YEAR", "DATE"),
    *(f"{kind}({digits})" for kind in ("TIME", "DATETIME", "TIMESTAMP") for digits in (0, 1, 3, 6)),
    *("CHAR(0)", "CHAR(1)", "CHAR(63)", "CHAR(64)", "CHAR(255)", "CHAR(255) CHARACTER SET latin1"),
    *("CHAR(100) COLLATE utf8mb4_bin", "NCHAR(10)", "CHAR(10) CHARACTER SET binary", "CHAR(255) CHARACTER SET utf8"),
    *(
        "VARCHAR(1)",
        "VARCHAR(63)",
        "VARCHAR(64)",
        "VARCHAR(300) CHARACTER SET latin1",
        "VARCHAR(255) CHARACTER SET gbk",
    ),
    *("BINARY(1)", "BINARY(255)", "VARBINARY(255)", "VARBINARY(256)"),
    *(
        "TINYTEXT",
        "TEXT",
        "MEDIUMTEXT",
        "LONGTEXT",
        "TEXT(100)",
        "TEXT CHARACTER SET ucs2",
        "TEXT CHARACTER SET binary",
    ),
    *("TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB", "BLOB(70000)"),
    *("ENUM('a')", "ENUM('it''s', 'a,b', 'c)d', 'ä€', '\"', '', '`')", "ENUM('k', 'ß') CHARACTER SET latin1"),
    *("SET('a')", "SET('x''y', 'z', '(')", "SET('a', 'b') COLLATE utf8mb4_bin"),
    f"ENUM({', '.join(repr(str(number)) for number in range(255))})",
    f"ENUM({', '.join(repr(str(number)) for number in range(256))})",
    *(f"SET({', '.join(repr(str(number)) for number in range(size))})" for size in (8, 9, 24, 25, 32, 33, 64)),
    *("JSON", "GEOMETRY", "POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON"),
    "GEOMETRYCOLLECTION",
]
ODD_LABELS = r"ENUM('back\\slash', 'new\nline', 'nul\0', 'tab\t', 'cr\r', 'sub\Z')"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MySQLServer]:
    """A server that logs no names, as servers do unless they are told to."""
    with MySQLServer(tmp_path_factory.mktemp("minimal"), {"binlog_row_metadata": "MINIMAL"}) as minimal:
        yield minimal


@pytest.fixture
def cursor(server: MySQLServer) -> Iterator[Cursor]:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE d")
        connection.select_db("d")
        yield cursor
        cursor.execute("DROP DATABASE d")
        cursor.execute("SET GLOBAL binlog_row_metadata = 'MINIMAL'")


def source_of(server: MySQLServer) -> Server:
    settings = MySQL(host=server.host, port=server.port, user=server.user, password=SecretStr(server.password))
    return Server("shop", settings)


def definitions_of_server(server: MySQLServer) -> dict[str, TableDefinition]:
    """What the server says of its tables now."""
    source = source_of(server)
    with source.connect() as connection:
        return {
            definition.name.table: definition
            for definition in read_definitions(source, connection)
            if definition.name.schema == "d"
        }


def logged(server: MySQLServer, cursor: Cursor) -> dict[str, TableDefinition]:
    """What the server's current binlog file says of the tables whose rows it has."""
    cursor.execute("SHOW MASTER STATUS")
    file, stop = (cursor.fetchall()[0])[:2]
    slicer = Slicer(file, 0, None)
    content = (server.data / file).read_bytes()[:stop]
    definitions = {}
    for batch in [*slicer.feed(content), *slicer.finish()]:
        for row in batch.to_pylist():
            if row["kind"] == "rows":
                for definition in definitions_of(file, row["start"], row["context"], row["payload"]):
                    definitions[definition.name.table] = definition
    return definitions


def filled(cursor: Cursor, table: str, columns: str, key: str = "id") -> None:
    """A table with one row, the first thing in a new binlog file."""
    cursor.execute("FLUSH BINARY LOGS")
    cursor.execute(f"CREATE TABLE {table} (id INT NOT NULL, {columns}, PRIMARY KEY ({key}))")
    cursor.execute(f"INSERT INTO {table} (id) VALUES (1)")


def altered(cursor: Cursor, change: str) -> None:
    """Changes the table's definition behind the log's back."""
    for statement in ("SET sql_log_bin = 0", "DELETE FROM t", f"ALTER TABLE t {change}", "SET sql_log_bin = 1"):
        cursor.execute(statement)


def all_types(cursor: Cursor) -> None:
    """Every type in tables of 30 columns: one row must fit into 65,535 bytes."""
    for start in range(0, len(TYPES), 30):
        columns = ", ".join(f"c{start + at} {kind} NULL" for at, kind in enumerate(TYPES[start : start + 30]))
        cursor.execute(f"CREATE TABLE t{start} (id INT NOT NULL PRIMARY KEY, {columns}) CHARACTER SET utf8mb4")
        cursor.execute(f"INSERT INTO t{start} (id) VALUES (1)")


@pytest.mark.mysql
def test_information_schema_gives_the_layout_that_table_maps_have(server: MySQLServer, cursor: Cursor) -> None:
    cursor.execute("FLUSH BINARY LOGS")
    all_types(cursor)
    log, declared = logged(server, cursor), definitions_of_server(server)
    assert set(log) == set(declared)
    for name, table in declared.items():
        kinds = ["INT", *TYPES[int(name[1:]) :]]
        for kind, here, declared_column in zip(kinds, log[name].columns, table.columns, strict=False):
            assert (kind, here.type_code, here.meta) == (kind, declared_column.type_code, declared_column.meta)
            assert definitions._agrees(here, declared_column), (kind, here, declared_column)


@pytest.mark.mysql
def test_information_schema_says_what_full_metadata_says(server: MySQLServer, cursor: Cursor) -> None:
    cursor.execute("SET GLOBAL binlog_row_metadata = 'FULL'")
    cursor.execute("FLUSH BINARY LOGS")
    all_types(cursor)
    log, declared = logged(server, cursor), definitions_of_server(server)
    for name, table in declared.items():
        kinds = ["INT", *TYPES[int(name[1:]) :]]
        assert log[name].key == table.key == (0,)
        for kind, here, declared_column in zip(kinds, log[name].columns, table.columns, strict=False):
            labels_known = here.labels is not None  # of other character sets before MySQL 8.0.17, they are not
            for field in ("name", "unsigned", "nullable", *(["labels"] if labels_known else [])):
                assert (kind, getattr(here, field)) == (kind, getattr(declared_column, field)), field


@pytest.mark.mysql
def test_labels_are_those_of_the_server_whatever_is_in_them(server: MySQLServer, cursor: Cursor) -> None:
    filled(cursor, "odd", f"e {ODD_LABELS}")
    cursor.execute("SELECT e FROM odd LIMIT 0")
    labels = ["back\\slash", "new\nline", "nul\0", "tab\t", "cr\r", "sub\x1a"]
    for number, label in enumerate(labels, 1):
        cursor.execute("REPLACE INTO odd VALUES (1, %s)", (label,))
        cursor.execute("SELECT e + 0 FROM odd")
        assert cursor.fetchall() == ((number,),)
    assert definitions_of_server(server)["odd"].columns[1].labels == tuple(labels)


@pytest.mark.mysql
def test_the_keys_columns_are_in_the_keys_order(server: MySQLServer, cursor: Cursor) -> None:
    filled(cursor, "t", "a VARCHAR(50) NOT NULL DEFAULT '', b INT NOT NULL DEFAULT 0, INDEX (b)", key="b, a(10), id")
    cursor.execute("CREATE TABLE without (a INT)")
    declared = definitions_of_server(server)
    assert declared["t"].key == (2, 1, 0)
    assert declared["without"].key == ()


UNIQUE = {
    "z_then_a": "a INT NOT NULL, b INT NOT NULL, UNIQUE z (b), UNIQUE a (a)",
    "nullable_first": "a INT, b INT NOT NULL, UNIQUE a (a), UNIQUE b (b)",
    "pair": "a INT NOT NULL, b CHAR(3) NOT NULL, UNIQUE (b, a)",
    "primary_too": "a INT NOT NULL UNIQUE, b INT PRIMARY KEY",
    "prefix": "a VARCHAR(9) NOT NULL, b INT, UNIQUE (a(5))",
    "computed": "a INT NOT NULL, b INT AS (a) VIRTUAL NOT NULL UNIQUE",
    "none": "a INT NOT NULL, b INT, KEY (a), UNIQUE (a, b)",
}


@pytest.mark.mysql
def test_the_key_without_a_primary_one_is_the_server_s_choice(server: MySQLServer, cursor: Cursor) -> None:
    """As the log tells it with all metadata, information_schema, and the CREATE."""
    cursor.execute("SET GLOBAL binlog_row_metadata = 'FULL'")
    cursor.execute("FLUSH BINARY LOGS")
    for name, inside in UNIQUE.items():
        cursor.execute(f"CREATE TABLE {name} ({inside})")
        cursor.execute(f"INSERT INTO {name} (a{', b' * (name != 'computed')}) VALUES (1{', 1' * (name != 'computed')})")
    log, declared = logged(server, cursor), definitions_of_server(server)
    by_statement = {
        name: created_definition(TableName("d", name), f"CREATE TABLE {name} ({inside})")
        for name, inside in UNIQUE.items()
    }
    expected = {"z_then_a": (1,), "nullable_first": (1,), "pair": (1, 0), "primary_too": (1,)}
    for name in UNIQUE:
        definition = by_statement[name]
        assert definition is not None
        keys = [log[name].key, declared[name].key, definition.key]
        assert keys == [expected.get(name, ())] * 3, name
    assert [declared[name].index for name in ("z_then_a", "primary_too", "none")] == ["z", "PRIMARY", None]


@pytest.mark.mysql
def test_views_and_system_schemas_are_no_tables(server: MySQLServer, cursor: Cursor) -> None:
    cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    cursor.execute("CREATE VIEW v AS SELECT * FROM t")
    source = source_of(server)
    with source.connect() as connection:
        assert {str(definition.name) for definition in read_definitions(source, connection)} == {"d.t"}


ALIKE = {
    "ta": (["id", "a", "é"], ("id",)),
    "tä": (["e", "id", "strasse", "Ä"], ("strasse", "e")),
    "TA": (["straße"], ("straße",)),
    "strasse": (["n"], ("n",)),
    "straße": (["m", "É", "n"], ()),
    "TÄ": (["id", "A"], ("A",)),
}
"""Tables whose names, and whose columns, are equal to the collation of information_schema: their columns and key."""


@pytest.mark.mysql
@pytest.mark.parametrize("name", ["mysql-5.7", "mysql-8.0", "mariadb-11.4"])
def test_tables_whose_names_a_collation_folds_are_told_apart(servers: Servers, name: str) -> None:
    with database_of(servers.get(name)) as database, database.server.connect(charset="utf8mb4") as connection:
        second_schema = database.name.upper()
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {second_schema}")
            cursor.execute(f"CREATE TABLE {second_schema}.ta (other INT)")
            connection.select_db(database.name)
            for table, (columns, key) in ALIKE.items():
                listed = ", ".join(f"`{name}` INT{' NOT NULL' * (name in key)}" for name in columns)
                keyed = f", UNIQUE ({', '.join(f'`{name}`' for name in key)})" if key else ", UNIQUE (`É`)"
                cursor.execute(f"CREATE TABLE `{table}` ({listed}{keyed})")
        source = source_of(database.server)
        try:
            with source.connect() as asking:
                variables = source.variables(asking)
                answer = ask(source, asking, variables, on_server_default)
                walked = {table: key_of(asking, database.name, table, key) for table, (_, key) in ALIKE.items() if key}
            with ServerSession(source) as session:
                columns_shown = {
                    table: [row["name"] for row in session.columns(database.name, table)] for table in ALIKE
                }
        finally:
            database.execute(f"DROP DATABASE {second_schema}")
        tables = [definition for definition in answer if definition.name.schema == database.name]
        names = {definition.name.table: definition.column_names() for definition in tables}
        keys = {
            definition.name.table: tuple(names[definition.name.table][at] for at in definition.key or ())
            for definition in tables
        }
        assert len(tables) == len(ALIKE)
        assert {table: (names[table], keys[table]) for table in names} == ALIKE
        assert [definition.column_names() for definition in answer if definition.name.schema == second_schema] == [
            ["other"]
        ]
        assert {table: tuple(part.name for part in key.columns) for table, key in walked.items()} == {
            table: key for table, (_, key) in ALIKE.items() if key
        }
        assert columns_shown == {table: columns for table, (columns, _) in ALIKE.items()}


def answers(server: MySQLServer) -> dict[str, TableDefinition]:
    """What a server is asked, by table."""
    source = source_of(server)
    with source.connect() as connection:
        variables = source.variables(connection)
        assert not logs_all(variables)
        return {
            definition.name.table: definition for definition in ask(source, connection, variables, on_server_default)
        }


@pytest.mark.mysql
def test_a_server_names_the_logs_columns(server: MySQLServer, cursor: Cursor) -> None:
    filled(cursor, "t", "`größe` ENUM('klein', 'groß'), n BIGINT UNSIGNED DEFAULT 7")
    log = logged(server, cursor)["t"]
    assert not log.has_names()
    definition = with_server_definition("shop", log, (READ_AT, answers(server)["t"]), None)
    assert definition.column_names() == ["id", "größe", "n"]
    assert definition.key == (0,)
    assert [column.labels for column in definition.columns] == [None, ("klein", "groß"), None]
    assert [column.unsigned for column in definition.columns] == [False, False, True]
    assert [column.default for column in definition.columns][1:] == ["NULL", "7"]


@pytest.mark.mysql
@pytest.mark.parametrize(
    "before, after",
    [
        ("a INT", "a BIGINT"),
        ("a INT", "a INT UNSIGNED"),
        ("a INT", "a INT NOT NULL DEFAULT 0"),
        ("a VARCHAR(10)", "a VARCHAR(11)"),
        ("a VARCHAR(10)", "a VARCHAR(10) CHARACTER SET latin1"),
        ("a DECIMAL(10,2)", "a DECIMAL(10,3)"),
        ("a DATETIME", "a DATETIME(3)"),
        ("a INT", "a INT, ADD b INT"),
        pytest.param("a INT", "a POINT", marks=pytest.mark.thorough),
    ],
)
def test_a_definition_that_does_not_fit_the_log_is_not_believed(
    server: MySQLServer, cursor: Cursor, before: str, after: str
) -> None:
    filled(cursor, "t", before)
    log = logged(server, cursor)["t"]
    altered(cursor, f"MODIFY COLUMN {after}")
    with pytest.raises(TableStopped) as refused:
        with_server_definition("shop", log, (READ_AT, answers(server)["t"]), None)
    assert str(refused.value).startswith(
        "shop: d.t: the log does not name its columns (binlog_row_metadata is not FULL), and the server's definition "
        f"does not fit: the log has {log}, the server {definitions_of_server(server)['t']}"
    )


READ_AT = Position("mysql-bin.000003", 500)
