"""Which rows have a key in common, by the indexes that a server says a table has."""

import pyarrow as pa
import pytest

from spark_jobs.config.servers import MySQL
from spark_jobs.delivery.encode import OutputColumn
from spark_jobs.delivery.ordered.unique_keys import NONE, UniqueKeys, weights_of
from spark_jobs.delivery.target import Connection
from spark_jobs.delivery.target_table import target_table
from tests.fix_mysql import Database

RAW = pa.map_(pa.string(), pa.string())


def keys_of(database: Database, columns: str, rows: dict[str, list[object]]) -> list[tuple[int, ...]]:
    """Of each row, one number an index."""
    database.execute("DROP TABLE IF EXISTS keyed")
    database.execute(f"CREATE TABLE keyed ({columns})")
    server = database.server
    database.execute("CREATE USER IF NOT EXISTS writer@'%' IDENTIFIED WITH mysql_native_password BY 'writes'")
    database.execute(f"GRANT ALL ON `{database.name}`.* TO writer@'%'")
    settings = MySQL(host=server.host, port=server.port, user="writer", password="writes")
    with Connection("copy", settings) as connection:
        target = target_table(connection, database.name, "keyed")
        assert target
        table_columns = tuple(
            OutputColumn(column.name, column.kind) for column in target.columns if column.name in rows
        )
        table = pa.table(rows).append_column("_raw", pa.nulls(len(next(iter(rows.values()))), RAW))
        keys = UniqueKeys(1, target, table_columns, weights_of(connection)).of(table)
    return list(zip(*(index_keys.tolist() for index_keys in keys), strict=True))


def alike(keys: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Numbers by what they are equal to in their index: 0 for no key, then 1, 2, … by first sight."""
    columns = []
    for values in zip(*keys, strict=True):
        numbers: dict[int, int] = {int(NONE): 0}
        columns.append([numbers.setdefault(value, len(numbers)) for value in values])
    return list(zip(*columns, strict=True))


@pytest.mark.mysql
@pytest.mark.parametrize(
    "columns, rows, expected",
    [
        ("a INT PRIMARY KEY", {"a": [1, 2, 1]}, [(1,), (2,), (1,)]),
        # Of a plain index nothing; a unique one does not hold a row with a NULL in it.
        (
            "a INT, b INT, c INT, PRIMARY KEY (a, b), UNIQUE (b, c), KEY (a, b, c), UNIQUE (c, a)",
            {"a": [27, 27, 27], "b": [37, 38, 37], "c": [47, 47, None]},
            [(1, 1, 1), (2, 2, 1), (1, 0, 0)],
        ),
        # "a.b" and "c" is not "a" and "b.c".
        (
            "a VARCHAR(9), b VARCHAR(9), PRIMARY KEY (a, b)",
            {"a": ["a.b", "a", "a'"], "b": ["c", "b.c", ",'"]},
            [(1,), (2,), (3,)],
        ),
        ("a VARCHAR(9) COLLATE utf8mb4_unicode_ci PRIMARY KEY", {"a": ["XyZ", "xyz ", "xy"]}, [(1,), (1,), (2,)]),
        ("a VARCHAR(9) COLLATE utf8mb4_bin PRIMARY KEY", {"a": ["XyZ", "xyz", "XyZ"]}, [(1,), (2,), (1,)]),
        # What is not plain text: the server says what it takes for equal.
        ("a VARCHAR(9) COLLATE utf8mb4_unicode_ci PRIMARY KEY", {"a": ["straße", "STRASSE", "é", "e"]},
         [(1,), (1,), (2,), (2,)]),
        ("a VARCHAR(9) COLLATE utf8mb4_danish_ci PRIMARY KEY", {"a": ["aa", "å", "a"]}, [(1,), (1,), (2,)]),
        ("a VARCHAR(9) CHARACTER SET latin1 PRIMARY KEY", {"a": ["é", "E", "f"]}, [(1,), (1,), (2,)]),
        ("a TEXT, UNIQUE (a(3))", {"a": ["1234", "1239", "12"]}, [(1, 1), (1, 2), (2, 3)]),
        ("a BLOB, UNIQUE (a(2))", {"a": [b"123", b"124", b"1"]}, [(1, 1), (1, 2), (2, 3)]),
        ("a DOUBLE PRIMARY KEY", {"a": [0.0, -0.0, 1.5]}, [(1,), (1,), (2,)]),
        # What the target computes may be anything.
        ("a INT PRIMARY KEY, b INT AS (a % 2), UNIQUE (b)", {"a": [1, 2, 3]}, [(1, 1), (2, 1), (3, 1)]),
        # Without a key a row is all that is in it.
        ("a INT, b VARCHAR(9)", {"a": [1, 1, 1], "b": ["x", "X", "x"]}, [(1,), (2,), (1,)]),
    ],
)  # fmt: skip
def test_keys(database: Database, columns: str, rows: dict[str, list[object]], expected: list[tuple[int, ...]]) -> None:
    assert alike(keys_of(database, columns, rows)) == expected
