"""The model follows a trace as it was recorded, and not one in which something else happened."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.campaign import play
from tests.faults.tracing import Event, Trace, first_rejection

TRACE = Trace(
    "a table that two runs bring forward, one of which is killed",
    (120, 450, 900),
    (
        Event("grow", stop=500),
        Event("window", "silver", 1, -1, 1, 0, 300),
        Event("refused", "silver", 2, -1, 1, 0, 500),
        Event("window", "silver", 1, 0, 2, 300, 500),
        Event("merge", "down", 1, -1, 1, 0, 500, silver=1),
        Event("grow", stop=950),
        Event("window", "silver", 3, 1, 3, 500, 950),
        Event("killed", run=3),
        Event("gone", "silver", 3, 1),
        Event("window", "silver", 4, 1, 3, 500, 950),
        Event("merge", "down", 4, 0, 2, 500, 950, silver=2),
    ),
)
Change = Callable[[list[Event]], Sequence[Event]]


def require_rejection(trace: Trace, change: Change, at: int) -> None:
    """The model follows a changed trace up to the event of this number, and the trace itself."""
    changed = replace(trace, events=tuple(change([*trace.events])))
    refused = first_rejection([trace, changed])
    assert refused is not None
    assert (refused.trace, refused.at) == (changed, at), str(refused)


def test_the_model_follows_what_happened() -> None:
    assert first_rejection([TRACE, TRACE]) is None


CHANGES: dict[str, tuple[int, Change]] = {
    "the first window dropped": (1, lambda events: [events[0], *events[2:]]),
    "a window dropped": (3, lambda events: [*events[:3], *events[4:]]),
    "a merge dropped": (9, lambda events: [*events[:4], *events[5:]]),
    "a window doubled": (4, lambda events: [*events[:4], events[3], *events[4:]]),
    "a merge doubled": (5, lambda events: [*events[:5], events[4], *events[5:]]),
    "a merge before its window": (3, lambda events: [*events[:3], events[4], events[3], *events[5:]]),
    "windows swapped": (1, lambda events: [events[0], events[3], events[2], events[1], *events[4:]]),
    "a commit that is there made again": (8, lambda events: [*events[:8], *events[9:]]),
    "by a run that was killed": (9, lambda events: [*events[:9], replace(events[9], run=3), *events[10:]]),
    "a gap": (9, lambda events: [*events[:9], replace(events[9], start=920), *events[10:]]),
    "a counter left out": (9, lambda events: [*events[:9], replace(events[9], counter=4), *events[10:]]),
    "an older version merged": (10, lambda events: [*events[:10], replace(events[10], silver=1)]),
    "a position behind": (10, lambda events: [*events[:10], replace(events[10], stop=500)]),
}
"""What else may have happened, by the event at which the model does not follow."""
_CHEAP = ("a window dropped", "a merge doubled", "a counter left out")


@pytest.mark.parametrize(
    "at, change",
    [
        pytest.param(at, change, id=name, marks=[] if name in _CHEAP else pytest.mark.thorough)
        for name, (at, change) in CHANGES.items()
    ],
)
def test_the_model_follows_nothing_else(at: int, change: Change) -> None:
    require_rejection(TRACE, change, at)


_FIRST = Event("publish", "published", 2, -1, 1, 500, 500, silver=1, merged=500, down=0)
_SECOND = Event("publish", "published", 4, 0, 2, 950, 950, silver=2, merged=950, down=1)
PUBLISHED = replace(TRACE, events=(*TRACE.events[:5], _FIRST, *TRACE.events[5:], _SECOND))


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    "at, change",
    [
        (4, lambda events: [*events[:4], events[5], events[4], *events[6:]]),
        (12, lambda events: [*events[:12], replace(_SECOND, down=0)]),
        (13, lambda events: [*events, replace(_FIRST, run=4, upon=1, counter=3)]),
        (13, lambda events: [*events, _SECOND]),
    ],
    ids=[
        *("before its merge", "an older version of a target", "published back", "published twice"),
    ],
)
def test_the_model_follows_no_other_publication(at: int, change: Change) -> None:
    changed = replace(PUBLISHED, events=tuple(change([*PUBLISHED.events])))
    refused = first_rejection([PUBLISHED, changed])
    assert refused is not None
    assert (refused.trace, refused.at) == (changed, at), str(refused)


COMMANDS = Trace(
    "a table whose windows a backfill replaces while gc removes their log",
    (120, 450, 900),
    (
        Event("extract", "bronze", 1, -1, 1, 0, 500),
        Event("window", "silver", 1, -1, 1, 0, 300),
        Event("window", "silver", 1, 0, 2, 300, 500),
        Event("merge", "down", 1, -1, 1, 0, 500, silver=1),
        Event("publish", "published", 1, -1, 1, 500, 500, silver=1, merged=500, down=0),
        Event("redo", "silver", 2, 1, 3, 0, 500, ranges=((0, 300), (300, 500))),
        Event("merge", "down", 2, 0, 2, 500, 500, silver=2),
        Event("publish", "published", 2, 0, 2, 500, 500, silver=2, merged=500, down=1),
        Event("extract", "bronze", 3, 0, 2, 500, 950),
        Event("refused", "bronze", 4, 0, 2, 400, 500),
        Event("gc", "bronze", 4, 1, 3, 400, 950),
        Event("window", "silver", 3, 2, 4, 500, 950),
        Event("merge", "down", 3, 1, 3, 500, 950, silver=3),
        Event("publish", "published", 3, 1, 3, 950, 950, silver=3, merged=950, down=2),
        Event("gc", "bronze", 5, 2, 4, 900, 950),
    ),
)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    "at, change",
    [
        (14, lambda events: [*events[:14], replace(events[14], upon=1, counter=3)]),
        (12, lambda events: [*events[:10], *events[11:13], replace(events[14], upon=1, counter=3), events[13]]),
        (8, lambda events: [*events[:8], events[10], events[9], events[8], *events[11:]]),
        (5, lambda events: [*events[:5], events[6], events[5], *events[7:]]),
        (6, lambda events: [*events[:6], *events[7:]]),
        (6, lambda events: [*events[:6], events[5], *events[6:]]),
        (5, lambda events: [*events[:5], replace(events[5], ranges=((0, 500),)), *events[6:]]),
        (5, lambda events: [*events[:5], replace(events[5], stop=300), *events[6:]]),
        (1, lambda events: [events[0], events[5], events[2], *events[3:5], events[1], *events[6:]]),
        (8, lambda events: [*events[:8], replace(events[8], start=400), *events[9:]]),
    ],
    ids=[
        *("gc upon an older head", "gc before its publication", "gc and extraction swapped"),
        *("merged before its backfill", "a backfill that is not merged", "a backfill doubled"),
        *("of no window", "a position moved", "a backfill before its window", "a log that is extracted twice"),
    ],
)
def test_the_model_follows_no_other_commands(at: int, change: Change) -> None:
    require_rejection(COMMANDS, change, at)


def test_a_trace_is_lines_of_json() -> None:
    for trace in (TRACE, COMMANDS):
        assert Trace.all_of([*trace.to_lines().splitlines(), *trace.to_lines().splitlines()]) == [trace, trace]


@pytest.mark.thorough
@pytest.mark.slow
def test_a_recorded_commit_that_is_swapped_dropped_or_doubled_is_seen(tmp_path: Path) -> None:
    play(range(200, 201), tmp_path, traces=tmp_path)
    (file,) = tmp_path.glob("*.jsonl")
    trace = Trace.all_of(file.read_text().splitlines())[0]
    assert first_rejection([trace]) is None
    first, second = [at for at, event in enumerate(trace.events) if event.kind in ("window", "merge")][-2:]
    events = trace.events
    swapped = (*events[:first], events[second], *events[first + 1 : second], events[first], *events[second + 1 :])
    dropped = (*events[:first], *events[first + 1 :])
    doubled = (*events[: first + 1], *events[first:])
    for changed in (swapped, dropped, doubled):
        assert first_rejection([replace(trace, events=changed)]) is not None
