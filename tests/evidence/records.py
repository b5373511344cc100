"""What the page of evidence is about, run; each function yields the record of what came of it so far.

Each takes the record that is there, as a dict that may be empty, and the commit and date of this run. The last record
that it yields is the whole.

Put here: running and counting. Not here: where records are written (__main__.py), or the page (docs/evidence).
"""

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from corpus.judge import RIGHT, judge
from corpus.run import Here, cases
from spec.check import MODELS, MUTANTS, check, check_mutant
from tests.faults import commands, deliveries, leases, runs
from tests.faults.campaign import play
from tests.faults.hours import play as play_hours
from tests.faults.tracing import Trace, first_rejection
from tests.fix_spark import light_session
from tests.fuzz.targets import TARGETS
from tests.lakes.engine_tasks import in_this_process
from tests.mutants.guards import GUARDS
from tests.mutants.judging import ROOT, Judge, digest_of
from tests.soaks.cascade_campaign import KINDS, LARGE, Case, KindsRunning
from tests.soaks.cascade_campaign import play as play_cascades
from tests.soaks.delivery_soak import soak_of_deliveries
from tests.soaks.soak import soak as soak_of_runs

_SEEDS = {
    "mirrors": 24,
    runs.PUBLISHED: 10,
    **dict.fromkeys((runs.PARTIAL, "modes", runs.LANDINGS, runs.ICEBERG, runs.KEYLESS, runs.RULES, runs.MERGED), 8),
    **dict.fromkeys((runs.LOADS, runs.CASCADES, runs.SHARED), 6),
    **dict.fromkeys((runs.CATALOG, runs.RULES_PARTIAL), 5),
    **dict.fromkeys(("subscriptions", "deliveries"), 4),
    **dict.fromkeys((runs.SOFT_PARTIAL, runs.RULES_CHANGES_PARTIAL), 1),
}
"""Seeds of a layout in a part of the faults, where they are not two: each has some 25 seconds of a processor in it.

A part that is ended is lost.
"""
_MEMORY = Path("/dev/shm")  # noqa: S108 - folders of its own in it
"""Where lakes are in memory: what a power cut takes of them is a model's, and no disk has to be waited for."""
_FIRST_SEED = 5000
_RUNS = 8
"""Of a pipeline over random foreign keys, before the last one."""
Record = dict[str, Any]


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def faults(before: Record, run: Record, count: str = "10000") -> Iterator[Record]:
    """Scenarios over all layouts, seed after seed after those of the record, until it has so many faults.

    One that was wrong and is right since, by whoever mended it, is written from ``wrong`` to ``mended``.
    """
    layouts, enough = [*_APART, *runs.LAYOUTS], int(count)  # what waits for servers does not come last
    by_layout, kinds = Counter[str](before.get("by_layout", {})), Counter[str](before.get("by_kind", {}))
    scenarios, wrong = before.get("scenarios", 0), list[str](before.get("wrong", []))
    first, last = before.get("seeds", [_FIRST_SEED, _FIRST_SEED - 1])
    runs_before, began, first_here = _runs_of(before, "faults"), time.monotonic(), last + 1
    counted_before = kinds.total()
    while kinds.total() < enough:
        played = []
        for layout in layouts:
            seeds = range(last + 1, last + 1 + _SEEDS.get(layout, 2))
            last = seeds[-1]
            played.append((layout, seeds))
        # Processes keep memory and end with each part. They are not renewed during a part: the executor of Python 3.11
        # can wait for ever for a process that max_tasks_per_child has ended.
        with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
            for (layout, seeds), (by_kind, texts) in zip(played, pool.map(_played, played), strict=True):
                scenarios += len(seeds)
                kinds += by_kind
                by_layout[layout] += by_kind.total()
                wrong += [text.partition("\n")[0] for text in texts]
        say(f"{kinds.total():,} faults in {scenarios:,} scenarios, {len(wrong)} wrong")
        this_run = run | {
            "seeds": [first_here, last],
            "faults": kinds.total() - counted_before,
            "seconds": round(time.monotonic() - began),
        }
        yield {
            "faults": kinds.total(),
            "scenarios": scenarios,
            "seeds": [first, last],
            "by_kind": dict(kinds.most_common()),
            "by_layout": dict(by_layout.most_common()),
            "runs": [*runs_before, this_run],
            "seconds_before": before.get("seconds", 0),
            "mended": before.get("mended", []),
            "wrong": wrong,
        }


