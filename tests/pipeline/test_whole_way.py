"""From a server's log to merged tables: what the server says is what downstream has."""

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.bronze.export import export
from spark_jobs.lake.layout import lake_of
from spark_jobs.runtime import spark_session
from tests.fix_pipeline import SOURCE, Shop, rows

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

CREATE = "CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR(20), price DECIMAL(10,2), made DATETIME(6))"


@pytest.mark.by_spark
@pytest.mark.parametrize(
    "live, compiled_from",
    [pytest.param(True, 1 << 20, id="live"), pytest.param(False, 0, id="files, as in a large window")],
)
def test_inserts_updates_deletes_and_key_changes_arrive(
    shop: Shop, live: bool, compiled_from: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_session, "_COMPILED_FROM", compiled_from)
    pipeline = shop.pipeline(live=live)
    shop.execute(
        CREATE,
        "INSERT INTO item VALUES (1,'a',0.10,'2024-01-01'),(2,NULL,NULL,NULL),(3,'ü',-3.5,'1969-12-31 23:59:59.5')",
    )
    extracted, outcome = shop.run(pipeline)
    assert extracted.head.position == shop.end()
    assert outcome.stopped == {}
    assert shop.merged(pipeline, "item") == shop.truth("item")
    shop.execute(
        "UPDATE item SET name = 'b' WHERE id = 2",
        "DELETE FROM item WHERE id = 1",
        "UPDATE item SET id = 9 WHERE id = 3",
        "INSERT INTO item VALUES (1,'again',1,NULL)",
    )
    _, outcome = shop.run(pipeline)
    (compacted,) = outcome.compacted
    assert (compacted.inserts, compacted.updates, compacted.deletes, compacted.changes) == (1, 2, 1, 4)
    assert shop.merged(pipeline, "item") == shop.truth("item")


def test_documents_shapes_and_text_of_any_set_arrive(shop: Shop) -> None:
    pipeline = shop.pipeline()
    shop.execute(
        "CREATE TABLE place (id INT PRIMARY KEY, doc JSON, at GEOMETRY, name VARCHAR(20) CHARSET big5, bits BIT(64))",
        """INSERT INTO place VALUES (2, NULL, NULL, NULL, 1),
           (1, '{"b": [1, 2.5, null, "ü"], "a": {}}', ST_GeomFromText('POINT(1 2)', 4326), '中文', ~0)""",
        "UPDATE place SET doc = JSON_SET(doc, '$.b[0]', 'one') WHERE id = 1",
    )
    shop.run(pipeline)
    shop.execute("UPDATE place SET at = ST_GeomFromText('LINESTRING(0 0, 1 1)') WHERE id = 2")
    shop.run(pipeline)
    truth = shop.database.execute(
        "SELECT id, CAST(doc AS CHAR), ST_SRID(at), ST_AsWKB(at, 'axis-order=long-lat'), CONVERT(name USING utf8mb4), "
        "bits + 0 FROM place"
    )
    merged = [
        (id_, doc, at and at["srid"], at and bytes(at["wkb"]), name, bits)
        for id_, doc, at, name, bits in shop.merged(pipeline, "place")
    ]
    assert merged == sorted(truth)


def test_a_run_that_finds_nothing_new_commits_nothing(shop: Shop) -> None:
    pipeline = shop.pipeline()
    shop.execute(CREATE, "INSERT INTO item VALUES (1,'a',1,NULL)")
    shop.run(pipeline)
    lake = lake_of(pipeline)
    tables = [lake.bronze(SOURCE), lake.silver(SOURCE, shop.database.name, "item"), lake.published()]
    before = [table.head() for table in tables]
    extracted, outcome = shop.run(pipeline)
    assert (extracted.bytes, outcome.compacted, outcome.merged) == (0, [], [])
    assert [table.head() for table in tables] == before


