"""Whole comparisons with a real server, to which others write."""

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from spark_jobs.checks.verify import Verdict, server_rows, verify_source
from spark_jobs.checks.verify.lake_rows import SilverRows
from spark_jobs.checks.verify.protocol import KeySet, Values
from spark_jobs.checks.verify.server_rows import ServerRows
from spark_jobs.checks.verify.tables import LAST
from spark_jobs.config.loader import load
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.operations.observation.verified import read
from spark_jobs.runtime.lazy_session import lazy_session
from tests.fix_pipeline import SOURCE, Shop
from tests.fix_servers import Servers

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

EVERY_TYPE = """
CREATE TABLE every (
  id BIGINT UNSIGNED, word VARCHAR(20) COLLATE utf8mb4_general_ci,
  t TINYINT, u TINYINT UNSIGNED ZEROFILL, s SMALLINT, m MEDIUMINT UNSIGNED, i INT, b BIGINT, bu BIGINT UNSIGNED,
  d DECIMAL(10,2), tiny DECIMAL(38,30), wide DECIMAL(65,30), f FLOAT, g DOUBLE, bits BIT(9), bits64 BIT(64),
  day DATE, moment DATETIME(6), plain DATETIME, at TIMESTAMP(3) NULL, clock TIME(2), y YEAR,
  c CHAR(10), latin VARCHAR(10) CHARACTER SET latin1, chinese VARCHAR(10) CHARACTER SET gbk,
  japanese TEXT CHARACTER SET cp932,
  central VARCHAR(10) CHARACTER SET cp1250, wide_text VARCHAR(10) CHARACTER SET utf16, note LONGTEXT,
  fixed BINARY(8), bytes VARBINARY(20), blobs BLOB, kind ENUM('a', 'é', 'c,d'), kinds SET('x', 'y', 'z'),
  doc JSON, place GEOMETRY, PRIMARY KEY (id, word)
)"""
FULL = """
INSERT INTO every VALUES (
  %s, %s, -128, 7, -32768, 16777215, -2147483648, -9223372036854775808, 18446744073709551615,
  -0.10, 0.000000000000000000000000000001, 12345678901234567890123456789012345.000000000000000000000000000001,
  0.1, 0.1, 257, 18446744073709551615,
  '2024-02-29', '0099-01-02 03:04:05.000600', '1970-01-01 00:00:01', '2024-02-29 23:59:59.120', '-00:00:01.50', 2155,
  'ab  ', 'café', '中文', '≒ ?', 'ž', '猫', 'a,b:c\\n',
  x'6100', x'00ff20', x'', 'é', 'x,z',
  '{"a": [1, 2.5, "é", null, true], "b": 1e20, "c": 0.1}', ST_GeomFromText('POINT(1.5 -2)', 4326))"""


FLIPPED = {
    "t": "t + 1", "u": "u + 1", "s": "s + 1", "m": "m - 1", "i": "i + 1", "b": "b + 1", "bu": "bu - 1",
    "d": "d + 0.01", "tiny": "cast('0.000000000000000000000000000002' AS DECIMAL(38,30))",
    "wide": "concat('1', wide)", "f": "cast('0.10000001' AS FLOAT)",
    "g": "0.30000000000000004D", "bits": "bits - 1", "bits64": "bits64 - 1", "day": "date_add(day, 1)",
    "moment": "moment + INTERVAL 1 MICROSECOND", "plain": "plain + INTERVAL 1 MICROSECOND",
    "at": "at + INTERVAL 1 MILLISECOND", "clock": "'-00:00:01.51'", "y": "y - 1S", "c": "'ab '", "latin": "'cafe'",
    "chinese": "'中'", "japanese": "'≒ !'", "central": "'z'", "wide_text": "'犬'", "note": "NULL", "fixed": "X'61'",
    "bytes": "X'00ff21'", "blobs": "NULL", "kind": "'a'", "kinds": "'x,y'", "doc": "replace(doc, '2.5', '2.25')",
    "place": "named_struct('srid', 0, 'wkb', place.wkb)",
}  # fmt: skip
"""Another value of each column's, as Spark's SQL."""


def verified(shop: Shop, *tables: str, **keys: object) -> dict[str, Verdict]:
    """Verdicts by table."""
    pipeline = shop.pipeline(live=True, **keys)
    is_wanted = (lambda name: name.table in tables) if tables else None
    return {verdict.table.table: verdict for verdict in verify_source(shop.spark, pipeline, SOURCE, is_wanted)}


def downstream(shop: Shop, table: str) -> Table:
    return lake_of(shop.pipeline(live=True)).downstream(shop.database.name, table)