def _runs_of(record: Record, counted: str) -> list[Record]:
    """The runs that a record is made of. counted: the member that adds up."""
    if not record:
        return []
    single_run = {name: record[name] for name in ("commit", "date", "command", "seeds", counted, "seconds")}
    return list(record.get("runs") or [single_run])


def _played(scenarios: tuple[str, range]) -> tuple[Counter[str], list[str]]:
    """Faults by kind of the scenarios of some seeds, and what was wrong."""
    layout, seeds = scenarios
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        if layout in _APART:
            by_kind, wrong = _APART[layout](seeds, Path(folder))
        else:
            by_kind, _, wrong = play(seeds, Path(folder), layout=layout)
    return by_kind, [f"{layout}: {text}" for text in wrong]


def cascades(before: Record, run: Record, count: str = "100000", seconds: str = "inf") -> Iterator[Record]:
    """Pipelines over random foreign keys with each server, seed after seed behind those of the record.

    Until so many changes are derived, and twice as many updates and deletes of parents are in the logs, or so many
    seconds have passed.
    """
    by_server = {name: Counter[str](before.get("by_server", {}).get(name, {})) for name in KINDS}
    wrong, runs_before = list[str](before.get("wrong", [])), _runs_of(before, "derived")
    first, last = before.get("seeds", [_FIRST_SEED, _FIRST_SEED])
    derived_before, began, seeds_here = before.get("derived", 0), time.monotonic(), set[int]()
    with tempfile.TemporaryDirectory() as folder, in_this_process(), KindsRunning(Path(folder)) as running:
        spark = light_session(Path(folder, "warehouse"))
        while not _is_enough(by_server, int(count)) and time.monotonic() - began < float(seconds):
            # Next is the server with the fewest scenarios.
            name = min(by_server, key=lambda name: by_server[name]["scenarios"])
            case = Case(name, first + by_server[name]["scenarios"], _RUNS, LARGE, kills=True)
            counted, errors = _played_cascades(case, spark, running, Path(folder, "lake"))
            by_server[name] += counted
            wrong += errors
            seeds_here.add(case.seed)
            parents, derived = (_total(by_server, kind) for kind in ("parents", "derived"))
            say(f"{case}: {dict(counted)}\n{parents:,} changes of parents, {derived:,} derived, {len(wrong)} wrong")
            this_run = run | {
                "seeds": [min(seeds_here), max(seeds_here)],
                "derived": derived - derived_before,
                "seconds": round(time.monotonic() - began),
            }
            yield {
                "parents": parents,
                "derived": derived,
                "seeds": [first, max(last, *seeds_here)],
                "by_server": {name: dict(counted) for name, counted in by_server.items()},
                "runs": [*runs_before, this_run],
                "seconds_before": before.get("seconds", 0),
                "wrong": wrong,
            }
        spark.stop()


def _is_enough(by_server: Mapping[str, Counter[str]], count: int) -> bool:
    return _total(by_server, "derived") >= count and _total(by_server, "parents") >= 2 * count


def _total(by_server: Mapping[str, Counter[str]], kind: str) -> int:
    return sum(counted[kind] for counted in by_server.values())


def _played_cascades(
    case: Case, spark: SparkSession, running: KindsRunning, folder: Path
) -> tuple[Counter[str], list[str]]:
    """A scenario, whose lake is gone afterwards; what was wrong with it."""
    folder.mkdir()
    counted, wrong = Counter(scenarios=1), list[str]()
    try:
        counted += play_cascades(case, spark, running.get(case.kind), folder)
    except Exception as error:  # noqa: BLE001 - whatever ended a run is in the record
        wrong.append(f"{case}: {type(error).__name__}: {str(error).partition(chr(10))[0]}")
    shutil.rmtree(folder)
    return counted, wrong


def _played_consumers(seeds: range, folder: Path) -> tuple[Counter[str], list[str]]:
    """Short scenarios of consumer groups; what is right of them is what the model says."""
    first = seeds.start * 20
    by_kind, traces = leases.play(range(first, seeds.stop * 20), folder)
    refused = leases.first_rejection(traces)
    return by_kind, [f"seed {first + refused[0]}, event {refused[1]}: {refused[2]}"] if refused else []


def _played_deliveries(seeds: range, folder: Path) -> tuple[Counter[str], list[str]]:
    """Scenarios that share a server, which takes as long to start as one of them."""
    by_kind, traces, wrong = deliveries.play(range(seeds.start * 4, seeds.stop * 4), folder)
    refused = deliveries.first_rejection(traces)
    return by_kind, [*wrong, *([f"{refused[0].title}, event {refused[1]}: {refused[2]}"] if refused else [])]


