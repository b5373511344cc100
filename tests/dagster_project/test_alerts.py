"""Which alerts there are, and that each is told once."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.adoption import adopt
from dagster_project.alerts import Alert, webhook
from dagster_project.build import build_defs
from spark_jobs.errors import ConfigError, LakeError, StratalogError
from spark_jobs.operations.observation import status as observation
from spark_jobs.operations.observation.status import SourceStatus
from tests.lakes.recorded_lake import STOPPED, lineage_of, recorded

pytestmark = pytest.mark.dagster


def tick(defs: dg.Definitions, instance: dg.DagsterInstance, cursor: str | None = None) -> Any:
    with dg.build_sensor_context(instance=instance, cursor=cursor, definitions=defs) as context:
        return defs.resolve_sensor_def("alert_sensor").evaluate_tick(context)


def test_an_alert_is_told_once_and_its_end_too(tmp_path: Path) -> None:
    alerts: list[Alert] = []
    with recorded(tmp_path) as (pipeline, instance):
        for event in adopt(instance, lineage_of(pipeline)):
            instance.report_runless_asset_event(event)
        defs = build_defs(pipeline, on_alert=alerts.append)
        first = tick(defs, instance)
        assert ("stopped", "shop") in {(alert.kind, alert.subject) for alert in alerts}
        check = f"{STOPPED.to_user_string()}: replicating"
        (text,) = [alert.text for alert in alerts if (alert.kind, alert.subject) == ("check", check)]
        assert text.startswith(f"{check} failed: ")
        alerts.clear()
        (tmp_path / "binlogs").rename(tmp_path / "unmounted")
        second = tick(defs, instance, first.cursor)
        assert [(alert.kind, alert.is_over) for alert in alerts] == [("unreachable", False)]
        alerts.clear()
        (tmp_path / "unmounted").rename(tmp_path / "binlogs")
        tick(defs, instance, second.cursor)
        assert [(alert.kind, alert.is_over, str(alert)[:9]) for alert in alerts] == [("unreachable", True, "Resolved:")]


def test_a_lake_that_cannot_be_read_resolves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alerts: list[Alert] = []

    def fail(*_: object) -> SourceStatus:
        raise LakeError("published: the store does not answer")

    with recorded(tmp_path) as (pipeline, instance):
        defs = build_defs(pipeline, on_alert=alerts.append)
        first = tick(defs, instance)
        assert ("stopped", "shop") in {(alert.kind, alert.subject) for alert in alerts}
        alerts.clear()
        with monkeypatch.context() as patched:
            patched.setattr(observation, "status", fail)
            second = tick(defs, instance, first.cursor)
        assert [(alert.kind, alert.is_over) for alert in alerts] == [("unreachable", False)]
        alerts.clear()
        tick(defs, instance, second.cursor)
        assert [(alert.kind, alert.is_over) for alert in alerts] == [("unreachable", True)]


def test_a_server_that_is_away_resolves_neither_lag_nor_margin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alerts: list[Alert] = []
    measure = observation.status

    def behind(*given: Any) -> SourceStatus:
        return replace(measure(*given), lag_seconds=7200.0, warning="little log is left")

    with recorded(tmp_path, "max_lag: 1h\n") as (pipeline, instance):
        defs = build_defs(pipeline, on_alert=alerts.append)
        with monkeypatch.context() as patched:
            patched.setattr(observation, "status", behind)
            first = tick(defs, instance)
        assert {"lag", "retention"} <= {alert.kind for alert in alerts}
        alerts.clear()
        (tmp_path / "binlogs").rename(tmp_path / "unmounted")
        second = tick(defs, instance, first.cursor)
        assert [(alert.kind, alert.is_over) for alert in alerts] == [("unreachable", False)]
        # They are over once the server answers that they are.
        alerts.clear()
        (tmp_path / "unmounted").rename(tmp_path / "binlogs")
        tick(defs, instance, second.cursor)
        assert {(alert.kind, alert.is_over) for alert in alerts} == {
            ("unreachable", True),
            ("lag", True),
            ("retention", True),
        }


def test_a_function_that_fails_is_called_again(tmp_path: Path) -> None:
    calls = []

    def fail(alert: Alert) -> None:
        calls.append(alert)
        raise OSError("no connection")

    with recorded(tmp_path) as (pipeline, instance):
        defs = build_defs(pipeline, on_alert=fail)
        for count in (1, 2):
            with pytest.raises(OSError, match="no connection"):
                tick(defs, instance)
            assert len(calls) == count


@contextmanager
def receiver(status: int) -> Iterator[tuple[str, list[Any]]]:
    """A web server that keeps what is posted to it."""
    bodies: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/hook?token=secret", bodies
        thread.join()


def test_a_webhook_gets_the_text_and_its_parts() -> None:
    with receiver(200) as (address, bodies):
        webhook(address)(Alert("lag", "shop", "shop: bronze is 40 minutes behind"))
    assert bodies == [
        {"text": "Alert: shop: bronze is 40 minutes behind", "kind": "lag", "subject": "shop", "is_over": False}
    ]


def test_a_webhook_that_refuses_is_named_without_its_secret() -> None:
    with receiver(500) as (address, _), pytest.raises(StratalogError) as error:
        webhook(address)(Alert("lag", "shop", "behind"))
    assert "127.0.0.1 did not take an alert: HTTP Error 500" in str(error.value)
    assert "secret" not in str(error.value)


def test_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    with recorded(tmp_path) as (pipeline, _), pytest.raises(ConfigError, match="on_alert: must be a function"):
        build_defs(pipeline, on_alert="pager")
