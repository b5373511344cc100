"""Posted to an endpoint that validates each event."""

import uuid

import pytest

from spark_jobs.telemetry import openlineage
from spark_jobs.telemetry.openlineage import Dataset, RunEvent, post
from tests.services.receivers import event_validator, receiver

RUN = str(uuid.UUID(int=7, version=4))
IN = Dataset("mysql://db.internal:3306", "shop.orders")
OUT = Dataset("file", "/lake/downstream/shop/orders", {"id": "BIGINT", "note": "STRING"}, 3)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NAMESPACE", "ENDPOINT", "API_KEY", "DISABLED"):
        monkeypatch.delenv(f"OPENLINEAGE_{name}", raising=False)


@pytest.mark.parametrize(
    "event",
    [
        RunEvent("START", RUN, "shop.run"),
        RunEvent("COMPLETE", RUN, "shop.run", [IN], [OUT]),
        RunEvent("FAIL", RUN, "shop.run", [IN], [], "shop: cannot be reached"),
    ],
    ids=lambda event: event.type,
)
def test_an_event_is_valid_and_arrives(event: RunEvent, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver(201) as received:
        monkeypatch.setenv("OPENLINEAGE_URL", received.url)
        assert post(event)
    assert received.problems == []
    (document,) = received.events
    assert (document["eventType"], document["run"]["runId"]) == (event.type, RUN)
    assert document["job"]["namespace"] == "stratalog"
    assert document["run"]["facets"].get("errorMessage", {}).get("message") == event.error


def test_what_is_not_valid_is_refused_by_the_validator() -> None:
    document = RunEvent("START", "not a uuid", "shop.run", [IN]).to_json()
    del document["inputs"][0]["name"]
    assert len(list(event_validator().iter_errors(document))) == 2


def test_datasets_have_columns_and_outputs_rows() -> None:
    document = RunEvent("COMPLETE", RUN, "shop.run", [IN], [OUT]).to_json()
    assert document["inputs"] == [{"namespace": "mysql://db.internal:3306", "name": "shop.orders"}]
    (output,) = document["outputs"]
    assert output["facets"]["schema"]["fields"] == [
        {"name": "id", "type": "BIGINT"},
        {"name": "note", "type": "STRING"},
    ]
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 3


def test_the_clients_settings_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver() as received:
        monkeypatch.setenv("OPENLINEAGE_URL", received.url + "/")
        monkeypatch.setenv("OPENLINEAGE_API_KEY", "k1")
        monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "sales")
        monkeypatch.setenv("OPENLINEAGE_ENDPOINT", "/api/v1/lineage")
        assert post(RunEvent("START", RUN, "shop.run"))
    assert received.headers[0]["Authorization"] == "Bearer k1"
    assert received.events[0]["job"]["namespace"] == "sales"


@pytest.mark.parametrize(
    "url, status, problem",
    [
        ("http://127.0.0.1:1", 0, "Connection refused"),
        ("http://user:secret@127.0.0.1:1", 0, "has a user or a password (a key is OPENLINEAGE_API_KEY)"),
        ("", 500, "it answers 500"),
        ("ftp://127.0.0.1", 0, "it is no address of http or https"),
    ],
)
def test_what_does_not_arrive_is_one_warning(
    url: str, status: int, problem: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with receiver(status or 200) as received:
        monkeypatch.setenv("OPENLINEAGE_URL", url or received.url)
        monkeypatch.setenv("OPENLINEAGE_API_KEY", "hidden")
        assert not post(RunEvent("START", RUN, "shop.run"))
    (record,) = caplog.records
    assert problem in record.message
    assert "secret" not in caplog.text
    assert "hidden" not in caplog.text


def test_the_environment_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENLINEAGE_URL", raising=False)
    assert not openlineage.is_wanted()
    monkeypatch.setenv("OPENLINEAGE_URL", "http://c")
    assert openlineage.is_wanted()
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "true")
    assert not openlineage.is_wanted()
