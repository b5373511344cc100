"""Traces of runs with faults, and whether the model of the protocol allows them.

A trace is what happened to one downstream table and the silver table that it is made of, in one scenario: commits,
refusals, kills, what a power cut took; where bronze is a table of the scenario too, what was extracted and removed.
``spec/TraceCheck.tla`` takes it event by event as steps of ``spec/Lake.tla``.

Put here: recording, traces as lines of JSON and as a module of TLA+, what TLC says of many of them at once. Not here:
the model (spec/), or which runs there are (campaign.py).
"""

import json
import re
import tempfile
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from spark_jobs.lake.commit import APPLICATION
from spark_jobs.log.position import Position
from spec.check import Definition, Model, check

_COMMIT = re.compile(r"(.+)/_delta_log/(\d{20})\.json")
_PUBLISHED = "published"
_DO = {"downstream": "down"}
"""Names of the model, by layer, where they differ."""
_KINDS = {"load": "load", "gc": "gc", "redo": "redo"}
"""Events by kind of commit; those of other commits are by layer."""
_NOT_YET = -1
"""The version of a table that is not there."""


@dataclass(frozen=True, slots=True)
class Event:
    """One abstract action.

    kind: grow, extract, gc, window, redo, load, merge, other, publish, refused, killed, gone. do: the table,
    ``bronze``, ``silver``, ``down`` or ``published``. run: who. upon: the version that the commit was planned on;
    start, stop: offsets of the log; silver: the version merged. Of gc, start: where bronze begins since. Of a backfill,
    ranges: the windows that were replaced. Of what is published: start, merged: how far silver and downstream are;
    stop: the run's position; silver, down: the versions.
    """

    kind: str
    do: str = ""
    run: int = 0
    upon: int = _NOT_YET
    counter: int = 0
    start: int = 0
    stop: int = 0
    silver: int = _NOT_YET
    merged: int = 0
    down: int = _NOT_YET
    ranges: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """Events of one table. changes: offsets at which transactions end that change it."""

    title: str
    changes: tuple[int, ...]
    events: tuple[Event, ...]

    def to_lines(self) -> str:
        """One line of JSON for what it is about, and one for each event."""
        head = {"trace": self.title, "changes": list(self.changes)}
        return "".join(f"{json.dumps(line)}\n" for line in (head, *map(asdict, self.events)))

    @classmethod
    def all_of(cls, lines: Iterable[str]) -> "list[Trace]":
        """The traces of a file."""
        traces: list[Trace] = []
        for line in map(json.loads, lines):
            if "trace" in line:
                traces.append(cls(line["trace"], tuple(line["changes"]), ()))
            else:
                line["ranges"] = tuple(map(tuple, line["ranges"]))
                traces[-1] = replace(traces[-1], events=(*traces[-1].events, Event(**line)))
        return traces


