from datetime import timedelta
from pathlib import Path

import pytest

from spark_jobs.config.loader import load
from spark_jobs.config.modes import Mode, ModeRule, Modes, problem_of_modes
from spark_jobs.config.table_patterns import Pattern
from spark_jobs.errors import ConfigError
from tests.spark_jobs.config.test_loader import LEAST, write


def modes(*lines: tuple[str, str]) -> Modes:
    return Modes.from_rules(ModeRule.model_validate({"tables": tables, "mode": mode}) for tables, mode in lines)


def test_the_last_line_that_matches_a_table_decides() -> None:
    rules = modes(("shop.*", "history"), ("shop.events", "append"), ("*.people", "soft_delete"))
    assert rules.of("shop", "prices") is Mode.HISTORY
    assert rules.of("shop", "events") is Mode.APPEND
    assert rules.of("shop", "people") is Mode.SOFT_DELETE
    assert rules.of("hr", "jobs") is Mode.MIRROR


@pytest.mark.parametrize(
    "lines, is_problem",
    [
        ([("a.t", "history")], True),
        ([("a.*", "append")], True),
        ([("b.*", "history")], False),
        ([("a.*", "history"), ("a.t", "mirror")], False),
        ([("a.t", "mirror"), ("*.*", "soft_delete")], True),
        ([("a.t", "mirror")], False),
    ],
)
def test_a_table_of_several_is_a_mirror(lines: list[tuple[str, str]], is_problem: bool) -> None:
    assert bool(problem_of_modes(modes(*lines), [Pattern("c", "t"), Pattern("a", "t")])) == is_problem


def test_the_file_says_which_tables_have_which_mode(tmp_path: Path) -> None:
    text = (
        f"{LEAST}routes: [{{from: a.t, to: [a.t, a.t_history]}}]\n"
        "downstream: [{tables: a.t_history, mode: history}, {tables: ['hr.*', a.x], mode: soft_delete}]\n"
    )
    routing = load(write(tmp_path, text), {}).routing
    assert [into.mode for into in routing.of("shop", "a", "t")] == [Mode.MIRROR, Mode.HISTORY]
    assert routing.of("shop", "hr", "people")[0].mode is Mode.SOFT_DELETE


@pytest.mark.parametrize(
    "text, key, reason",
    [
        (
            "downstream: [{tables: '!a.t', mode: history}]",
            "downstream[0].tables",
            "lists the tables that the line is about",
        ),
        ("downstream: [{tables: a.t, mode: log}]", "downstream[0].mode", "must be 'mirror', 'soft_delete', 'append'"),
        (
            "downstream: [{tables: a.t, changes_within: 0m}]",
            "downstream[0].changes_within",
            "must be a minute at least",
        ),
        ("downstream: [{tables: a.t}]", "downstream[0]", "needs mode, change_data_feed, iceberg or changes_within"),
        ("downstream: [{tables: [], mode: append}]", "downstream[0].tables", "must hold at least one"),
        (
            """downstream: [{tables: 'a.*', mode: history}]
deliveries: {copy: {mysql: {user: u}, tables: ['*.*', '!a.b']}}""",
            "deliveries.copy.tables",
            "may have a.*, with mode: history by downstream:, and a delivery writes mirrors",
        ),
        (
            "routes: [{from: 'a_*.t', to: a.t}]\ndownstream: [{tables: 'a.*', mode: history}]",
            "downstream",
            "several source tables may have the target a.t",
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, key: str, reason: str) -> None:
    with pytest.raises(ConfigError) as info:
        load(write(tmp_path, f"{LEAST}{text}\n"), {})
    problem = next(line for line in str(info.value).splitlines() if key in line)
    assert reason in problem


def test_the_last_line_says_within_what_time_a_table_has_to_change(tmp_path: Path) -> None:
    text = (
        "downstream: [{tables: 'a.*', changes_within: 1d}, {tables: a.t, changes_within: 5m}, "
        "{tables: '*.*', mode: history}]\n"
    )
    table_modes = load(write(tmp_path, f"{LEAST}{text}"), {}).routing.modes
    names = (("a", "t"), ("a", "u"), ("b", "t"))
    assert [table_modes.window_of(*name) for name in names] == [timedelta(minutes=5), timedelta(days=1), None]


def test_a_delivery_without_such_tables_is_right(tmp_path: Path) -> None:
    text = (
        "downstream: [{tables: 'a.*', mode: history}, {tables: a.b, mode: mirror}]\n"
        "deliveries: {copy: {mysql: {user: u}, tables: ['*.*', '!a.*']}}\n"
    )
    assert load(write(tmp_path, f"{LEAST}{text}"), {}).deliveries["copy"].scope.holds("c", "t")