def damage(shop: Shop, statement: str, table: str) -> None:
    """Changes the lake's rows behind the pipeline's back."""
    shop.spark.sql(statement.format(downstream(shop, table).sql))


def test_every_type_is_equal_and_one_flipped_value_of_it_is_found(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "spark_jobs.checks.verify")
    shop.execute("SET SESSION sql_mode = ''", EVERY_TYPE)
    flipped = {100 + at: name for at, name in enumerate(FLIPPED)}
    for key in [(1, "a"), (2, "A"), *((at, "flip") for at in flipped)]:
        shop.database.execute(FULL, key)
    shop.execute(
        "INSERT INTO every (id, word) VALUES (3, ''), (3, ',5:')",
        "INSERT INTO every (id, word, day, moment, plain, at, y) VALUES"
        " (4, 'zero', '0000-00-00', '2024-00-10 01:02:03.5', '0000-00-00 00:00:00', '0000-00-00 00:00:00', 0)",
        "INSERT INTO every (id, word, f, g) VALUES (5, 'floats', -0e0, 1e-300), (6, 'floats', 3.4e38, -1.7e308)",
        "INSERT INTO every (id, word, central) VALUES (7, 'no text', _cp1250 x'6181')",
        "INSERT INTO every (id, word, japanese) VALUES (8, 'twice in the set', _cp932 x'8790203f')",
        "INSERT INTO every (id, word, kind, day, plain) VALUES (9, 'no label', 'none', '0000-05-05', '0000-05-05')",
        "INSERT INTO every (id, word, blobs, note) VALUES (10, 'long', REPEAT('b', 65000), REPEAT('ä', 40000))",
    )
    verdict = verified(shop)["every"]
    assert (verdict.state, *verdict.lines(values=True)) == ("equal",)
    assert verdict.source_rows == verdict.lake_rows == verdict.equal == len(flipped) + 11
    assert "1 of 64 buckets differ" in caplog.text, "that of the row whose bytes are no text, and of no other"

    cases = ", ".join(f"{name} = IF(id = {at}, {FLIPPED[name]}, {name})" for at, name in flipped.items())
    damage(
        shop,
        f"UPDATE {{}} SET {cases}, _raw = CASE id WHEN 4 THEN map_concat(map('day', '0000-00-01'), "
        "map_filter(_raw, (k, v) -> k <> 'day')) WHEN 7 THEN map('central', '6183') ELSE _raw END",
        "every",
    )
    damage(shop, "UPDATE {} SET note = repeat('ö', 40000) WHERE id = 10", "every")
    verdict = verified(shop)["every"]
    assert (verdict.state, verdict.missing, verdict.extra) == ("differs", 0, 0)
    unlike = {int(difference.key["id"]): difference.columns for difference in verdict.differences}
    assert {at: [*columns] for at, columns in unlike.items()} == {
        **{at: [name] for at, name in flipped.items()}, 4: ["day"], 7: ["central"], 10: ["note"],
    }  # fmt: skip
    assert unlike[4] == {"day": ("0000-00-00", "0000-00-01")}
    assert unlike[7] == {"central": ("bytes 6181", "bytes 6183")}
    assert [str(text)[:23] for text in unlike[10]["note"]] == ["80000 bytes, SHA-256 e4", "80000 bytes, SHA-256 0f"]
    by_name = {name: unlike[at][name] for at, name in flipped.items()}
    assert by_name["f"] == ("0.1", "0.10000001")
    assert by_name["fixed"] == ("0x6100000000000000", "0x61")
    assert by_name["blobs"] == ("0x", None)
    assert by_name["moment"][1] == "0099-01-02 03:04:05.000601"


