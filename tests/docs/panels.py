"""The example's dashboard as tests read it. Put here: reading it. Not here: what it must be."""

import json
from pathlib import Path
from typing import Any

DASHBOARD = Path(__file__).parents[2] / "docs" / "examples" / "monitoring" / "dashboard.json"


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, whose keys do not repeat."""
    entries = dict(pairs)
    assert len(entries) == len(pairs), [key for key, _ in pairs]
    return entries


def dashboard() -> dict[str, Any]:
    board: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"), object_pairs_hook=distinct)
    return board


def as_sent(expression: str) -> str:
    """A query as Grafana sends it where all sources are chosen: variables are replaced by their values."""
    for variable in dashboard()["templating"]["list"]:
        expression = expression.replace(f"${variable['name']}", variable.get("allValue", ""))
    assert "$" not in expression, expression
    return expression


def expressions() -> list[str]:
    """The queries of all panels."""
    return [as_sent(target["expr"]) for panel in dashboard()["panels"] for target in panel["targets"]]
