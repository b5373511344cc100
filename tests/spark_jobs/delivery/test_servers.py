"""Targets of every server that tests know: rows, changes and statements in their positions, compared by verify."""

from collections.abc import Iterator

import pytest

from spark_jobs.checks.verify.deliveries import verify_delivery
from spark_jobs.operations.observation.verified import EQUAL
from tests.fix_servers import Servers
from tests.lakes.delivered import Copy, Target
from tests.services.servers import SERVERS

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.mysql]


@pytest.fixture(params=[*SERVERS, "tidb"])
def target(request: pytest.FixtureRequest, servers: Servers, copy: Copy) -> Iterator[Target]:
    """Each server in turn, as that which the copy is at."""
    server = request.getfixturevalue("tidb") if request.param == "tidb" else servers.get(request.param)
    with copy.writable(server):
        yield server


TABLES = (
    """CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20) CHARACTER SET latin1, price DECIMAL(10,2) NOT NULL,
    at TIMESTAMP(3) NULL, note TEXT, doc JSON)""",
    """INSERT INTO t VALUES (1, 'ä', 1.5, '2024-02-29 12:00:00.123', '漢字', '{"a": [1, null]}'),
    (2, NULL, 2, NULL, NULL, NULL), (3, 'it''s', -0.37, '1970-01-01 00:00:01', '\\\\', '"ä"')""",
    "CREATE TABLE pair (a INT, b VARCHAR(9) COLLATE utf8mb4_unicode_ci, v INT, PRIMARY KEY (a, b))",
    "INSERT INTO pair VALUES (1, 'x', 1), (1, 'y', 2), (2, 'x', 3)",
    "CREATE TABLE bag (a INT, b VARCHAR(9))",
    "INSERT INTO bag VALUES (1, 'a'), (1, 'a'), (NULL, 'A')",
)
STEPS = (
    (
        "UPDATE t SET name = 'ÿ', note = CONCAT(note, '!') WHERE id = 1",
        "UPDATE t SET id = 30 WHERE id = 3",
        "DELETE FROM t WHERE id = 2",
        "UPDATE pair SET b = 'X', v = 9 WHERE a = 1 AND b = 'x'",
        "DELETE FROM bag WHERE a = 1 LIMIT 1",
        "UPDATE bag SET b = 'c' WHERE a IS NULL",
    ),
    (
        "INSERT INTO t VALUES (4, 'before', 4, NULL, 'n', 'null')",
        "ALTER TABLE t ADD added INT NOT NULL DEFAULT 7 AFTER name, DROP note",
        "INSERT INTO t VALUES (5, 'between', 50, 5, NULL, '[]')",
        "ALTER TABLE t RENAME COLUMN price TO cost, MODIFY id BIGINT",
        "UPDATE t SET cost = cost + 1, added = id WHERE id > 3",
        "ALTER TABLE t CHANGE name title VARCHAR(40) CHARACTER SET utf8mb4, ADD body TEXT",
        "INSERT INTO t VALUES (5000000000, '😀', 6, 6, NULL, '{}', 'b')",
        "ALTER TABLE pair ADD w DATE DEFAULT '2024-02-29'",
        "UPDATE pair SET a = a + 10 WHERE v = 3",
        "TRUNCATE bag",
        "INSERT INTO bag VALUES (9, 'z')",
    ),
    ("DELETE FROM t WHERE id = 5", "REPLACE INTO pair VALUES (1, 'Y', 7, NULL)"),
)


@pytest.mark.parametrize("apply", ["net", "ordered"])
def test_changes_and_statements_arrive(copy: Copy, target: Target, apply: str) -> None:
    copy.shop.execute(*TABLES)
    pipeline = copy.pipeline(apply=apply, workers=2, batch_rows=2)
    statements = []
    for step in ((), *STEPS):
        copy.shop.execute(*step)
        outcome = copy.run(pipeline)
        assert outcome.stopped == {}
        statements += [statement for table in outcome.tables for statement in table.statements]
        verdicts = list(verify_delivery(copy.shop.spark, pipeline, "copy"))
        assert {verdict.table: verdict.state for verdict in verdicts} == {
            f"{copy.schema}.{table}": EQUAL for table in ("t", "pair", "bag")
        }
        _require_same(copy, target)
    assert any("ALTER TABLE" in statement for statement in statements)


def _require_same(copy: Copy, target: Target) -> None:
    """The target's columns have the names, order and values of the source's."""
    with target.connect() as connection, connection.cursor() as cursor:
        for table in ("t", "pair", "bag"):
            names = [row[0] for row in copy.shop.database.execute(f"SHOW COLUMNS FROM {table}")]
            cursor.execute(f"SHOW COLUMNS FROM `{copy.schema}`.{table}")
            assert [row[0] for row in cursor.fetchall()] == names
            columns = ", ".join(f"HEX(CONVERT(CAST({name} AS CHAR) USING utf8mb4))" for name in names)
            cursor.execute(f"SELECT {columns} FROM `{copy.schema}`.{table}")
            assert sorted(cursor.fetchall(), key=repr) == copy.source_rows(table, columns)
