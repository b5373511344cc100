"""gc and backfills beside runs, with faults: nothing is lost or doubled, and the model follows."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.operations.retention import gc
from tests.faults.commands import play
from tests.faults.disk import KINDS
from tests.faults.tracing import first_rejection

pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # what a killed process had open
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "count", [pytest.param(2, marks=pytest.mark.thorough), pytest.param(60, marks=pytest.mark.long)]
)
def test_commands_lose_and_double_nothing_and_the_model_follows(count: int, tmp_path: Path, summary: list[str]) -> None:
    counts, traces, wrong = play(range(count), tmp_path)
    assert not wrong, "\n".join(wrong[:5])
    refused = first_rejection(traces)
    assert refused is None, str(refused)
    events = Counter(event.kind for trace in traces for event in trace.events)
    listed = ", ".join(f"{name} {number}" for name, number in (events + counts).most_common())
    summary.append(f"commands: {counts.total()} faults; model: {len(traces)} traces, 0 rejected: {listed}")
    assert {"gc", "redo", "extract"} <= {*events}
    # Log that is removed before the publication that was waited for is seen.
    trace = next(trace for trace in traces if any(event.kind == "gc" for event in trace.events))
    at, begin = next((at, event.start) for at, event in enumerate(trace.events) if event.kind == "gc")
    earlier = next(at for at, event in enumerate(trace.events) if event.kind == "publish" and event.start >= begin)
    swapped = [*trace.events]
    swapped[earlier], swapped[at] = swapped[at], swapped[earlier]
    assert first_rejection([replace(trace, events=tuple(swapped))]) is not None
    assert count < len(KINDS) or {*KINDS} <= {*counts}


@pytest.mark.long
@pytest.mark.slow
def test_gc_that_waits_for_nobody_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc._Collection, "_waited_for", lambda *_, **__: [])
    _, traces, wrong = play(range(27, 28), tmp_path)  # whose gc comes while a table is behind by two files of the log
    assert wrong or first_rejection(traces)
