"""The columns that the log led to, held against a server's."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.checks.schema_drift import SchemaAudit, audit_after_run, audit_schema
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import SourceError
from tests.fix_pipeline import SOURCE, Shop
from tests.twins.ddl_stream import KINDS

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

EVERY_KIND = ", ".join(f"c{at} {kind}" for at, (kind, _, _) in enumerate(KINDS))
MADE = (
    f"CREATE TABLE kinds (id INT UNSIGNED NOT NULL, {EVERY_KIND}, j JSON, g POINT, b LONGBLOB, PRIMARY KEY (id))",
    "CREATE TABLE plain (id INT PRIMARY KEY, `a,b` VARCHAR(20) CHARACTER SET latin1 NOT NULL, n INT)",
    "CREATE TABLE bag (v INT, w CHAR(3))",
    "CREATE TABLE pair (a BIGINT NOT NULL, b VARCHAR(9) NOT NULL, UNIQUE KEY (b, a))",
    "CREATE TABLE gone (id INT PRIMARY KEY)",
    "CREATE TABLE bare (id INT PRIMARY KEY)",
    "INSERT INTO kinds (id) VALUES (1)",
    "INSERT INTO plain VALUES (1, 'x', 1)",
    "INSERT INTO bag VALUES (1, 'a')",
    "INSERT INTO pair VALUES (1, 'a')",
    "INSERT INTO gone VALUES (1)",
)


def audited(pipeline: Pipeline) -> SchemaAudit:
    audit = audit_schema(pipeline, SOURCE)
    assert audit
    return audit


@contextmanager
def unlogged(shop: Shop) -> Iterator[None]:
    shop.execute("SET SESSION sql_log_bin = 0")
    try:
        yield
    finally:
        shop.execute("SET SESSION sql_log_bin = 1")


@pytest.mark.long
@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL"])
def test_the_followed_columns_are_the_server_s_until_it_changes_them_unlogged(shop: Shop, metadata: str) -> None:
    pipeline, schema = shop.pipeline(live=True), shop.database.name
    assert audited(pipeline).why_not == "bronze holds nothing yet"
    shop.execute(f"SET GLOBAL binlog_row_metadata = '{metadata}'")
    try:
        shop.execute(*MADE)
        _, outcome = shop.run(pipeline)
        assert outcome.stopped == {}
        audit = audited(pipeline)
        assert (audit.lines(), audit.waiting, audit.compared, audit.unknown) == ([], {}, 5, 1)
        shop.execute(
            "ALTER TABLE plain ADD note VARCHAR(30) CHARACTER SET utf8mb4 DEFAULT 'x' FIRST, MODIFY n BIGINT",
            "ALTER TABLE kinds DROP COLUMN c0, RENAME COLUMN c1 TO d1",
            "CREATE UNIQUE INDEX u ON bag (v)",
        )
        waiting = audited(pipeline).waiting
        assert {name.table for name in waiting} == {"plain", "kinds", "bag"}
        assert waiting[TableName(schema, "plain")].startswith("a statement after bronze's end changes it: ALTER TABLE")
        shop.run(pipeline)
        audit = audited(pipeline)
        assert (audit.lines(), audit.waiting, audit.compared) == ([], {}, 5)
        with unlogged(shop):
            shop.execute(
                "ALTER TABLE plain MODIFY `a,b` VARCHAR(21) CHARACTER SET utf8mb4, DROP COLUMN note",
                "ALTER TABLE pair ADD PRIMARY KEY (a)",
                "DROP TABLE gone",
            )
        audit = audited(pipeline)
        was, now = "varchar(20) (type 15, 20)", "varchar(21) (type 15, 84)"
        assert audit.lines() == [
            f"{schema}.gone: the server does not have it",
            f"{schema}.pair: the key is (b, a), on the server (a)",
            f"{schema}.plain: column note: the server does not have it",
            f"{schema}.plain: column a,b: is followed as {was}, and the server declares {now}",
            f"{schema}.plain: column a,b: is followed as NOT NULL, and the server declares NULL",
            f"{schema}.plain: column a,b: is followed in latin1, and the server declares utf8mb4",
        ]
        assert str(audit) == ("columns and keys of tables: 2 as the server declares, 3 different, 1 without rows")
    finally:
        shop.execute("SET GLOBAL binlog_row_metadata = 'FULL'")


def test_a_log_that_is_far_ahead_or_a_server_that_is_away_lets_nothing_be_compared(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = shop.pipeline(live=True)
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    shop.run(pipeline)
    with unlogged(shop):
        shop.execute("ALTER TABLE t ADD note TEXT")
    assert audited(pipeline).lines() == [f"{shop.database.name}.t: column note: only the server has it"]
    shop.execute("INSERT INTO t VALUES (2, '')")
    monkeypatch.setattr("spark_jobs.checks.schema_drift.MOST_AHEAD", 100)
    audit = audited(pipeline)
    assert audit.compared == 0
    assert str(audit).startswith("columns are not compared with the server's: bronze is ")

    def away(*_: object) -> None:
        raise SourceError(f"{SOURCE}: nobody answers")

    monkeypatch.setattr("spark_jobs.checks.schema_drift.on_server", away)
    with pytest.raises(SourceError, match="nobody answers"):
        audit_schema(pipeline, SOURCE)
    after = audit_after_run(pipeline, SOURCE)
    assert after
    assert after.why_not == "nobody answers"


def test_a_source_of_files_has_no_server_to_ask(shop: Shop) -> None:
    assert audit_schema(shop.pipeline(), SOURCE) is None
