import pytest

from spark_jobs.delivery.deliver import chosen_tables, deliver, reload_tables
from spark_jobs.lake.layout import lake_of
from tests.fix_servers import Servers
from tests.lakes.delivered import Copy

pytestmark = [pytest.mark.spark, pytest.mark.mysql]


def test_a_table_is_created_and_followed(copy: Copy) -> None:
    copy.shop.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20), price DECIMAL(10,2))",
        "INSERT INTO t VALUES (1, 'one', 1.5), (2, 'it''s', NULL), (3, '\\\\', 0.37)",
    )
    pipeline = copy.pipeline()
    outcome = copy.run(pipeline)
    assert [table.rows for table in outcome.tables] == [3]
    copy.require_same("t")
    copy.shop.execute(
        "UPDATE t SET name = 'new' WHERE id = 1", "DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (4, '', 4)"
    )
    outcome = copy.run(pipeline)
    assert [table.rows for table in outcome.tables] == [3]
    copy.require_same("t")
    [progress] = copy.progress()
    assert progress["position"] == str(outcome.tables[0].position)
    assert (progress["rows_written"], progress["exit_version"]) == (6, None)
    assert copy.run(pipeline).tables == []


TYPES = """CREATE TABLE t (
  id BIGINT UNSIGNED PRIMARY KEY, ti TINYINT, si SMALLINT UNSIGNED, mi MEDIUMINT, big BIGINT, ub BIGINT UNSIGNED,
  de DECIMAL(20,10), wide DECIMAL(65,30), fl FLOAT, db DOUBLE, bi BIT(5), bw BIT(64),
  da DATE, dt DATETIME(6), ts TIMESTAMP(3) NULL, tm TIME(2), ye YEAR,
  ch CHAR(5), vc VARCHAR(20) CHARACTER SET latin1, tx TEXT CHARACTER SET utf8mb4, gb VARCHAR(10) CHARACTER SET gbk,
  bn BINARY(4), vb VARBINARY(10), bl BLOB, en ENUM('a','b','it''s'), se SET('x','y','z'), js JSON,
  ge GEOMETRY, pt POINT)"""


def _execute_types(copy: Copy) -> None:
    """A table of every type, with rows of extreme and of invalid values."""
    mode = copy.shop.database.execute("SELECT @@sql_mode")[0][0]
    copy.shop.execute(
        TYPES,
        "SET sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO'",
        """INSERT INTO t VALUES (18446744073709551615, -128, 65535, -8388608, -9223372036854775808,
        18446744073709551615, -0.0000000001, 12345678901234567890123456789012345.123456789012345678901234567891,
        0.1, -1e-300, b'10101', b'1000000000000000000000000000000000000000000000000000000000000001',
        '2024-02-29', '2024-02-29 23:59:59.999999', '2024-02-29 12:00:00.123', '-838:59:59.00', 2155,
        'a', 'äÿ€', '漢字😀''"\\\\', '漢字', x'00FF', x'', x'00270D0A1A5C', 'it''s', 'x,z',
        '{"a": [1, 2.5, null, "ä"], "b": {}}', ST_GeomFromText('POINT(1 2)', 4326), POINT(3, 4))""",
        """INSERT INTO t VALUES (0, 0, 0, 0, 0, 0, 0, 0, -0.0, 0, 0, 0,
        '0000-00-00', '2024-00-00 00:00:00', '0000-00-00 00:00:00', '00:00:00', 0,
        '', '', '', '', '', '', '', 'a', '', 'null', NULL, NULL)""",
        "INSERT INTO t (id, da) VALUES (2, '2024-02-31')",
        f"SET sql_mode = '{mode}'",
    )


