"""The example's dashboard: complete, laid out, with queries that Prometheus parses, and of Grafana's own types.

Put here: dashboard.json without a server. Not here: its metrics and labels (test_monitoring.py), and its queries in a
Prometheus (test_prometheus.py). No Grafana runs in these tests.
"""

import copy
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from shutil import which
from typing import Any

import pytest
import yaml

from spark_jobs.errors import ConfigError
from tests.docs.panels import DASHBOARD, dashboard, expressions
from tests.services import grafana_types

DATA_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24
"""Of Grafana's grid."""


def by_title() -> dict[str, dict[str, Any]]:
    return {panel["title"]: panel for panel in dashboard()["panels"]}


def test_each_panel_has_a_title_a_description_and_a_unit() -> None:
    panels = dashboard()["panels"]
    assert len(by_title()) == len(panels) > 10
    lacking = [
        panel["title"]
        for panel in panels
        if not (panel["title"] and panel["description"] and panel["fieldConfig"]["defaults"]["unit"])
    ]
    assert lacking == []


def test_panels_do_not_overlap() -> None:
    indexes = [panel["gridPos"] for panel in dashboard()["panels"]]
    assert [position for position in indexes if position["x"] + position["w"] > COLUMNS] == []
    cells = [(x, y) for p in indexes for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])]
    assert len(cells) == len(set(cells))
    assert len({panel["id"] for panel in dashboard()["panels"]}) == len(indexes)


def test_each_query_asks_the_chosen_data_source() -> None:
    board = dashboard()
    targets = [target for panel in board["panels"] for target in panel["targets"]]
    source, *queries = board["templating"]["list"]
    assert (source["name"], source["type"], source["query"]) == ("datasource", "datasource", "prometheus")
    assert [part for part in (*board["panels"], *targets, *queries) if part["datasource"] != DATA_SOURCE] == []
    names = {variable["name"] for variable in board["templating"]["list"]}
    references = set(re.findall(r"\$\{?(\w+)", json.dumps([board["panels"], queries])))
    assert references - {"__all"} == names


def test_queries_of_a_panel_are_distinct() -> None:
    repeated = [
        title
        for title, panel in by_title().items()
        if len({target["refId"] for target in panel["targets"]}) != len(panel["targets"])
        or len({target.get("legendFormat") for target in panel["targets"]}) != len(panel["targets"])
    ]
    assert repeated == []


def test_a_number_is_of_now_and_a_line_of_the_time_range() -> None:
    kinds = {
        (panel["type"], target["instant"], target["range"])
        for panel in dashboard()["panels"]
        for target in panel["targets"]
    }
    assert kinds == {("stat", True, False), ("timeseries", False, True)}


def checked_rules(folder: Path, queries: list[str]) -> "subprocess.CompletedProcess[str]":
    promtool = which("promtool")
    if promtool is None:
        pytest.skip("promtool is not here (Debian: prometheus)")
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries)]
    file = folder / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    return subprocess.run([promtool, "check", "rules", file], capture_output=True, text=True, check=False)


def test_prometheus_parses_each_query(tmp_path: Path) -> None:
    queries = expressions()
    checked = checked_rules(tmp_path, queries)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(queries)} rules found" in checked.stdout
    assert checked_rules(tmp_path, [*queries, "sum by (stratalog_rows"]).returncode == 1


@pytest.fixture(scope="module")
def types() -> None:
    try:
        grafana_types.program()
    except ConfigError as error:
        pytest.skip(str(error))


@pytest.mark.thorough
@pytest.mark.usefixtures("types")
def test_the_types_of_grafana_accept_the_dashboard() -> None:
    assert grafana_types.problems(DASHBOARD) == []


def set_at(*keys: str | int, value: object) -> Callable[[dict[str, Any]], None]:
    """Sets the value at a path of keys."""

    def change(board: Any) -> None:
        for key in keys[:-1]:
            board = board[key]
        board[keys[-1]] = value

    return change