@dataclass(frozen=True, slots=True)
class _Recorded:
    """What happened, of all tables: path is the table's folder in the lake; ``of`` the source table of a merge.

    rows: what was published of each source table.
    """

    path: str
    event: Event
    of: str = ""
    rows: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class Recorder:
    """What happens in a lake, in its order."""

    def __init__(self, lake: Path) -> None:
        self._lake = lake
        self._recorded: list[_Recorded] = []
        self._runs = count(1)
        self._local = threading.local()
        self._writers: dict[tuple[str, int], int] = {}
        """By table and version the run that committed it."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """What this thread does is a run of its own while the context lasts; one that is left by Killed is dead."""
        before, self._local.run = self._run_traced, next(self._runs)
        number = self._run_traced
        try:
            yield
        except BaseException as error:
            if not isinstance(error, Exception):
                self._recorded.append(_Recorded("", Event("killed", run=number)))
            raise
        finally:
            self._local.run = before

    @property
    def _run_traced(self) -> int:
        return getattr(self._local, "run", 0)

    @property
    def runs(self) -> int:
        """How many there were."""
        return len({recorded.event.run for recorded in self._recorded} - {0})

    def note_growth(self, stop: int) -> None:
        """Bronze has the log up to an offset."""
        self._recorded.append(_Recorded("", Event("grow", stop=stop)))

    def linked(self, target: str, content: bytes, *, is_created: bool) -> None:
        """A file got its name, or another one has it. Commits of tables are what is recorded."""
        match = _COMMIT.fullmatch(target.removeprefix(f"{self._lake}/"))
        if match is None:
            return
        actions = [json.loads(line) for line in content.splitlines()[:4]]
        info = next(action["commitInfo"] for action in actions if "commitInfo" in action)
        counter = next((action["txn"]["version"] for action in actions if "txn" in action), 0)
        commit = json.loads(info.get("userMetadata") or "{}").get(APPLICATION)
        if commit is None:
            return
        path, version, layer = match[1], int(match[2]), match[1].partition("/")[0]
        of = str(commit.get("table") or "").rpartition(".")[2]
        rows = self._published_rows(match[1], content) if layer == _PUBLISHED and is_created else {}
        kinds = {"downstream": "merge", _PUBLISHED: "publish", "bronze": "extract"}
        event = Event(
            kind=_KINDS.get(commit["kind"]) or kinds.get(layer, "window"),
            do=_DO.get(layer, layer),
            run=self._run_traced,
            upon=version - 1,
            counter=counter,
            start=_offset(commit["oldest"] if commit["kind"] == "gc" else commit.get("start")),
            stop=_offset(commit["position"]),
            silver=commit.get("silver_version", _NOT_YET),
            ranges=tuple((_offset(start), _offset(stop)) for start, stop in commit.get("ranges") or ()),
        )
        if is_created:
            self._writers[path, version] = self._run_traced
        self._recorded.append(_Recorded(path, event if is_created else replace(event, kind="refused"), of, rows))

    def _published_rows(self, path: str, content: bytes) -> dict[str, dict[str, Any]]:
        """The rows that a commit publishes, by source table."""
        actions = map(json.loads, content.splitlines())
        files = [self._lake / path / action["add"]["path"] for action in actions if "add" in action]
        return {row["table"]: row for file in files for row in pq.read_table(file).to_pylist() if row["table"]}

    def power_cut(self) -> None:
        """Notes the commits that are not there any more, the newest of a table first."""
        for path, version in sorted(self._writers, reverse=True):
            if not (self._lake / path / "_delta_log" / f"{version:020}.json").exists():
                run, layer = self._writers.pop((path, version)), path.partition("/")[0]
                self._recorded.append(_Recorded(path, Event("gone", _DO.get(layer, layer), run, version - 1)))

    def trace(self, title: str, changes: Sequence[int], silver: str, target: str) -> Trace:
        """Of one table. silver, target: the folders of both tables in the lake."""
        table, bronze = silver.rpartition("/")[2], [f"bronze/{silver.split('/')[1]}"]
        events: list[Event] = []
        for recorded in self._recorded:
            event, is_own = recorded.event, recorded.path in ("", silver, target, _PUBLISHED, *bronze)
            if not is_own or (event.kind == "grow" and event.stop <= max((e.stop for e in events), default=0)):
                continue
            is_other = event.kind == "merge" and recorded.of not in ("", table)
            if event.kind == "publish":
                event = _of_row(event, recorded.rows.get(table))
            events.append(replace(event, kind="other") if is_other else event)
        return Trace(title, tuple(changes), tuple(events))


def _of_row(event: Event, row: Mapping[str, Any] | None) -> Event:
    """A publication, as it is about one table. One that has no row has no change up to the run's position."""
    if row is None:
        return replace(event, start=event.stop)
    versions = (_NOT_YET if row[name] is None else row[name] for name in ("silver_version", "downstream_version"))
    silver, down = versions
    return replace(event, start=_offset(row["position"]), merged=_offset(row["merged"]), silver=silver, down=down)


def _offset(position: str | None) -> int:
    return Position.parse(position).offset if position else 0


@dataclass(frozen=True, slots=True)
class Rejected:
    """A trace that the model does not allow, and the reason. at: its first event that cannot happen, from 0 on."""

    trace: Trace
    at: int
    reason: str

    def __str__(self) -> str:
        event = self.trace.events[self.at] if self.at < len(self.trace.events) else "its end"
        return f"{self.trace.title}: {self.reason} at event {self.at}: {event}"