_APART = {"subscriptions": _played_consumers, "deliveries": _played_deliveries}
"""What is no layout of tables: the scenarios of some seeds. Several of them count as one."""


def models(_before: Record, _run: Record, size: str = "full") -> Iterator[Record]:
    """Distinct states of each model, and by mutant what it violated."""
    checked = {name: check(model) for name, model in MODELS[size].items()}
    refuted = {}
    for mutant in MUTANTS:
        violated = check_mutant(mutant).violated
        refuted[f"{mutant.model}: {mutant.guard}"] = violated if violated in mutant.violated else None
    yield {
        "bounds": size,
        "states": {name: result.states for name, result in checked.items()},
        "mutants": refuted,
        "wrong": [
            *(f"{name}: {result.violated}" for name, result in checked.items() if result.violated),
            *(f"{name}: nothing is violated" for name, violated in refuted.items() if violated is None),
        ],
    }


def mutants(before: Record, run: Record, *parts: str) -> Iterator[Record]:
    """By promise of a guard the test that noticed that it was gone.

    A guard is judged where the record does not have it, or has it as another text, or as one that no test noticed.
    parts: of the promises of the guards that are meant; all without any.
    """
    known, judged = before.get("guards", {}), dict[str, Record]()
    due = []
    for guard in GUARDS:
        entry = known.get(guard.promise)
        if entry:
            judged[guard.promise] = entry
        is_known = entry and entry["killer"] and entry["digest"] == digest_of(guard)
        if any(part in guard.promise for part in parts) or not (parts or is_known):
            due.append(guard)
    # Those that no session has judged yet come first, so that a run that is ended leaves more.
    due.sort(key=lambda guard: guard.promise in judged)
    seconds = before.get("seconds", 0)
    if not due:
        yield _of_guards(judged, seconds)
    with tempfile.TemporaryDirectory() as folder, Judge(Path(folder)) as judge:
        for guard in due:
            digest = digest_of(guard)
            try:
                result = judge.judge(guard, known.get(guard.promise, {}).get("killer"))
            except TimeoutError as error:  # nothing is known of this guard
                say(f"| {guard.promise} | not judged: {error} | |")
                continue
            entry = {"killer": result.killer, "seconds": round(result.seconds, 1), "digest": digest}
            judged[guard.promise] = entry | {name: run[name] for name in ("commit", "date")}
            say(f"| {guard.promise} | {result.killer or 'SURVIVED'} | {result.seconds:.0f} s |")
            yield _of_guards(judged, seconds)


def _of_guards(judged: Record, seconds: int) -> Record:
    guards = {guard.promise: judged[guard.promise] for guard in GUARDS if guard.promise in judged}
    survivors = [promise for promise, entry in guards.items() if entry["killer"] is None]
    missing = [f"not judged yet: {guard.promise}" for guard in GUARDS if guard.promise not in judged]
    # Of all guards, whichever were judged this time.
    every_one = {"command": "python -m tests.evidence mutants"}
    return every_one | {"guards": guards, "seconds_before": seconds, "wrong": survivors + missing}


def traces(
    _before: Record,
    _run: Record,
    scenarios: str = "850",
    seeds: str = "2",
    delivered: str = "20",
    commanded: str = "10",
) -> Iterator[Record]:
    """Traces of runs with faults that the models follow.

    scenarios: of consumer groups. seeds: scenarios of the lake, of each layout. delivered: scenarios of deliveries.
    commanded: of gc and backfills beside runs.
    """
    wrong, events, counted = list[str](), Counter[str](), dict[str, int]()
    with tempfile.TemporaryDirectory() as folder:
        consumers = Path(folder, "consumers")
        consumers.mkdir()
        _, of_consumers = leases.play(range(int(scenarios)), consumers)
        events.update(event.kind for trace in of_consumers for event in trace)
        counted["consumer groups"] = len(of_consumers)
        if refused := leases.first_rejection(of_consumers):
            wrong.append(f"consumers, seed {refused[0]}, event {refused[1]}: {refused[2]}")
        _, of_deliveries, texts = deliveries.play(range(int(delivered)), Path(folder, "deliveries"))
        wrong += texts
        events.update(event.kind for trace in of_deliveries for event in trace.events)
        counted["deliveries"] = len(of_deliveries)
        if refused_delivery := deliveries.first_rejection(of_deliveries):
            wrong.append(f"{refused_delivery[0].title}, event {refused_delivery[1]}: {refused_delivery[2]}")
        lines = Path(folder, "traces")
        lines.mkdir()
        for layout in runs.LAYOUTS:
            _, _, texts = play(range(200, 200 + int(seeds)), Path(folder, layout), layout=layout, traces=lines)
            wrong += [text.partition("\n")[0] for text in texts]
        of_tables = [trace for file in sorted(lines.iterdir()) for trace in Trace.all_of(file.read_text().splitlines())]
        events.update(event.kind for trace in of_tables for event in trace.events)
        counted["tables"] = len(of_tables)
        _, of_commands, texts = commands.play(range(int(commanded)), Path(folder, "commands"))
        wrong += [text.partition("\n")[0] for text in texts]
        events.update(event.kind for trace in of_commands for event in trace.events)
        counted["gc and backfills"] = len(of_commands)
        if rejected := first_rejection(of_commands):
            wrong.append(str(rejected))
        if rejected := first_rejection(of_tables):
            wrong.append(str(rejected))
    yield {"traces": counted, "events": dict(events.most_common()), "wrong": wrong}


