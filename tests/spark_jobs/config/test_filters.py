import re

import pytest

from spark_jobs.config.filters import (
    STATEMENTS,
    Action,
    ColumnRule,
    EventFilter,
    Filters,
    Mask,
    TableFilters,
    problem_of_events,
)
from spark_jobs.config.table_patterns import Scope
from spark_jobs.errors import ConfigError


def event(action: Action, *events: str, name: str = "r", tables: str = "*.*", sql: tuple[str, ...] = ()) -> EventFilter:
    return EventFilter(
        name, Scope.parse([tables]), events, tuple(re.compile(pattern, re.IGNORECASE) for pattern in sql), action
    )


@pytest.mark.parametrize(
    "rule, left_out",
    [
        (event("ignore", "delete"), {"delete"}),
        (event("ignore", "all dml"), {"insert", "update", "delete"}),
        (event("ignore", "none dml", "all"), set(STATEMENTS)),
        (event("ignore", "truncate", "drop schema"), {"truncate table", "drop database"}),
        (event("do", "insert", "all ddl"), {"update", "delete"}),
        (event("do", "all"), set()),
        (event("do", "none"), {"insert", "update", "delete", *STATEMENTS}),
        (event("stop", "all ddl"), set()),
    ],
)
def test_which_events_a_rule_leaves_out(rule: EventFilter, left_out: set[str]) -> None:
    assert {
        logged_event for logged_event in ("insert", "update", "delete", *STATEMENTS) if rule.leaves_out(logged_event)
    } == left_out


def test_a_statement_is_judged_by_its_text_too() -> None:
    rules = TableFilters((event("ignore", "drop table", sql=("nightly", "^truncate a")),))
    assert rules.statement("truncate table", "TRUNCATE /* Nightly */ b") == ("filters.r", "ignore")
    assert rules.statement("truncate table", "TRUNCATE b") is None
    assert rules.statement("drop table", "DROP TABLE b") == ("filters.r", "ignore")


def test_rules_of_one_table_case_33() -> None:
    """Rules side by side, each about its own tables; a do-rule leaves out what it does not list."""
    rules = Filters(
        (
            event(
                "ignore", "delete", "insert", "create index", name="x", tables="Test_1_*.abc*", sql=("^DROP\\s+PROC",)
            ),
            event("ignore", "all dml", name="y", tables="xxx_*.abc_*"),
            event("do", "all dml", name="z", tables="yyy_*.abc_*"),
        )
    )
    x, y, z = (rules.of(*name) for name in (("Test_1_a", "abc1"), ("xxx_1", "abc_1"), ("yyy_1", "abc_1")))
    assert [x.left_out(logged_event) for logged_event in ("insert", "update", "delete")] == [
        "filters.x",
        None,
        "filters.x",
    ]
    assert x.statement("drop table", "drop procedure abc") == ("filters.x", "ignore")
    assert x.statement("create table", "create function abc") is None
    assert y.left_out("update") == "filters.y"
    assert z.left_out("insert") is None
    assert z.statement("create index", "CREATE INDEX i ON abc_1 (a)") == ("filters.z", "ignore")
    assert not rules.of("test_1_a", "abc1"), "names compare as the servers compare them where files do"


@pytest.mark.parametrize(
    "events, action, problem",
    [
        (["delete"], "ignore", None),
        (["insert", "alter table", "rename table"], "do", None),
        (["all ddl"], "stop", None),
        (["delet"], "ignore", "'delet' is no event; known are insert, update, "),
        ([], "ignore", "needs events or sql-pattern"),
        (["insert"], "stop", "stop is for statements, and this rule lists insert"),
        (["all dml"], "ignore", "leaves out all rows; leave the table out instead"),
        (["alter table"], "ignore", "leaves out alter table, which is always applied"),
        (["insert"], "do", "add alter table and rename table, and leave columns out with columns:"),
    ],
)
def test_rules_that_cannot_be_carried_out(events: list[str], action: Action, problem: str | None) -> None:
    message = problem_of_events(events, action, has_patterns=False)
    assert message == problem if problem is None else problem in (message or "")


def test_two_rules_about_the_columns_of_one_table() -> None:
    scope = Scope.parse(["s.*"])
    with pytest.raises(ConfigError, match=r"s\.t: columns\.a and columns\.b are both about it"):
        Filters(columns=(ColumnRule("a", scope), ColumnRule("b", scope))).of("s", "t")


def test_a_changed_rule_has_another_print_and_a_salt_shows_in_none() -> None:
    def of(salt: str, *events: str) -> TableFilters:
        rule = ColumnRule("c", Scope(), masks={"a": Mask("hash", salt=salt)})
        return TableFilters((event("ignore", *events),), (), rule)

    base = of("pepper", "delete").prints()
    assert of("pepper", "delete").prints() == base
    assert of("salt", "delete").prints()["columns"] != base["columns"]
    assert of("pepper", "insert").prints()["changes"] != base["changes"]
    assert TableFilters().prints() == {}
    assert "pepper" not in f"{base}{of('pepper', 'delete')}"