def test_no_session_is_made_where_no_row_differs(shop: Shop) -> None:
    """Tables with a key, with one of text, without one, and one that the log dropped; on both sides as before."""
    shop.execute(
        "CREATE TABLE keyed (id INT PRIMARY KEY, n INT)",
        "CREATE TABLE named (name VARCHAR(20) PRIMARY KEY, doc JSON)",
        "CREATE TABLE bag (id INT)",
        "CREATE TABLE gone (id INT PRIMARY KEY)",
        "INSERT INTO keyed VALUES (1, 1), (2, 2)",
        "INSERT INTO gone VALUES (1), (2), (3)",
        "INSERT INTO named VALUES ('ä', '{}'), ('b ', NULL)",
        "INSERT INTO bag VALUES (1), (1), (2)",
    )
    verified(shop)
    shop.execute("DROP TABLE gone")
    verified(shop)
    started = list[bool]()

    def make() -> SparkSession:
        started.append(threading.current_thread() is threading.main_thread())
        return shop.spark

    pipeline = shop.pipeline(live=True)
    verdicts = verify_source(lazy_session(make), pipeline, SOURCE)
    states = {verdict.table.table: (verdict.state, verdict.lake_rows) for verdict in verdicts}
    assert states == {"keyed": ("equal", 2), "named": ("equal", 2), "bag": ("equal", 3), "gone": ("dropped", 3)}
    assert started == []
    # Texts of rows that differ are Spark's.
    damage(shop, "UPDATE {} SET n = 3 WHERE id = 2", "keyed")
    verdicts = verify_source(lazy_session(make), pipeline, SOURCE)
    assert [verdict.table.table for verdict in verdicts if verdict.state == "differs"] == ["keyed"]
    assert started == [True], "once, and by the thread that is interrupted"


def test_rows_of_silver_are_read_only_where_its_table_moved_meanwhile(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.execute("CREATE TABLE still (id INT PRIMARY KEY, n INT)", "INSERT INTO still VALUES (1, 1), (2, 2)")
    verified(shop)
    damage(shop, "UPDATE {} SET n = 3 WHERE id = 2", "still")
    asked = list[str]()
    changed_since = SilverRows.changed_since

    def counted(rows: SilverRows, keys: Collection[bytes], since: Position) -> set[bytes]:
        asked.append(rows.table.path)
        return changed_since(rows, keys, since)

    monkeypatch.setattr(SilverRows, "changed_since", counted)
    verdict = verified(shop)["still"]
    assert (verdict.state, verdict.different, asked) == ("differs", 1, [])

    def moved(rows: ServerRows, keys: KeySet) -> dict[bytes, list[Values]]:
        if not asked:
            shop.execute("UPDATE still SET n = 4 WHERE id = 1")
        return values_of(rows, keys)

    values_of = ServerRows.values_of
    monkeypatch.setattr(ServerRows, "values_of", moved)
    verdict = verified(shop)["still"]
    assert (verdict.state, verdict.different, len(asked)) == ("differs", 1, 1)


@pytest.mark.thorough
def test_base64_with_line_ends_and_bytes_without_a_character_are_equal(shop: Shop) -> None:
    shop.execute(
        "CREATE TABLE odd (id INT PRIMARY KEY, doc JSON, thai VARCHAR(9) CHARACTER SET tis620)",
        "INSERT INTO odd VALUES (1, JSON_OBJECT('b', CAST(REPEAT('x', 200) AS BINARY)), _tis620 x'ff'),"
        " (2, JSON_ARRAY('a', CAST(REPEAT('y', 58) AS BINARY), 1.0), _tis620 x'a1ff'), (3, '[]', _tis620 x'a1a2')",
    )
    verdict = verified(shop)["odd"]
    assert (verdict.state, *verdict.lines(values=True)) == ("equal",)
    damage(shop, "UPDATE {} SET doc = replace(doc, 'eHh4', 'eXh4') WHERE id = 1", "odd")
    damage(shop, "UPDATE {} SET thai = '?', _raw = NULL WHERE id = 2", "odd")
    verdict = verified(shop)["odd"]
    assert [(difference.key["id"], [*difference.columns]) for difference in verdict.differences] == [
        ("1", ["doc"]),
        ("2", ["thai"]),
    ]


@pytest.mark.thorough
def test_a_table_that_is_altered_while_it_is_compared_is_compared_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)", "INSERT INTO t VALUES (1, 1)")
    results, walks = ServerRows._results, []
    monkeypatch.setattr(server_rows, "_SMALL", -1)  # from a task of Spark an error's cause does not come back

    def altering(rows: ServerRows, *arguments: Any) -> Iterator[Any]:
        walks.append(rows)
        if len(walks) == 1:
            selecting = rows._selecting(arguments[0])
            monkeypatch.setattr(rows, "_selecting", lambda _: selecting)
            shop.execute("ALTER TABLE t DROP COLUMN n")
        return results(rows, *arguments)

    monkeypatch.setattr(ServerRows, "_results", altering)
    verdict = verified(shop)["t"]
    assert (verdict.state, verdict.reason, len(walks)) == ("equal", None, 2)