STAT, LINES = ("panels", 0), ("panels", 4)
CHANGES = {
    "a misspelt field of the dashboard": (set_at("tittle", value="Shop"), "unexpected field 'tittle'"),
    "a misspelt field of a panel": (set_at(*LINES, "descripton", value="Lag"), "unexpected field 'descripton'"),
    "a misspelt field of a query": (set_at(*LINES, "targets", 0, "legend", value="x"), "unexpected field 'legend'"),
    "a misspelt option": (set_at(*STAT, "options", "colourMode", value="value"), "unexpected field 'colourMode'"),
    "a misspelt default": (set_at(*LINES, "fieldConfig", "defaults", "units", value="s"), "unexpected field 'units'"),
    "a misspelt style": (
        set_at(*LINES, "fieldConfig", "defaults", "custom", "lineWith", value=1),
        "unexpected field 'lineWith'",
    ),
    "a misspelt field of a variable": (set_at("templating", "list", 1, "mutli", value=True), "unexpected field"),
    "a text for a number": (set_at(*LINES, "gridPos", "h", value="8"), "gridPos.h: "),
    "a number for a text": (set_at(*LINES, "targets", 0, "expr", value=7), "targets[0].expr: "),
    "a text for a flag": (set_at(*STAT, "options", "wideLayout", value="yes"), "options.wideLayout: "),
    "an object for a list": (set_at("panels", value={}), "cannot unmarshal object"),
    "a null for what is required": (set_at(*LINES, "options", "legend", value=None), "required field is null"),
    "an unknown mode of a tooltip": (set_at(*LINES, "options", "tooltip", "mode", value="many"), '"many" is no '),
    "an unknown mode of thresholds": (
        set_at(*STAT, "fieldConfig", "defaults", "thresholds", "mode", value="relative"),
        '"relative" is no ',
    ),
    "an unknown style of lines": (
        set_at(*LINES, "fieldConfig", "defaults", "custom", "drawStyle", value="wave"),
        '"wave" is no ',
    ),
    "an unknown kind of variable": (set_at("templating", "list", 1, "type", value="sql"), '"sql" is no '),
    "an unknown refresh of a variable": (set_at("templating", "list", 1, "refresh", value=9), '"9" is no '),
    "an unknown format of a query": (set_at(*LINES, "targets", 0, "format", value="rows"), '"rows" is no '),
    "an unknown unit": (set_at(*LINES, "fieldConfig", "defaults", "unit", value="secs"), '"secs" is no unit'),
    "an unknown panel": (set_at(*LINES, "type", value="graf"), '"graf" is no panel'),
    "a month that there is not": (set_at("fiscalYearStartMonth", value=12), "must be < 12"),
}


@pytest.mark.thorough
@pytest.mark.usefixtures("types")
@pytest.mark.parametrize("name", CHANGES)
def test_the_types_of_grafana_reject(name: str, tmp_path: Path) -> None:
    change, problem = CHANGES[name]
    board = copy.deepcopy(dashboard())
    change(board)
    file = tmp_path / "dashboard.json"
    file.write_text(json.dumps(board))
    problems = grafana_types.problems(file)
    assert [line for line in problems if problem in line], problems


@pytest.mark.thorough
@pytest.mark.usefixtures("types")
@pytest.mark.parametrize(
    "path", [("annotations",), ("schemaVersion",), (*STAT, "type"), (*LINES, "options", "tooltip")], ids=str
)
def test_the_types_of_grafana_require(path: tuple[str | int, ...], tmp_path: Path) -> None:
    board: Any = copy.deepcopy(dashboard())
    part = board
    for key in path[:-1]:
        part = part[key]
    del part[path[-1]]
    file = tmp_path / "dashboard.json"
    file.write_text(json.dumps(board))
    assert grafana_types.problems(file) != []
