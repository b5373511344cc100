"""Consumers that race, die and lose answers: the model follows what they did, and nothing else."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.storage import local
from spark_jobs.subscriptions.cursor import Cursor
from spark_jobs.subscriptions.records import Record, Records
from tests.faults.leases import ENTRIES, LeaseEvent, LeaseTrace, first_rejection, play

TRACE: LeaseTrace = (
    LeaseEvent("take", 1, upon=1),
    LeaseEvent("get", 1, cursor=1),
    LeaseEvent("get", 1, cursor=2),
    LeaseEvent("move", 1, upon=2, cursor=1),
    LeaseEvent("confirmed", 1, cursor=1),
    LeaseEvent("take", 2, upon=3, cursor=1, over=True),
    LeaseEvent("get", 2, cursor=2),
    LeaseEvent("move", 1, upon=3, cursor=2, ok=False),
    LeaseEvent("gone", 1),
    LeaseEvent("move", 2, upon=4, cursor=2, answered=False),
    LeaseEvent("move", 2, upon=4, cursor=2, ok=False),
    LeaseEvent("move", 2, upon=5, cursor=2),
    LeaseEvent("confirmed", 2, cursor=2),
    LeaseEvent("move", 2, upon=6, cursor=2, frees=True),
    LeaseEvent("gone", 2),
)
Change = Callable[[list[LeaseEvent]], list[LeaseEvent]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "scenarios", [pytest.param(200, marks=pytest.mark.thorough), pytest.param(850, marks=pytest.mark.long)]
)
def test_the_model_allows_what_consumers_did(tmp_path: Path, summary: list[str], scenarios: int) -> None:
    counts, traces = play(range(scenarios), tmp_path)
    refused = first_rejection(traces)
    assert refused is None, f"seed {refused[0]}: {traces[refused[0]][: refused[1] + 1]}: {refused[2]}"
    events = Counter(event.kind for trace in traces for event in trace)
    listed = ", ".join(f"{name} {count}" for name, count in (events + counts).most_common())
    summary.append(f"model: {len(traces)} traces of consumers, 0 rejected: {listed}")
    assert all(counts.values())
    assert max(event.cursor for trace in traces for event in trace) == ENTRIES


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    "at, change",
    [
        (0, lambda events: events[1:]),
        (1, lambda events: [events[0], events[2], events[1], *events[3:]]),
        (3, lambda events: [*events[:3], replace(events[3], cursor=3), *events[4:]]),
        (3, lambda events: [*events[:3], events[4], events[3], *events[5:]]),
        (5, lambda events: [*events[:5], replace(events[5], over=False), *events[6:]]),
        (7, lambda events: [*events[:7], replace(events[7], ok=True), *events[8:]]),
        (9, lambda events: [*events[:9], replace(events[9], cursor=0), *events[10:]]),
        (9, lambda events: [*events[:9], events[11], events[10], events[9], *events[12:]]),
        (9, lambda events: [*events[:9], LeaseEvent("renew", 2, upon=4, cursor=2), *events[9:]]),
        (10, lambda events: [*events[:10], LeaseEvent("renew", 2, upon=5, cursor=1), *events[10:]]),
        (14, lambda events: [*events[:14], events[13], *events[14:]]),
    ],
    ids=[
        *("nobody took the group", "entries swapped", "more acknowledged than given", "confirmed before it is written"),
        *("a lease that is not over", "one that was overtaken writes", "back behind an acknowledgement"),
        *("writes swapped", "a renewal that acknowledges", "a renewal behind an acknowledgement"),
        "written again once it is free",
    ],
)
def test_the_model_allows_nothing_else(at: int, change: Change) -> None:
    changed = tuple(change([*TRACE]))
    refused = first_rejection([TRACE, changed])
    assert refused is not None
    assert refused[:2] == (1, at), refused


def _overwritten(target: Path, content: bytes, **_: Any) -> bool:
    local.replace(target, content)
    return True


def _anyhow(group_records: Records, record: Record) -> Record:
    """A write that counts whatever others wrote meanwhile."""
    newest = group_records.read(record.group)
    return _write(group_records, replace(record, version=newest.version if newest else 0))


_write = Records.write


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    "target, name, broken",
    [
        (local, "create", _overwritten),
        (Records, "write", _anyhow),
        (Cursor, "is_done", lambda *_: False),
    ],
    ids=["not exclusive", "upon a version that was not read", "acknowledged entries come again"],
)
def test_what_breaks_a_record_is_seen(
    target: Any, name: str, broken: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, name, broken)
    _, traces = play(range(60), tmp_path)
    assert first_rejection(traces) is not None