@pytest.mark.thorough
def test_only_rows_with_changes_since_are_compared(shop: Shop) -> None:
    def verified_since(since: str) -> Verdict:
        (verdict,) = verify_source(shop.spark, shop.pipeline(live=True), SOURCE, since=since)
        return verdict

    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)", "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (4, 4)")
    complete = verified_since(LAST)
    assert (complete.state, complete.source_rows, complete.changes_since) == ("equal", 4, None), (
        "nothing was compared before"
    )
    shop.execute("UPDATE t SET n = 20 WHERE id = 2", "DELETE FROM t WHERE id = 3", "INSERT INTO t VALUES (5, 5)")
    damage(shop, "UPDATE {} SET n = 10 WHERE id = 1", "t")
    changed = verified_since(LAST)
    assert (changed.state, changed.source_rows, changed.changes_since) == ("equal", 3, complete.position)
    last = read(lake_of(shop.pipeline(live=True)), SOURCE)[str(complete.table)]
    assert (last.position, last.equal_to) == (str(complete.position), changed.position)

    shop.execute("UPDATE t SET n = 40 WHERE id = 4")
    damage(shop, "DELETE FROM {} WHERE id = 5", "t")
    third = verified_since(LAST)
    assert (third.state, third.source_rows, third.changes_since) == ("equal", 1, changed.position)
    damage(shop, "UPDATE {} SET n = 41 WHERE id = 4", "t")
    damaged = verified_since(str(changed.position))
    assert (damaged.state, damaged.different, damaged.missing) == ("differs", 1, 0)
    assert [difference.key for difference in damaged.differences] == [{"id": "4"}]
    complete = verified_since(LAST)
    assert (complete.changes_since, complete.different, complete.missing) == (None, 2, 1), "it is not known to be equal"
    shop.execute("TRUNCATE t", "INSERT INTO t VALUES (1, 1)")
    emptied = verified_since(str(changed.position))
    assert (emptied.state, emptied.source_rows, emptied.changes_since) == ("equal", 1, None)


@contextmanager
def writing(shop: Shop) -> Iterator[None]:
    """Somebody who changes one row all the time, others now and then, and makes and removes rows."""
    stop = threading.Event()

    def write() -> None:
        with shop.database.server.connect() as connection, connection.cursor() as cursor:
            connection.select_db(shop.database.name)
            for n in count():
                if stop.wait(0.02):
                    return
                cursor.execute("UPDATE orders SET price = price + 0.01 WHERE code = 'hot'")
                cursor.execute("UPDATE orders SET price = price + 1 WHERE code = %s", (f"Ä{n * 7 % 2000}",))
                cursor.execute("INSERT INTO orders VALUES (%s, 1.5, NULL)", (f"new{n}",))
                cursor.execute("DELETE FROM orders WHERE code = %s", (f"NEW{n - 3}",))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()


@pytest.mark.long
def test_differences_are_found_by_key_while_others_write_and_nothing_else_is(shop: Shop) -> None:
    shop.execute(
        "CREATE TABLE orders (code VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, price DECIMAL(10,2), note TEXT)"
    )
    rows = ", ".join(f"('Ä{n}', {n}.5, 'note {n}')" for n in range(3000))
    shop.execute(f"INSERT INTO orders VALUES {rows}, ('hot', 0, '')")
    with writing(shop):
        verdict = verified(shop)["orders"]
        assert (verdict.state, *verdict.lines(values=True), *verdict.remarks()) == ("equal",)
        damage(shop, "UPDATE {} SET price = price + 0.01 WHERE code = 'Ä2500'", "orders")
        damage(shop, "DELETE FROM {} WHERE code = 'Ä2600'", "orders")
        damage(
            shop,
            "INSERT INTO {} SELECT 'ä2600', price, note, _position, _committed_at, _raw FROM {}"
            " WHERE code = 'Ä2700'".replace("FROM {}", f"FROM {downstream(shop, 'orders').sql}"),
            "orders",
        )
        verdict = verified(shop)["orders"]
    assert (verdict.state, verdict.missing, verdict.extra, verdict.different, verdict.changing) == (
        "differs",
        1,
        1,
        1,
        0,
    )
    assert sorted(verdict.lines(values=True)) == [
        f"{shop.database.name}.orders different code=Ä2500: price is 2500.51 and should be 2500.50",
        f"{shop.database.name}.orders extra code=ä2600",
        f"{shop.database.name}.orders missing code=Ä2600",
    ]


