import pickle

import pytest

from spark_jobs.bronze.redaction import Redaction


def rule(*patterns: str) -> Redaction:
    redaction = Redaction.of(patterns)
    assert redaction
    return redaction


def test_the_last_pattern_that_matches_decides_and_none_is_no_rule() -> None:
    redaction = rule("hr.*", "!hr.public", "shop.secrets")
    assert [redaction.holds("hr", "pay"), redaction.holds("hr", "public"), redaction.holds("shop", "orders")] == [
        True,
        False,
        False,
    ]
    assert pickle.loads(pickle.dumps(redaction)) == redaction  # noqa: S301 - it goes to Spark's tasks
    assert Redaction.of(()) is None


def test_the_tables_by_which_tools_change_one_are_among_them() -> None:
    redaction = rule("shop.secrets")
    assert [redaction.holds("shop", name) for name in ("_secrets_gho", "_secrets_new", "__secrets_old")] == [True] * 3
    assert not redaction.holds("shop", "_orders_gho")


@pytest.mark.parametrize(
    "text, verb",
    [
        ("INSERT INTO t VALUES ('x')", "INSERT"),
        ("update t set a = 1", "UPDATE"),
        ("DELETE FROM t WHERE a = 'x'", "DELETE"),
        ("WITH c AS (SELECT 1) UPDATE t, c SET a = 1", "WITH"),
        ("CALL p('x')", "CALL"),
    ],
)
def test_statements_that_change_rows_are_refused(text: str, verb: str) -> None:
    reason = rule("a.b").refusal(text, "shop")
    assert reason
    assert reason.startswith(f"{verb} in statement format: the source redacts tables (redact:)")


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE t ADD c INT",
        "TRUNCATE TABLE t",
        "DELETE FROM `shop`.`t`",
        "XA START 'x'",
        "ROLLBACK",
        "GRANT SELECT ON *.* TO u",
    ],
)
def test_statements_without_rows_stay(text: str) -> None:
    assert rule("a.b").refusal(text, "shop") is None