def test_a_key_changed_deleted_and_inserted_again_over_several_windows(shop: Shop) -> None:
    pipeline = shop.pipeline()
    shop.execute("CREATE TABLE t (k VARCHAR(10), n INT, v INT, PRIMARY KEY (k, n)) CHARSET utf8mb4")
    rounds = [
        ["INSERT INTO t VALUES ('a',1,1),('b',1,2),('c',1,3)"],
        ["UPDATE t SET k='A' WHERE k='a'", "UPDATE t SET n=2 WHERE k='b'"],
        ["DELETE FROM t WHERE k='b'", "INSERT INTO t VALUES ('b',2,20)", "DELETE FROM t WHERE k='A'"],
        ["INSERT INTO t VALUES ('a',1,100)", "UPDATE t SET n=7 WHERE k='c'", "UPDATE t SET n=1 WHERE k='c'"],
        [
            "BEGIN",
            "UPDATE t SET n=9 WHERE k='a'",
            "UPDATE t SET k='a2' WHERE k='b'",
            "UPDATE t SET k='b', n=5 WHERE k='a'",
            "COMMIT",
        ],
    ]
    for statements in rounds:
        shop.execute(*statements)
        shop.run(pipeline)
        assert shop.merged(pipeline, "t") == shop.truth("t")
    assert len({row["_window_start"] for row in shop.silver(pipeline, "t")}) == len(rounds)


def test_a_table_first_seen_in_the_middle_is_taken_at_once_and_listed(shop: Shop) -> None:
    pipeline = shop.pipeline()
    shop.execute(CREATE, "INSERT INTO item VALUES (1,'a',1,NULL)")
    shop.run(pipeline)
    shop.execute("CREATE TABLE late (id BIGINT UNSIGNED PRIMARY KEY)", "INSERT INTO late VALUES (18446744073709551615)")
    _, outcome = shop.run(pipeline)
    assert outcome.new == {(SOURCE, shop.database.name, "late")}
    assert shop.merged(pipeline, "late") == shop.truth("late")
    assert '"late"' in pipeline.tables_file.read_text(encoding="utf-8")


def test_rolled_back_rows_never_arrive_and_filtered_tables_have_no_silver(shop: Shop) -> None:
    pipeline = shop.pipeline(tables=[f"{shop.database.name}.*", f"!{shop.database.name}.audit_*"])
    shop.execute(CREATE, "CREATE TABLE audit_log (id INT PRIMARY KEY)", "INSERT INTO audit_log VALUES (1)")
    shop.execute("BEGIN", "INSERT INTO item VALUES (1,'no',1,NULL)", "ROLLBACK")
    shop.execute(
        "BEGIN", "INSERT INTO item VALUES (2,'yes',1,NULL)", "SAVEPOINT s", "INSERT INTO item VALUES (3,'no',1,NULL)"
    )
    shop.execute("ROLLBACK TO s", "COMMIT")
    shop.run(pipeline)
    assert [row[0] for row in shop.merged(pipeline, "item")] == [2]
    assert lake_of(pipeline).silver(SOURCE, shop.database.name, "audit_log").head() is None


def test_a_table_that_comes_into_scope_later_is_merged_from_the_log_s_beginning(shop: Shop) -> None:
    narrow = shop.pipeline(tables=[f"{shop.database.name}.item"])
    shop.execute(
        CREATE,
        "CREATE TABLE other (id INT PRIMARY KEY)",
        "INSERT INTO other VALUES (1),(2)",
        "INSERT INTO item VALUES (1,'a',1,NULL)",
    )
    shop.run(narrow)
    wide = shop.pipeline()
    shop.run(wide)
    assert shop.merged(wide, "other") == shop.truth("other")


def test_a_route_names_the_downstream_table(shop: Shop) -> None:
    pipeline = shop.pipeline(routes=[{"from": f"{shop.database.name}.item", "to": "warehouse.goods"}])
    shop.execute(CREATE, "INSERT INTO item VALUES (1,'a',1,NULL)")
    shop.run(pipeline)
    assert len(rows(lake_of(pipeline).downstream("warehouse", "goods"))) == 1


def test_columns_are_named_by_the_server_where_the_log_does_not(shop: Shop) -> None:
    pipeline = shop.pipeline(live=True)
    shop.execute("SET GLOBAL binlog_row_metadata = 'MINIMAL'")
    try:
        shop.execute(CREATE, "INSERT INTO item VALUES (1,'a',1.25,NULL)")
        _, outcome = shop.run(pipeline)
    finally:
        shop.execute("SET GLOBAL binlog_row_metadata = 'FULL'")
    assert outcome.stopped == {}
    assert shop.merged(pipeline, "item") == shop.truth("item")


