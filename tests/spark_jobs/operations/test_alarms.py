from pathlib import Path
from typing import Any

import pytest

from spark_jobs.config.loader import load
from spark_jobs.errors import LakeError
from spark_jobs.operations.alarms import alarms
from spark_jobs.operations.failures import noted
from spark_jobs.operations.status import SourceStatus, TableStatus
from spark_jobs.text.remedies import DEFAULTS
from tests.ran import without_codes

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