@pytest.mark.long
def test_what_is_older_than_the_log_or_cannot_be_compared_is_told_apart(shop: Shop) -> None:
    shop.execute(
        "CREATE TABLE old (id INT PRIMARY KEY, n INT)",
        "INSERT INTO old VALUES (1, 1), (2, 2), (3, 3)",
        "CREATE TABLE unheard LIKE old",
        "INSERT INTO unheard VALUES (1, 1), (2, 2)",
    )
    shop = replace(shop, start=shop.end())
    shop.execute(
        "UPDATE old SET n = 20 WHERE id = 2",
        "INSERT INTO old VALUES (4, 4), (5, 5)",
        "CREATE TABLE young (id INT PRIMARY KEY, n INT)",
        "INSERT INTO young VALUES (1, 1), (2, 2)",
        "CREATE TABLE blank LIKE young",
        "CREATE TABLE gone LIKE young",
        "INSERT INTO gone VALUES (1, 1)",
        "CREATE TABLE bag (n INT)",
        "INSERT INTO bag VALUES (1), (1)",
        "CREATE TABLE `unique` (n INT, s VARCHAR(9) NOT NULL, UNIQUE (s), UNIQUE (n))",
        "INSERT INTO `unique` VALUES (1, 'a'), (NULL, 'b')",
        "CREATE TABLE stuck LIKE young",
        "INSERT INTO stuck VALUES (1, 1)",
        "ALTER TABLE stuck MODIFY n SMALLINT",
        "CREATE VIEW seen AS SELECT 1",
    )
    verdicts = verified(shop)
    assert "seen" not in verdicts
    assert {
        name: (verdict.state, verdict.source_rows, verdict.lake_rows, verdict.older, verdict.missing)
        for name, verdict in verdicts.items()
    } == {
        "bag": ("equal", 2, 2, 0, 0),
        "unique": ("equal", 2, 2, 0, 0),
        "blank": ("equal", 0, 0, 0, 0),
        "gone": ("equal", 1, 1, 0, 0),
        "old": ("equal", 5, 3, 2, 0),
        "stuck": ("not compared", 0, 0, 0, 0),
        "unheard": ("equal", 2, 0, 2, 0),
        "young": ("equal", 2, 2, 0, 0),
    }
    assert "ALTER TABLE at" in str(verdicts["stuck"].reason)
    assert not verdicts["stuck"].is_right

    for table in ("old", "young"):
        damage(shop, "DELETE FROM {} WHERE id = 2", table)
    shop.execute("DROP TABLE gone", "ALTER TABLE young ADD COLUMN more INT DEFAULT 5")
    verdicts = verified(shop, "old", "young", "gone")
    assert {
        name: (verdict.state, verdict.older, verdict.missing, verdict.lake_rows) for name, verdict in verdicts.items()
    } == {
        "gone": ("dropped", 0, 0, 1),
        "old": ("differs", 2, 1, 2),
        "young": ("differs", 0, 1, 1),
    }
    assert verdicts["gone"].is_right
    assert [difference.key for difference in verdicts["old"].differences] == [{"id": "2"}]


@pytest.mark.long
def test_types_of_mariadb(spark: SparkSession, servers: Servers, tmp_path: Path) -> None:
    server = servers.get("mariadb-11.4")
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        start = "{}:{}".format(*cursor.fetchall()[0][:2])
        cursor.execute("CREATE DATABASE verify_it")
        cursor.execute(
            "CREATE TABLE verify_it.t (id UUID PRIMARY KEY, v4 INET4, v6 INET6, f FLOAT, g DOUBLE, j JSON, p POINT, "
            "at TIMESTAMP(6) NULL, c VARCHAR(100) COMPRESSED CHARACTER SET latin2, e ENUM('ž', 'y'))"
        )
        for n in range(3):
            cursor.execute(
                "INSERT INTO verify_it.t VALUES (UUID(), '192.0.2.1', '2001:db8::1', 0.1, 1e-5, '{\"a\": 1}', "
                "POINT(1, 2), '2024-01-02 03:04:05.678', REPEAT('ž', 50), %s)",
                (n + 1 if n < 2 else None,),
            )
    login = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
    document = {"lake": "./lake", "sources": {SOURCE: {"mysql": login, "start": start}}, "tables": ["verify_it.*"]}
    (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    pipeline = load(tmp_path / "pipeline.yaml")
    (verdict,) = verify_source(spark, pipeline, SOURCE)
    assert (verdict.state, verdict.reason, *verdict.lines(values=True)) == ("equal", None)
    table = lake_of(pipeline).downstream("verify_it", "t")
    spark.sql(f"UPDATE {table.sql} SET v6 = '2001:db8::2' WHERE e = 'y'")
    (verdict,) = verify_source(spark, pipeline, SOURCE)
    assert [difference.columns for difference in verdict.differences] == [{"v6": ("2001:db8::1", "2001:db8::2")}]
