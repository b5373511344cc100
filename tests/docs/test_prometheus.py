"""The examples for Prometheus in a real one: node_exporter serves what status writes, rules are loaded, an alert fires.

Put here: what Debian's prometheus and prometheus-node-exporter do with the examples. Not here: names and labels in them
(test_monitoring.py).
"""

import json
import os
import re
import socket
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from shutil import copytree, which
from typing import Any

import pytest
import yaml
from prometheus_client.metrics_core import GaugeMetricFamily

from spark_jobs.operations.observation.alarms import KINDS
from spark_jobs.operations.observation.metrics import FAMILIES, exposition
from tests.docs.panels import as_sent, dashboard
from tests.lakes.lake_recording import SALT
from tests.lakes.recorded_lake import recorded
from tests.services.waiting import wait_for

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples" / "monitoring"
PROGRAMS = ("prometheus", "promtool", "prometheus-node-exporter")
STOPPED = "shop.logged_by_statement"


@pytest.fixture(autouse=True)
def programs() -> None:
    for program in PROGRAMS:
        if which(program) is None:
            pytest.skip(f"{program} is not here (Debian: prometheus, prometheus-node-exporter)")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextmanager
def started(command: list[str], log: Path) -> Iterator[None]:
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


@contextmanager
def node_exporter(folder: Path, files: Path) -> Iterator[str]:
    """Serves the files of a folder, and nothing of the machine; its address."""
    address = f"127.0.0.1:{free_port()}"
    options = ["--collector.disable-defaults", "--collector.textfile", f"--collector.textfile.directory={files}"]
    command = ["prometheus-node-exporter", *options, f"--web.listen-address={address}"]
    with started(command, folder / "node_exporter.log"):
        yield address


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[str]:
    """A server with the example's configuration and rules, that asks this target every second; its address."""
    copytree(EXAMPLES, folder / "monitoring")
    file = folder / "monitoring" / "prometheus.yaml"
    configuration = yaml.safe_load(file.read_text())
    (job,) = configuration["scrape_configs"]
    job |= {"scrape_interval": "1s", "static_configs": [{"targets": [target]}]}
    file.write_text(yaml.safe_dump(configuration | {"global": {"evaluation_interval": "1s"}}))
    address = f"127.0.0.1:{free_port()}"
    options = [f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}"]
    with started(["prometheus", *options], folder / "prometheus.log"):
        yield f"http://{address}"


def answer(url: str, path: str, **parameters: str) -> Any:
    """The data of an answer of Prometheus; empty until it answers."""
    try:
        with urllib.request.urlopen(f"{url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}", timeout=10) as reply:  # noqa: S310
            return json.load(reply)["data"]
    except OSError:
        return {}


@pytest.mark.thorough
@pytest.mark.processes
def test_an_alert_fires_for_a_table_that_stopped(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    with recorded(tmp_path / "shop") as (pipeline, _):
        command = [sys.executable, "-m", "stratalog", "status", "-c", str(pipeline.path), "--format", "prometheus"]
        command += ["--to", str(files / "stratalog.prom")]
        status = subprocess.run(command, cwd=ROOT, env=os.environ | {"SALT": SALT}, capture_output=True, check=False)
    assert status.returncode == 1  # a table has stopped
    with node_exporter(tmp_path, files) as target, prometheus(tmp_path, target) as url:

        def firing() -> dict[str, Any]:
            alerts = answer(url, "alerts").get("alerts", [])
            return {alert["labels"]["alertname"]: alert for alert in alerts if alert["state"] == "firing"}

        wait_for("the alert fires", lambda: "StratalogTableStopped" in firing())
        alerts = firing()
        rules = answer(url, "rules")["groups"][0]["rules"]
        stopped = answer(url, "query", query="stratalog_table_stopped == 1")["result"]
        names = set(answer(url, "label/__name__/values"))
        unhealthy = [rule["name"] for rule in rules if rule["health"] != "ok"]
    labels = alerts["StratalogTableStopped"]["labels"]
    assert (labels["source"], labels["table"], labels["severity"]) == ("shop", STOPPED, "critical")
    assert alerts["StratalogTableStopped"]["annotations"]["summary"] == f"shop: {STOPPED} has stopped"
    assert [series["metric"]["table"] for series in stopped] == [STOPPED]
    assert {"stratalog_rows", "stratalog_position_offset_bytes"} <= names
    assert not [name for name in names if name.startswith("node_")], "the example keeps metrics of Stratalog alone"
    assert (len(rules), unhealthy) == (
        len(yaml.safe_load((EXAMPLES / "alerts.yaml").read_text())["groups"][0]["rules"]),
        [],
    )


LAYERS = ("source", "bronze", "silver", "downstream")


def every_metric() -> str:
    """Each metric with each combination of its labels, of two sources with two tables: the exposition."""
    gauges = []
    for name, (text, labels) in FAMILIES.items():
        gauge = GaugeMetricFamily(f"stratalog_{name}", text, labels=labels)
        layers = LAYERS[-1:] if name.startswith("last_merge") else LAYERS
        choices = {"layer": layers, "check": KINDS}
        combinations = [
            dict(zip(labels, values, strict=True))
            for values in product(*(choices.get(label, (f"a_{label}", f"b_{label}")) for label in labels))
        ]
        for of in combinations:
            if "table" in of and of.get("layer") in LAYERS[:2]:
                of["table"] = ""  # these layers have no tables
        for values in dict.fromkeys(tuple(of.values()) for of in combinations):
            gauge.add_metric(values, 1)
        gauges.append(gauge)
    return exposition(gauges)


@pytest.mark.thorough
@pytest.mark.processes
def test_each_panel_shows_series_with_the_labels_of_its_legend(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "stratalog.prom").write_text(every_metric())
    board = dashboard()
    targets = [(panel["title"], target) for panel in board["panels"] for target in panel["targets"]]
    counts = []
    with node_exporter(tmp_path, files) as exporter, prometheus(tmp_path, exporter) as url:
        wait_for("metrics arrive", lambda: answer(url, "query", query="stratalog_source_up").get("result"))
        for title, target in targets:
            series = [result["metric"] for result in answer(url, "query", query=as_sent(target["expr"]))["result"]]
            names = re.findall(r"{{(\w+)}}", target.get("legendFormat", ""))
            counts.append((title, len(series), len({tuple(labels[name] for name in names) for labels in series})))
        sources = answer(url, "label/source/values", **{"match[]": "stratalog_source_up"})
    assert sources == ["a_source", "b_source"], "the choices of the variable"
    assert [panel for panel in counts if not panel[1]] == [], "no series"
    assert [panel for panel in counts if panel[1] != panel[2]] == [], "lines of one name"


def test_rules_fire_when_they_should() -> None:
    file = ROOT / "tests" / "docs" / "alert_cases.yaml"
    checked = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    alerts = set(re.findall(r"alert: (\w+)", (EXAMPLES / "alerts.yaml").read_text()))
    firing = re.findall(r"alertname: (\w+)\n +exp_alerts:", file.read_text())
    assert (set(firing), len(firing)) == (alerts, len(alerts))
