"""The examples for Prometheus and Grafana use metrics that there are, and the page lists all of them."""

import re
import subprocess
from pathlib import Path
from shutil import which

import pytest
import yaml

from spark_jobs.operations.observation.metrics import FAMILIES
from tests.docs import panels

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples" / "monitoring"
PAGE = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
NAMES = {f"stratalog_{name}" for name in FAMILIES}
METRIC = re.compile(r"\bstratalog_\w+")
SELECTOR = re.compile(r"stratalog_(\w+)\{([^}]*)\}")


def expressions() -> list[str]:
    rules = yaml.safe_load((EXAMPLES / "alerts.yaml").read_text(encoding="utf-8"))
    alerts = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    variables = [variable["query"] for variable in panels.dashboard()["templating"]["list"]]
    return [*alerts, *panels.expressions(), *variables]


def test_every_metric_in_the_examples_exists() -> None:
    used_names = {name for expression in expressions() for name in METRIC.findall(expression)}
    assert len(used_names) > 10
    assert used_names - NAMES == set()


def test_metrics_have_the_labels_that_the_examples_select_by() -> None:
    selectors = [match for expression in expressions() for match in SELECTOR.findall(expression)]
    assert selectors
    unknown = [
        (name, label)
        for name, selector in selectors
        for label in re.findall(r"(\w+)=", selector)
        if label not in FAMILIES[name][1]
    ]
    assert unknown == []


def test_the_page_lists_each_metric_with_its_labels() -> None:
    rows = re.findall(r"^\| `stratalog_(\w+)` \| (.*?) \|", PAGE, re.MULTILINE)
    listed = {name: tuple(re.findall(r"`(\w+)`", labels)) for name, labels in rows}
    assert listed == {name: labels for name, (_, labels) in FAMILIES.items()}


@pytest.mark.parametrize("arguments", [("rules", "alerts.yaml"), ("config", "--syntax-only", "prometheus.yaml")])
def test_promtool_takes_the_examples(arguments: tuple[str, ...]) -> None:
    promtool = which("promtool")
    if promtool is None:
        pytest.skip("promtool is not here (Debian: prometheus)")
    command = [promtool, "check", *arguments]
    checked = subprocess.run(command, cwd=EXAMPLES, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
