from pathlib import Path

import pytest

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.checks import Check
from spark_jobs.checks.tables import TablesView, check_tables, why_nothing_in_scope
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline


def pipeline(folder: Path, tables: str, keys: str = "") -> Pipeline:
    path = folder / "pipeline.yaml"
    path.write_text(f"lake: x\nsources: {{shop: {{mysql: {{user: r}}}}}}\ntables: {tables}\n{keys}")
    return load(path)


def table(name: str, *, has_key: bool = True) -> TableDefinition:
    return TableDefinition(TableName(*name.split(".")), (Column("id", 3, 0),), (0,) if has_key else ())


TABLES = [table("shop.orders"), table("shop.items", has_key=False), table("other.t")]


def check(pipeline: Pipeline, *, is_complete: bool = True) -> dict[str, Check]:
    view = TablesView(pipeline, {"shop": TABLES}, {"shop": {("gone", "old")}}, is_complete)
    return {result.name: result for result in check_tables(view)}


@pytest.mark.parametrize(
    "text, status, value, remedy",
    [
        ("shop.*", "ok", "2 tables", ""),
        ("shop.orders", "ok", "1 table", ""),
        ("gone.*", "ok", "1 table", ""),  # the server has it no more, and the lake does
        ("shopp.*", "problem", "matches no table", "there are shop.*"),
        ("shop.order", "problem", "matches no table", "there are shop.orders"),
        ("!x.*", "warning", "excludes no table", "correct the pattern, or take it out"),
        ("!shop.items", "ok", "1 table", ""),
    ],
)
def test_a_pattern_says_how_many_tables_it_matches(
    tmp_path: Path, text: str, status: str, value: str, remedy: str
) -> None:
    result = check(pipeline(tmp_path, f"['*.*', '{text}']"))[f"tables: {text}"]
    assert (result.status, result.value) == (status, value)
    assert result.remedy.endswith(remedy)


def test_of_files_a_pattern_may_match_tables_of_later(tmp_path: Path) -> None:
    checks = check(pipeline(tmp_path, "['shopp.*']"), is_complete=False)
    assert checks["tables: shopp.*"].status == "warning"
    near = check(pipeline(tmp_path, "['shop.ordrs']"), is_complete=False)["tables: shop.ordrs"]
    assert near.remedy.endswith("check the name of the pattern; did you mean shop.orders?")
    assert checks["tables in scope"].status == "ok"


def test_no_table_in_scope_is_a_problem(tmp_path: Path) -> None:
    checks = check(pipeline(tmp_path, "['shop.*', '!shop.*']"))
    assert (checks["tables in scope"].status, checks["tables in scope"].value) == ("problem", "0 tables of 4")


def test_tables_without_a_key_are_named_and_are_no_problem(tmp_path: Path) -> None:
    result = check(pipeline(tmp_path, "['shop.*']"))["primary keys"]
    assert (result.status, result.value) == ("ok", "missing in 1 table: shop: shop.items")
    assert check(pipeline(tmp_path, "['shop.orders']"))["primary keys"].value == "in all tables"


def test_rules_and_routes_are_checked_against_the_tables(tmp_path: Path) -> None:
    rules = "columns: {c: {tables: ['shop.orders'], exclude: [nope]}}\nroutes: [{from: 'shop.*', to: a.b}]\n"
    checks = check(pipeline(tmp_path, "['shop.*']", rules))
    assert (checks["columns.c"].status, checks["columns.c"].remedy) == ("problem", "correct columns.c in pipeline.yaml")
    assert checks["routes to a.b"].status == "problem"


def test_a_run_without_a_table_in_scope_is_told_why(tmp_path: Path) -> None:
    configured = pipeline(tmp_path, "['shopp.*']")
    assert why_nothing_in_scope(configured, [("shop", "orders"), ("shop", "items")]) == (
        "none of the 2 tables of the log is in scope (tables: shopp.*); correct the pattern, or let the user see the "
        "tables (GRANT SELECT); there are shop.*"
    )
    assert why_nothing_in_scope(configured, []) is None, "a log without rows"
    assert why_nothing_in_scope(pipeline(tmp_path, "['shop.*']"), [("shop", "orders")]) is None


@pytest.mark.parametrize(
    "table_name, columns, reason",
    [
        ("a/b", ("id",), "has no place in the lake"),
        ("t", ("id", "_metadata"), "column _metadata has the name of a column that Spark adds"),
        ("t", ("s", "\u017f"), "its columns s and \u017f have one name to Spark"),
        ("t", ("id", "_window"), "column _window has the name of one that is added"),
    ],
)
def test_names_that_a_run_refuses_are_problems(
    tmp_path: Path, table_name: str, columns: tuple[str, ...], reason: str
) -> None:
    definition = TableDefinition(TableName("shop", table_name), tuple(Column(column, 3, 0) for column in columns), (0,))
    view = TablesView(pipeline(tmp_path, "['shop.*']"), {"shop": [definition]}, {}, is_complete=True)
    (result,) = (outcome for outcome in check_tables(view) if outcome.name.startswith("names of"))
    assert (result.name, result.status) == (f"names of shop: shop.{table_name}", "problem")
    assert reason in result.value


def test_names_that_the_lake_has_a_place_for_are_fine(tmp_path: Path) -> None:
    assert check(pipeline(tmp_path, "['shop.*']"))["names"].status == "ok"
