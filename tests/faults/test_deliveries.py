"""Deliveries whose statements fail, and that die or are overtaken: no row is lost or doubled, and the model follows."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.delivery import progress, transactions
from spark_jobs.delivery.progress import Progress, TableId
from tests.faults.deliveries import AIMED, KINDS, DeliveryEvent, DeliveryTrace, first_rejection, play

NAMED = ("i0-10", "i10-15")
TRACE = DeliveryTrace(
    "a window of two parts, and one of one transaction",
    (
        DeliveryEvent("claim", 1, fence=1),
        DeliveryEvent("open", 1, version=1, fence=1, open=1),
        DeliveryEvent("learned", 1, version=1, of="open", fence=1, open=1),
        DeliveryEvent("part", 1, version=1, part=NAMED[0], fence=1, open=1, named=NAMED[:1]),
        DeliveryEvent("learned", 1, version=1, part=NAMED[0], of="part", fence=1, open=1, named=NAMED[:1]),
        DeliveryEvent("claim", 2, fence=2, open=1, named=NAMED[:1]),
        DeliveryEvent("part", 1, version=1, part=NAMED[1], ok=False, fence=2, open=1, named=NAMED[:1]),
        DeliveryEvent("gone", 1, fence=2, open=1, named=NAMED[:1]),
        DeliveryEvent("part", 2, version=1, part=NAMED[1], fence=2, open=1, named=NAMED),
        DeliveryEvent("complete", 2, version=1, fence=2, reached=1),
        DeliveryEvent("learned", 2, version=1, of="complete", fence=2, reached=1),
        DeliveryEvent("complete", 2, version=2, fence=2, reached=2),
        DeliveryEvent("learned", 2, version=2, of="complete", fence=2, reached=2),
        DeliveryEvent("gone", 2, fence=2, reached=2),
    ),
)
Change = Callable[[list[DeliveryEvent]], list[DeliveryEvent]]


def test_the_model_follows_what_happened() -> None:
    assert first_rejection([TRACE, TRACE]) is None


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    "at, change",
    [
        (0, lambda events: events[1:]),
        (3, lambda events: [*events[:3], events[8], *events[4:8], events[3], *events[9:]]),
        (3, lambda events: [*events[:3], *events[4:]]),
        (4, lambda events: [*events[:4], events[3], *events[4:]]),
        (6, lambda events: [*events[:6], replace(events[6], ok=True, named=NAMED), *events[7:]]),
        (8, lambda events: [*events[:8], events[9], events[8], *events[10:]]),
        (8, lambda events: [*events[:8], *events[9:]]),
        (9, lambda events: [*events[:9], events[11], events[10], events[9], *events[12:]]),
        (9, lambda events: [*events[:9], events[10], events[9], *events[11:]]),
        (12, lambda events: [*events[:12], events[11], *events[12:]]),
    ],
    ids=[
        *("nobody claimed the table", "parts swapped", "a part dropped", "a part doubled", "by one that was overtaken"),
        *("complete before its part", "complete without its part", "windows swapped", "learned before it is committed"),
        "a window doubled",
    ],
)
def test_the_model_follows_nothing_else(at: int, change: Change) -> None:
    changed = replace(TRACE, events=tuple(change([*TRACE.events])))
    refused = first_rejection([TRACE, changed])
    assert refused is not None
    assert refused[:2] == (changed, at), refused


@pytest.mark.mysql
@pytest.mark.slow
@pytest.mark.parametrize(
    "count", [pytest.param(6, marks=pytest.mark.thorough), pytest.param(150, marks=pytest.mark.long)]
)
def test_faults_lose_and_double_nothing_and_the_model_follows(count: int, tmp_path: Path, summary: list[str]) -> None:
    counts, traces, wrong = play(range(count), tmp_path)
    assert not wrong, "\n".join(wrong[:5])
    refused = first_rejection(traces)
    assert refused is None, f"{refused[0].title}: {refused[0].events[: refused[1] + 1]}: {refused[2]}"
    events = Counter(event.kind for trace in traces for event in trace.events)
    listed = ", ".join(f"{name} {number}" for name, number in (events + counts).most_common())
    summary.append(
        f"deliveries: {counts.total()} faults, 0 lost, 0 doubled; model: {len(traces)} traces, 0 rejected: {listed}"
    )
    assert {*counts} == {*KINDS, AIMED}


@pytest.mark.mysql
@pytest.mark.long
@pytest.mark.slow
def test_an_answer_that_was_lost_and_is_taken_for_a_commit_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "_is_committed", lambda *_: True)
    _, traces, wrong = play(range(8), tmp_path)
    assert wrong or first_rejection(traces)


@pytest.mark.mysql
@pytest.mark.long
@pytest.mark.slow
def test_a_part_of_a_deliverer_that_was_overtaken_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    complete_part_sql = progress.complete_part_sql

    def without_fence(table: TableId, row: Progress, exit_version: int, part: str, rows: int) -> str:
        return complete_part_sql(table, row, exit_version, part, rows).replace(f"AND fence = {row.fence} ", "")

    monkeypatch.setattr(progress, "complete_part_sql", without_fence)
    _, traces, wrong = play(range(2), tmp_path)
    assert wrong or first_rejection(traces)