def first_rejection(traces: Sequence[Trace]) -> Rejected | None:
    """The first trace that the model does not allow; None where it allows all."""
    # More than there are positions between two changes.
    step = 1 + max(len({*_offsets(trace)}) for trace in traces)
    numbered = [_numbered(trace, step) for trace in traces]
    end = max(event.stop for events in numbered for event in events) + step
    refused = followed([[*map(_members, events)] for events in numbered], _model(end), f"Stride == {step}\n")
    return Rejected(traces[refused[0]], *refused[1:]) if refused else None


def followed(
    traces: Sequence[Sequence[Mapping[str, Any]]], model: Model, definitions: str = ""
) -> tuple[int, int, str] | None:
    """The first trace that a model does not allow, its event that cannot happen, and the reason; None where it has all.

    traces: events as records of TLA+; all of them are one run of TLC. definitions: what the module has besides.
    """
    with tempfile.TemporaryDirectory(prefix="stratalog-traces-") as folder:
        listed = ",\n".join(f"<<{', '.join(map(_tla, events))}>>" for events in traces)
        Path(folder, "Traces.tla").write_text(
            f"---- MODULE Traces ----\nEXTENDS Integers\n{definitions}Traces == <<\n{listed}\n>>\n====\n",
            encoding="utf-8",
        )
        result = check(model, workers=1, folder=Path(folder))
    if result.violated is None:
        return None
    reason = "cannot happen" if result.violated == "Deadlock" else f"{result.violated} does not hold"
    at = result.last["at"] - 1 if result.violated == "Deadlock" else result.last["at"] - 2
    return result.last["trace"] - 1, at, reason


def _model(end: int) -> Model:
    return Model(
        "TraceCheck",
        {
            "LogEnd": end,
            "Touching": Definition("Changing"),
            "Statements": set(),
            "Runs": {"r1"},
            **dict.fromkeys(("Faults", "Replays", "Rewrites", "Resets", "Removals", "Groups"), 0),
        },
        ("Fenced", "Contiguous", "SilverOnce", "DownOnce", "Monotone", "Committed", "Consistent", "LogKept"),
        ("NeverBack",),
        specification="TraceSpec",
        is_complete=False,
    )


def _numbered(trace: Trace, step: int) -> list[Event]:
    """The events with small numbers in the place of offsets: multiples of the step end log that changes the table."""
    offsets = sorted({*_offsets(trace), 0})
    changes, numbers = sorted(trace.changes), {0: 0}
    for before, offset in pairwise(offsets):
        is_changed = bisect_right(changes, offset) > bisect_right(changes, before)
        numbers[offset] = (numbers[before] // step + 1) * step if is_changed else numbers[before] + 1
    return [
        replace(
            event,
            start=numbers[event.start],
            stop=numbers[event.stop],
            merged=numbers[event.merged],
            ranges=tuple((numbers[start], numbers[stop]) for start, stop in event.ranges),
        )
        for event in trace.events
    ]


def _offsets(trace: Trace) -> Iterator[int]:
    for event in trace.events:
        yield from (event.start, event.stop, event.merged)
        for log_range in event.ranges:
            yield from log_range


def _members(event: Event) -> dict[str, Any]:
    names = ("kind", "do", "run", "upon", "counter", "silver", "merged", "down", "ranges")
    return {"from": event.start, "to": event.stop} | {name: getattr(event, name) for name in names}


def _tla(members: Mapping[str, Any]) -> str:
    """A record of TLA+."""
    texts: dict[type, Callable[[Any], str]] = {
        str: '"{}"'.format,
        bool: lambda value: str(value).upper(),
        set: lambda value: f"{{{', '.join(map(str, sorted(value)))}}}",
        tuple: lambda value: f"{{{', '.join(f'<<{start}, {stop}>>' for start, stop in value)}}}",
    }
    return f"[{', '.join(f'{name} |-> {texts.get(type(value), str)(value)}' for name, value in members.items())}]"
