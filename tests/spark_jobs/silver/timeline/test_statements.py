import pytest

from spark_jobs.ddl.classify import classify
from spark_jobs.errors import TableStopped
from spark_jobs.silver.table_timeline import TableState
from tests.binlogs.timelines import BARE, NUMBERED, OFTEN_UNNAMED, UNNAMED, keyed, listing, steps


@pytest.mark.parametrize(
    "statement, reason",
    [
        ("RENAME TABLE T TO u", "names shop.T; whether that is shop.t is not in the log"),
        ("ALTER TABLE u EXCHANGE PARTITION p WITH TABLE t", "changes the table, which is not applied yet"),
        (
            "ALTER TABLE t MODIFY v SMALLINT",
            "does not keep every value of column v: the table was (id int, v int) and is (id int, v smallint)",
        ),
        (
            "ALTER TABLE t ADD u DATETIME DEFAULT NOW()",
            (
                "changes the table, which is not applied: what rows written before column u have in it is not in the "
                "log (its default: NOW ( )): it is no constant"
            ),
        ),
        (
            "ALTER TABLE t ADD u TIMESTAMP",
            (
                "does not say what rows written before column u have in it: that depends on the server's "
                "explicit_defaults_for_timestamp; add it with NULL or NOT NULL and a DEFAULT"
            ),
        ),
        ("ALTER TABLE t MODIFY v INT NOT NULL", "may have changed NULL in column v: its session was not strict"),
        ("DROP TABLE T", "names shop.T; whether that is shop.t is not in the log"),
        ("TRUNCATE TABLE Shop.t", "names Shop.t; whether that is shop.t is not in the log"),
        (
            "DROP DATABASE SHOP",
            "names the schema shop in other letters; whether it is, is not in the log",
        ),
        (
            "INSERT INTO t VALUES (1)",
            "changes rows in statement format, which says what was asked, not what happened",
        ),
        (
            "SELECT `shop`.`f`()",
            ("runs a routine, logged in statement format: which rows of which tables it changed, it does not say"),
        ),
        (
            "ROLLBACK",
            "undoes a part of the rows that were logged before it; which of them stay is not in the log",
        ),
    ],
)
def test_what_cannot_be_carried_out_is_said_with_its_place(statement: str, reason: str) -> None:
    with pytest.raises(TableStopped) as stopped:
        steps((500, statement), last=400)
    verb = classify(statement, "shop").verb
    assert str(stopped.value) == f"{verb} at b.000001:500 {reason}: {classify(statement, 'shop').short}"


@pytest.mark.parametrize(
    "statement, index",
    [
        ("DROP INDEX other ON t", "u"),
        ("DROP INDEX u ON other", "u"),
        ("ALTER TABLE other DROP INDEX u, ADD FOREIGN KEY (a) REFERENCES t (id)", "u"),
        ("DROP INDEX u ON t", "PRIMARY"),
        ("DROP INDEX u ON t", None),
        ("CREATE UNIQUE INDEX u ON t (v)", "v"),
        ("ALTER TABLE t DROP INDEX v", "u"),
    ],
)
def test_an_index_that_tells_no_rows_apart_changes_nothing(statement: str, index: str | None) -> None:
    state = TableState(keyed(0, index=index))
    assert listing(steps((500, statement), maps=((100, UNNAMED),), state=state, rules=OFTEN_UNNAMED)) == [
        "10-1000 id,v"
    ]
    assert steps((500, statement), maps=(), state=state) == []


def test_a_table_that_a_statement_makes_and_fills_stops() -> None:
    with pytest.raises(TableStopped, match="fills the table in statement format"):
        steps((50, "CREATE TABLE t AS SELECT * FROM u"), maps=((100, BARE),), rules=NUMBERED)