@pytest.mark.parametrize("created_before", [False, True])
def test_names_come_from_the_log_s_own_create_and_are_not_guessed_without(shop: Shop, created_before: bool) -> None:
    shop.execute("SET GLOBAL binlog_row_metadata = 'MINIMAL'", *([CREATE] if created_before else []))
    pipeline = shop.pipeline(sources={SOURCE: {"files": str(shop.database.server.data), "start": str(shop.end())}})
    try:
        shop.execute(*([] if created_before else [CREATE]), "INSERT INTO item VALUES (1,'a',1.25,NULL)")
        _, outcome = shop.run(pipeline)
    finally:
        shop.execute("SET GLOBAL binlog_row_metadata = 'FULL'")
    if created_before:
        (reason,) = outcome.stopped.values()
        assert "the log does not name its columns (binlog_row_metadata is not FULL)" in reason
    else:
        assert outcome.stopped == {}
        assert shop.merged(pipeline, "item") == shop.truth("item")


def test_bronze_gives_the_server_s_files_back_byte_for_byte(shop: Shop) -> None:
    pipeline = shop.pipeline(sources={SOURCE: {"files": str(shop.database.server.data)}})
    shop.execute(
        CREATE, "INSERT INTO item VALUES (1,'a',1,NULL)", "FLUSH BINARY LOGS", "INSERT INTO item VALUES (2,'b',1,NULL)"
    )
    shop.execute("FLUSH BINARY LOGS")
    from spark_jobs.pipeline.run import extract_source

    extract_source(shop.spark, pipeline, SOURCE)
    files = list(export(shop.spark, lake_of(pipeline), SOURCE, shop.folder / "out"))
    assert len(files) >= 3
    for file in files[:-1]:  # the last file is open: its in-use flag is what a closed file has not
        assert file.path.read_bytes() == (shop.database.server.data / file.path.name).read_bytes()
    last, truth = files[-1].path.read_bytes(), (shop.database.server.data / files[-1].path.name).read_bytes()
    assert [at for at in range(len(last)) if last[at] != truth[at]] == [4 + 17]


CHANGES = {
    "altered": "ALTER TABLE altered ADD COLUMN more INT AUTO_INCREMENT UNIQUE",
    "narrowed": "ALTER TABLE narrowed MODIFY v SMALLINT",
}


def test_a_statement_that_is_not_applied_stops_its_table_alone(shop: Shop) -> None:
    pipeline = shop.pipeline()
    for table in (*CHANGES, "other"):
        shop.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {table} VALUES (1, 1)")
    shop.run(pipeline)
    shop.execute(*CHANGES.values(), "INSERT INTO other VALUES (5, 5)")
    _, outcome = shop.run(pipeline)
    reasons = {name.table: reason for name, reason in outcome.stopped.items()}
    assert reasons.keys() == CHANGES.keys()
    for table, statement in CHANGES.items():
        assert f"{table}: {' '.join(statement.split()[:2])} at " in reasons[table]
        assert shop.merged(pipeline, table) == [(1, 1)]
    assert shop.merged(pipeline, "other") == [(1, 1), (5, 5)]
    _, repeated = shop.run(pipeline)
    assert repeated.stopped.keys() == outcome.stopped.keys(), "they do not go on by themselves"


def test_rows_in_statement_format_stop_their_table(shop: Shop) -> None:
    pipeline = shop.pipeline()
    shop.execute(
        CREATE,
        "SET SESSION binlog_format = 'STATEMENT'",
        "INSERT INTO item VALUES (1,'a',1,NULL)",
        "SET SESSION binlog_format = 'ROW'",
    )
    shop.execute("INSERT INTO item VALUES (2,'a',1,NULL)")
    _, outcome = shop.run(pipeline)
    assert "statement format" in outcome.stopped[TableName(shop.database.name, "item")]
    assert lake_of(pipeline).downstream(shop.database.name, "item").head() is None
