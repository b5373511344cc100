import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.config.loader import load
from spark_jobs.errors import LakeError
from spark_jobs.operations.observation.alarms import alarms
from spark_jobs.operations.observation.failures import noted
from spark_jobs.operations.observation.status import SourceStatus, TableStatus
from spark_jobs.operations.observation.verified import DIFFERS, EQUAL, MENDED, NOT_COMPARED, Verified
from spark_jobs.text.remedies import DEFAULTS
from tests.command_result import without_codes

END = "b.000002:900"


def kinds(folder: Path, keys_text: str = "", **keys: Any) -> list[tuple[str, str]]:
    path = folder / "pipeline.yaml"
    path.write_text(f"lake: ./lake\nsources:\n  shop: {{files: ./binlogs}}\n{keys_text}")
    defaults: dict[str, Any] = {"end": END, "bronze": END, "backlog_bytes": 0, "lag_seconds": 0.0, "error": None}
    defaults |= {
        "retention_margin_bytes": None,
        "retention_margin_hours": None,
        "quarantined_events": 0,
        "warning": None,
    }
    status = SourceStatus(**({"source": "shop", "tables": []} | defaults | keys))
    return [(alarm.kind, alarm.message) for alarm in alarms(load(path), status)]


def table(name: str, state: str) -> TableStatus:
    return TableStatus(name, state, END, END, None)


def test_a_source_that_is_well_raises_none(tmp_path: Path) -> None:
    tables = [table("a.a", "current"), table("a.b", "ignored"), table("a.c", "reset")]
    assert kinds(tmp_path, "max_lag: 1h\n", lag_seconds=3600.0, backlog_bytes=9, tables=tables) == []
    assert kinds(tmp_path, bronze=None, lag_seconds=None) == [], "nothing was read yet"


@pytest.mark.parametrize(
    "keys, kind, message",
    [
        (
            {"error": "shop: gone"},
            "unreachable",
            "the source cannot be read; stratalog check -c pipeline.yaml --connect lists what is wrong with it",
        ),
        (
            {"tables": [table("a.a", "current"), *(table(f"a.t{n}", "stopped") for n in range(7))]},
            "stopped",
            (
                "7 of 8 tables stopped: a.t0, a.t1, a.t2, a.t3, a.t4 and 2 more; do what the reason of each says "
                "(stratalog docs howto/broken-table), then stratalog run"
            ),
        ),
        (
            {"warning": "the source has only 96 bytes"},
            "retention",
            (
                "less log is left at the source than retention.margin asks for; run more often, or have the server "
                "keep its log longer (stratalog docs howto/purge)"
            ),
        ),
        (
            {"lag_seconds": 7200.0},
            "lag",
            (
                "bronze is 120 minutes behind, more than max_lag, 60 minutes; stratalog run reads on; let it run more "
                "often"
            ),
        ),
    ],
)
def test_each_condition_says_what_to_do(tmp_path: Path, keys: dict[str, Any], kind: str, message: str) -> None:
    assert kinds(tmp_path, "max_lag: 1h\n", **keys) == [(kind, f"shop: {message}")]


def compared(name: str, state: str, hours: float, at: str = "current") -> TableStatus:
    """A table that was compared so long ago."""
    verified_at = datetime.now(UTC) - timedelta(hours=hours)
    verified = Verified("a", name, state, END, verified_at.isoformat(timespec="seconds"))
    return replace(table(f"a.{name}", at), verified=verified.to_json())


def test_rows_that_are_known_to_differ_are_told_until_they_are_mended(tmp_path: Path) -> None:
    tables = [compared("x", DIFFERS, 1), compared("y", MENDED, 1), compared("z", DIFFERS, 1, "stopped")]
    (differs, stopped) = sorted(kinds(tmp_path, tables=tables))
    assert stopped[0] == "stopped"
    assert differs == (
        "differs",
        (
            "shop: rows of 1 table are not the server's, as verify found: a.x; put the server's in their place: "
            "stratalog mend --source shop"
        ),
    )


def test_tables_are_to_be_compared_within_max_verify_age(tmp_path: Path) -> None:
    tables = [
        compared("fresh", EQUAL, 1), compared("old", EQUAL, 30), compared("mended", MENDED, 30),
        compared("never_can", NOT_COMPARED, 30), table("a.new", "current"), table("a.stopped", "reset"),
    ]  # fmt: skip
    assert kinds(tmp_path, tables=tables) == []
    # Files cannot be asked.
    assert kinds(tmp_path, "max_verify_age: 1d\n", tables=tables) == []
    (tmp_path / "pipeline.yaml").write_text("lake: ./lake\nsources: {shop: {mysql: {host: h, user: u}}}\n")
    status = SourceStatus("shop", END, END, 0, 0.0, None, None, 0, None, None, tables)
    pipeline = load(tmp_path / "pipeline.yaml").model_copy(update={"max_verify_age": timedelta(days=1)})
    (alarm,) = alarms(pipeline, status)
    assert (alarm.kind, alarm.message) == (
        "unverified",
        (
            "shop: 3 of 5 tables were not compared with the server for max_verify_age, 24 hours: a.old, a.mended, "
            "a.new; compare them: stratalog verify --source shop"
        ),
    )


def test_runs_that_fail_are_one(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(LakeError), noted(tmp_path / "pipeline.yaml", "shop", is_last=True):
            raise LakeError("shop: the lake is full")
    ((kind, message),) = kinds(tmp_path)
    assert kind == "failed"
    assert message.startswith("shop: the last 2 runs failed, since 2")
    assert without_codes(message).endswith(f": shop: the lake is full; {DEFAULTS[LakeError]}")


def test_several_conditions_are_all_told(tmp_path: Path) -> None:
    alarm_kinds = kinds(tmp_path, error="shop: gone", warning="little", tables=[table("a.a", "stopped")])
    assert [kind for kind, _ in alarm_kinds] == ["unreachable", "stopped", "retention"]


def test_a_catalog_that_refused_tables_raises_one_until_they_are_registered(tmp_path: Path) -> None:
    keys = "iceberg: true\niceberg_catalog: {name: lake, properties: {type: rest, uri: 'http://127.0.0.1:1'}}\n"
    assert kinds(tmp_path, keys) == []
    identity = ["lake", {"type": "rest", "uri": "http://127.0.0.1:1"}]
    source = {"tables": {}, "refusal": ["2026-11-29T01:00:00+00:00", "s.a: no such token"]}
    state = tmp_path / "pipeline.iceberg-catalog.json"
    state.write_text(json.dumps({"catalog": identity, "sources": {"shop": source}}))
    [(kind, message)] = kinds(tmp_path, keys)
    assert kind == "catalog"
    assert without_codes(message) == (
        "shop: Iceberg tables are behind in the catalog, since 2026-11-29T01:00:00+00:00: s.a: no such token; "
        "stratalog check --connect asks the catalog, and the next run registers them"
    )
    # of another catalog it says nothing
    state.write_text(json.dumps({"catalog": ["other", {}], "sources": {"shop": source}}))
    assert kinds(tmp_path, keys) == []
