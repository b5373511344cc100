"""Which child tables have which choice about cascades."""

from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.config.loader import load
from spark_jobs.errors import ConfigError
from tests.spark_jobs.config.test_loader import LEAST, write

LINES = """on_cascade:
  - {tables: "*.*", action: stop}
  - {tables: [shop.*, crm.a], action: ignore}
  - {tables: shop.lines, action: warn}
"""


@pytest.mark.parametrize(
    "choice, expected",
    [
        ("", ["default", "default", "default"]),
        ("on_cascade: warn\n", ["warn", "warn", "warn"]),
        ("on_cascade: stop\n", ["stop", "stop", "stop"]),
        (LINES, ["warn", "ignore", "stop"]),
        ("on_cascade: apply\n", ["apply", "apply", "apply"]),
        ("on_cascade: [{tables: crm.b, action: ignore}]\n", ["default", "default", "ignore"]),
    ],
)
def test_the_last_line_that_matches_a_table_decides(tmp_path: Path, choice: str, expected: list[str]) -> None:
    chosen = load(write(tmp_path, LEAST + choice), {}).cascade_actions
    names = [name.split(".") for name in ("shop.lines", "shop.orders", "crm.b")]
    for default in ("warn", "apply_known"):
        actions = replace(chosen, default=default)
        assert [actions.of(*name) for name in names] == [
            default if action == "default" else action for action in expected
        ]


@pytest.mark.parametrize(
    "text, key, reason",
    [
        ("on_cascade: fix\n", "on_cascade", "must be 'warn', 'stop', 'ignore' or 'apply'"),
        ("on_cascade: [{tables: shop.a, action: fix}]\n", "on_cascade[0].action", "must be 'warn', 'stop', 'ignore'"),
        ('on_cascade: [{tables: "!shop.a", action: stop}]\n', "on_cascade[0].tables[0]", "a later line decides"),
        ("on_cascade: [{tables: [], action: stop}]\n", "on_cascade[0].tables", "must hold at least one"),
        ("on_cascade: [{table: shop.a, action: stop}]\n", "on_cascade[0].table", "did you mean tables?"),
    ],
)
def test_what_is_wrong_is_told_with_its_key(tmp_path: Path, text: str, key: str, reason: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(write(tmp_path, LEAST + text), {})
    assert reason in error.value.problems[f"pipeline.yaml: {key}"]