def soak(_before: Record, _run: Record, seconds: str = "1800", seed: str = "1") -> Iterator[Record]:
    """A pipeline, and deliveries, under load while their processes die: the times of each fault, and rows lost."""
    accounts, wrong = {}, list[str]()
    for name, play_soak in (("pipeline", soak_of_runs), ("deliveries", soak_of_deliveries)):
        with tempfile.TemporaryDirectory() as folder:
            try:
                accounts[name] = vars(play_soak(float(seconds), Path(folder), int(seed), say))
            except AssertionError as error:
                wrong.append(f"{name}: {str(error).partition(chr(10))[0]}")
        yield {"seconds_each": int(seconds), "seed": int(seed), "accounts": accounts, "wrong": wrong}


def hours(before: Record, _run: Record, count: str = "2", *seeds: str) -> Iterator[Record]:
    """Hours of a follower by its clock, by seed: processes, faults and what was compared. Without seeds: 1 to 6."""
    chosen = seeds or ("1", "2", "3", "4", "5", "6")
    scenarios, wrong = dict(before.get("scenarios", {})), list[str](before.get("wrong", []))
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        played = pool.map(_played_hours, chosen, [float(count)] * len(chosen))
        for seed, (scenario, texts) in zip(chosen, played, strict=True):
            scenarios[seed] = scenario
            wrong += [text.partition("\n")[0] for text in texts]
            say("\n".join([f"seed {seed}: {scenario}", *texts]))
            command = f"python -m tests.evidence hours {count} {' '.join(scenarios)}"  # those of the record before too
            seconds_before = before.get("seconds", 0)
            yield {"command": command, "scenarios": scenarios, "seconds_before": seconds_before, "wrong": wrong}


def _played_hours(seed: str, count: float) -> tuple[Record, list[str]]:
    """What happened in so many hours of a seed, and what was wrong."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        account, texts = play_hours(int(seed), count, Path(folder))
    return vars(account) | {"hours": count, "seconds": round(time.monotonic() - began)}, texts


def corpus(_before: Record, _run: Record) -> Iterator[Record]:
    """Cases of the corpus by what this decoder makes of them."""
    known = cases()
    outputs = Here().outputs(known)
    verdicts = {name: judge(case, outputs[name]).verdict for name, case in known.items()}
    yield {
        "cases": len(known),
        "verdicts": dict(Counter(verdicts.values()).most_common()),
        "wrong": [f"{name}: {verdict}" for name, verdict in verdicts.items() if verdict != RIGHT],
    }


def fuzz(before: Record, run: Record, seconds: str = "600", *chosen: str) -> Iterator[Record]:
    """Executions of each fuzzer, and what it found. chosen: targets; all without any."""
    targets = dict(before.get("targets", {}))
    for target in chosen or TARGETS:
        folder = ROOT / ".fuzz" / target  # kept, as is what is found
        before_this = set(folder.glob("found-*"))
        command = [sys.executable, "-m", "tests.fuzz", target, seconds, str(folder)]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        counts = re.findall(r"number_of_executed_units:\s*(\d+)", ran.stderr)
        found = [str(file.relative_to(ROOT)) for file in sorted({*folder.glob("found-*")} - before_this)]
        if ran.returncode and not found:
            found.append(f"ended with {ran.returncode}")
        targets[target] = {
            "executions": int(counts[-1]) if counts else 0,
            "seconds": int(seconds),
            "found": found,
            "commit": run["commit"],
            "date": run["date"],
        }
        yield {
            "targets": {name: targets[name] for name in TARGETS if name in targets},
            "seconds_before": before.get("seconds", 0),
            "wrong": [f"{name}: {text}" for name, entry in targets.items() for text in entry["found"]],
        }