def test_every_type_is_as_the_source_has_it(copy: Copy) -> None:
    _execute_types(copy)
    pipeline = copy.pipeline()
    copy.run(pipeline)
    copy.require_same("t")
    text = "CONCAT_WS('|', id, HEX(ch), HEX(vc), HEX(gb), HEX(tx), fl, db, HEX(ge), bi + 0, bw + 0, da, dt, ts, ye + 0)"
    assert copy.rows("t", text) == copy.source_rows("t", text)
    ddl = [copy.shop.database.execute(f"SHOW CREATE TABLE {name}")[0][1] for name in ("t", f"`{copy.schema}`.t")]
    types = [[line.split()[:2] for line in text.splitlines()[1:-1]] for text in ddl]
    assert [name for name, *_ in types[0]] == [name for name, *_ in types[1]]
    copy.shop.execute("UPDATE t SET vc = 'ÿ', ts = '1970-01-01 00:00:01'", "DELETE FROM t WHERE id = 0")
    copy.run(pipeline)
    copy.require_same("t")


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["mysql-5.7", "mariadb-11.4"])
def test_every_type_at_another_server(copy: Copy, servers: Servers, name: str) -> None:
    target = servers.get(name)
    _execute_types(copy)
    with copy.writable(target):
        pipeline = copy.pipeline()
        for statement in ("SELECT 1", "UPDATE t SET vc = 'ÿ' WHERE id = 0", "DELETE FROM t WHERE id = 2"):
            copy.shop.execute(statement)
            assert copy.run(pipeline).stopped == {}
            rows = copy.execute(f"SELECT {AT_SERVERS} FROM `{copy.schema}`.t ORDER BY id")
            assert rows == copy.shop.database.execute(f"SELECT {AT_SERVERS} FROM t ORDER BY id")


AT_SERVERS = (
    "id, ti, si, mi, big, ub, de, wide, fl, db, bi + 0, bw + 0, da, dt, ts, tm, ye + 0, HEX(ch), HEX(vc), HEX(tx), "
    "HEX(gb), HEX(bn), HEX(vb), HEX(bl), en, se, CAST(js AS CHAR), HEX(ge), HEX(pt)"
)


def test_rows_that_nobody_delivered(copy: Copy) -> None:
    copy.shop.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
        "INSERT INTO t VALUES (1, 1), (2, 2)",
        f"CREATE DATABASE `{copy.schema}`",
        f"CREATE TABLE `{copy.schema}`.t (id INT PRIMARY KEY, a INT)",
        f"INSERT INTO `{copy.schema}`.t VALUES (1, 7)",
    )
    pipeline = copy.pipeline()
    [reason] = copy.run(pipeline).stopped.values()
    assert "has rows that this delivery did not write" in reason
    reload_tables(pipeline, "copy", chosen_tables(pipeline, lake_of(pipeline), "copy"))
    assert deliver(pipeline, "copy").stopped == {}
    copy.require_same("t")
    copy.shop.execute(f"INSERT INTO `{copy.schema}`.t VALUES (3, 7)", "INSERT INTO t VALUES (3, 3)")
    [reason] = copy.run(pipeline).stopped.values()
    assert "Duplicate entry ? for key 'PRIMARY'" in reason
    assert "safe_mode: on" in reason
    assert copy.run(copy.pipeline(safe_mode="on")).stopped == {}
    copy.require_same("t")


def test_replays_and_truncates(copy: Copy) -> None:
    copy.shop.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    pipeline = copy.pipeline()
    copy.run(pipeline)
    copy.shop.execute("TRUNCATE t", "INSERT INTO t VALUES (2, 3)")
    copy.run(pipeline)
    copy.require_same("t")


@pytest.mark.parametrize(
    "statement, message",
    [
        pytest.param("ALTER TABLE {}.t MODIFY a CHAR(1)", "Data too long for column 'a'", marks=pytest.mark.thorough),
        ("DROP TABLE {}.t", "has no such table"),
    ],
)
def test_what_a_target_refuses(copy: Copy, statement: str, message: str) -> None:
    copy.shop.execute("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9))", "INSERT INTO t VALUES (1, 'a')")
    copy.run(copy.pipeline())
    copy.shop.execute(statement.format(f"`{copy.schema}`"), "INSERT INTO t VALUES (2, 'secret')")
    [reason] = copy.run(copy.pipeline(ddl="ignore")).stopped.values()
    assert message in reason
    assert f"delivery copy: {copy.schema}.t: " in reason
    assert "secret" not in reason
