"""Scenarios: a lake that grows by runs with faults, checked after each fault and at the end. Every choice is a seed's.

Put here: which faults come where, and what counts as one. Not here: how a fault is made (disk.py), or what is right
(checking.py).
"""

import logging
import random
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_jobs.config.model import Pipeline
from spark_jobs.delta import commits, data_files, kept
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.errors import StratalogError
from spark_jobs.lake.commit import APPLICATION, CommitKind, new_batch
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position
from spark_jobs.pipeline.initial_load.reading import ReadTable
from spark_jobs.silver.commit import LoadedRows, SilverCommit
from spark_jobs.silver.positions import LOADED_ROW
from tests.binlogs.slicing import FILE
from tests.faults import runs
from tests.faults.cascades import CascadingChanges
from tests.faults.changes import SCHEMA, SOURCE, Changes, bronze_tables
from tests.faults.checking import Checks, Wrong
from tests.faults.disk import CALLS, CATALOG_CALLS, KINDS, Actor, Disk, Killed, calls_of
from tests.faults.renames import RenamedChanges
from tests.faults.runs import (
    APPEND_PARTIAL,
    CASCADES,
    CATALOG,
    FEED,
    HISTORY_PARTIAL,
    KEYLESS,
    LANDINGS,
    LOADS,
    MERGED,
    PARTIAL,
    PUBLISHED,
    RENAMES,
    REPLAYS,
    RULED,
    RULES_CHANGES,
    RULES_CHANGES_PARTIAL,
    RULES_PARTIAL,
    SHARED,
    SOFT_DELETE,
    SOFT_KEYLESS,
    SOFT_PARTIAL,
)
from tests.faults.states import StateChecks
from tests.faults.tracing import Trace

_STEPS = 5
"""Number of times that bronze grows."""
_LOADED = 2
"""The step before which rows are loaded, where they are."""
_REPLAYED = (
    *(REPLAYS, SOFT_DELETE, SOFT_PARTIAL, SOFT_KEYLESS, FEED, APPEND_PARTIAL, HISTORY_PARTIAL),
    *(RULES_CHANGES, RULES_CHANGES_PARTIAL),
)
"""Layouts in which runs merge windows again."""
_FAULTS_A_STEP = 6
_FAULTS_A_RUN = 3
_RACES = 0.06
"""Of runs: two that race."""
_FOLLOWING = (0, 1)
"""Seeds modulo 4 of scenarios whose process follows."""
RACE = "two runs, call by call"


class Log:
    """A generated log with its bronze at each step."""

    def __init__(self, seed: int, folder: Path, layout: str = "mirrors", size: int = 15) -> None:
        folder.mkdir(parents=True)
        self.checks: Checks | StateChecks
        if layout in (CASCADES, RENAMES):
            modelled = (
                CascadingChanges(seed, size)
                if layout == CASCADES
                else RenamedChanges(seed, size, is_partial=seed % 3 == 0)
            )
            # What is derived goes by the order of changes in a slice.
            slice_bytes = 1_600 if layout == CASCADES else 400
            self.bronze = bronze_tables(modelled.content, folder, _STEPS, slice_bytes)
            self.checks = StateChecks(modelled.states)
            return
        changes = Changes(
            seed,
            size,
            statements=seed % 4 != 0,
            shards=layout in (MERGED, SHARED),
            is_partial=layout
            in (PARTIAL, SOFT_PARTIAL, APPEND_PARTIAL, HISTORY_PARTIAL, RULES_PARTIAL, RULES_CHANGES_PARTIAL),
            is_ruled=layout in RULED,
            is_keyless=layout in (KEYLESS, SOFT_KEYLESS) or (layout in (REPLAYS, LANDINGS) and seed % 2 == 1),
        )
        self.bronze = bronze_tables(changes.content, folder, _STEPS)
        self.checks = Checks(changes, layout)


class Scenario:
    """A lake in a folder, and the faults of a seed."""

    def __init__(
        self, seed: int, log: Log, folder: Path, kinds: tuple[str, ...] = (*KINDS, RACE), layout: str = "mirrors"
    ) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.log = log
        self.kinds = kinds
        self.counts: Counter[str] = Counter()
        self.by_call: Counter[str] = Counter()
        self.trace: list[str] = []
        self.pipeline: Pipeline = runs.pipeline_in(folder, layout)
        self.has_replays = layout in _REPLAYED
        self.has_loads = layout in (LOADS, APPEND_PARTIAL, HISTORY_PARTIAL)
        self.has_landings = layout == LANDINGS
        self.publishes = layout in (CASCADES, PUBLISHED, CATALOG)
        self.staged: list[ReadTable] = []
        """Tables that a load has read, and that are landed by each run until one has done all that there was to do."""
        self.folder = folder
        self.disk = Disk(folder / "lake", seed)
        self.weights = CALLS | CATALOG_CALLS if layout == CATALOG else CALLS
        log.checks.begin(self.disk.catalog)
        self.step = 0
        self.kept = self._new_process()
        """Logs that the process keeps from run to run which has the faults, where it follows."""
        self.calls = Counter(dict.fromkeys(self.weights, 4))
        """How many a run makes, by name, as far as runs have shown."""

    def play(self) -> None:
        """Grows the lake by runs with faults. Raises Wrong, or whatever a run must not raise, with the seed."""
        try:
            with self.disk.wrapped():
                for step in range(_STEPS):
                    if self.has_loads and step == _LOADED:
                        self._load()
                    if self.has_landings and step == _LOADED and self._load_rows() > self._until():
                        continue  # in the middle of a window
                    self._grow(step)
                    for _ in range(_FAULTS_A_STEP):
                        is_done = self._fault()
                        self.log.checks.check(self.pipeline, self._until() if is_done else None)
                        if is_done:
                            break
                    else:
                        self._run_and_check()
                        self.disk.forget()
        except BaseException as error:
            last_calls = "\n".join(self.trace[-6:])
            raise Wrong(f"seed {self.seed}: {type(error).__name__}: {error}\n{last_calls}") from error

    def traces(self) -> Iterator[Trace]:
        """What happened so far, a trace for each downstream table of a source table; of renamed tables none."""
        checks, lake = self.log.checks, lake_of(self.pipeline)
        if not isinstance(checks, Checks):
            return
        for table in checks.changes.keys:
            changes = [end for end, event in checks.changes.events if event.table == table]
            silver = lake.silver(SOURCE, SCHEMA, table).path
            for schema, name in checks.targets(table):
                target = lake.downstream(schema, name).path
                paths = [str(Path(path).relative_to(lake.root)) for path in (silver, target)]
                title = f"seed {self.seed}, {table} into {schema}.{name}"
                yield self.disk.recorder.trace(title, changes, *paths)

    def _grow(self, step: int) -> None:
        """Bronze has the log up to a step, unless a run that took over had more already."""
        self.step = max(step, self.step)
        link = self.folder / "lake" / "bronze" / SOURCE
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(self.log.bronze[self.step][0])
        self.disk.recorder.note_growth(self._until())

    def _load(self) -> None:
        """Commits all rows that tables have as rows that a load read, as it does."""
        checks = self.log.checks
        assert isinstance(checks, Checks)
        for name in runs.published(self.pipeline):
            path = lake_of(self.pipeline).silver(SOURCE, name.schema, name.table).path
            table, loaded_at = snapshot_of(path), self._until()
            rows = [*checks.rows_at(name.table, loaded_at)]
            if table is None or not rows:
                continue
            position = {"stretch": 1, "number": Position(FILE, 0).number, "offset": loaded_at}
            cells: dict[str, Any] = {"_op": "load", "_position": position | {"row": LOADED_ROW}}
            cells |= {"_window_start": position, "_window_stop": position}
            schema = table.schema.arrow(physical=False)
            all_cells = [{column: (row | cells).get(column) for column in schema.names} for row in rows]
            file = data_files.write(path, pa.Table.from_pylist(all_cells, schema), table.schema, table.configuration)
            commit = SilverCommit.from_json(table.user_metadata)
            assert commit
            position_read = Position(FILE, loaded_at)
            commit = replace(
                commit,
                kind=CommitKind.LOAD,
                batch=new_batch(),
                start=None,
                steps=None,
                log_bytes=None,
                ranges=(),
                loaded=LoadedRows(len(rows), position_read, position_read),
            )
            counter = table.transactions[APPLICATION] + 1
            version = commits.commit(
                table, adds=[file], transaction=(APPLICATION, counter), user_metadata=commit.to_json()
            )
            checks.loads[name.table] = loaded_at, version

    def _load_rows(self) -> int:
        """Leaves the rows of all tables as a load that read them leaves them, and says where that was.

        They land once there is more log.

        They are those of the end of the log, or, where no statement is between, of a position that runs have not
        reached.
        """
        checks = self.log.checks
        assert isinstance(checks, Checks)
        ends = [end for _, end in self.log.bronze]
        read_at = ends[_LOADED] if checks.is_same_shape(*ends[_LOADED - 1 : _LOADED + 1]) else self._until()
        position = Position(FILE, read_at)
        with self.disk.acting(None):
            for name in runs.published(self.pipeline):
                rows = [*checks.rows_at(name.table, read_at)]
                self.staged.append(runs.staged(self.pipeline, name, rows, position))
        checks.read_at = read_at
        self.disk.forget()
        return read_at

    def _until(self) -> int:
        """The offset that bronze reaches."""
        return self.log.bronze[self.step][1]

    def _run_and_check(self) -> None:
        with self.disk.acting(None), self.disk.recorder.running():
            seed = self.random.randrange(1 << 30)
            runs.run_until_current(self.pipeline, seed, staged=self._landing, publishes=self.publishes)
            self._landed()
            self.log.checks.check(self.pipeline, self._until())

    @property
    def _landing(self) -> list[ReadTable]:
        """What a run is to land: not before there is log behind what was read."""
        return self.staged if self.step > _LOADED else []

    def _landed(self) -> None:
        """Notes that a run has landed all tables."""
        if self._landing:
            self.staged = []

    def _fault(self) -> bool:
        """A run with a fault, if it makes the call that is to fail; whether it did all that there was to do."""
        if RACE in self.kinds and self.random.random() < _RACES:
            self._race()
            return False
        actor = Actor(self._random_faults(), rivals=self._run_rivals, kept=self.kept)
        failed = self._run_as(actor)
        if actor.is_dead:
            self.kept = self._new_process()
        self.calls |= actor.calls
        for operation, number in actor.faults:
            self.calls[operation] = max(1, min(self.calls[operation], number - 1))
        for operation, kind, text in actor.failed:
            self.counts[kind] += 1
            self.by_call[operation] += 1
            self.trace.append(text)
        if actor.failed:
            self.trace.append(failed or "the run went on")
        if any(kind == "power cut" for _, kind, _ in actor.failed):
            self.disk.cut_power()
        else:
            self.disk.forget()
        return not failed

    def _new_process(self) -> Any:
        """What a process begins with: every second scenario's follows, and keeps logs until it is killed."""
        return kept._Logs() if self.seed % 4 in _FOLLOWING else None

    def _random_faults(self) -> dict[tuple[str, int], str]:
        """Faults of a run: several, as those that end it end the rest."""
        faults: dict[tuple[str, int], str] = {}
        for _ in range(_FAULTS_A_RUN):
            kind = self.random.choice([kind for kind in self.kinds if kind != RACE])
            names = calls_of(kind, self.weights)
            (operation,) = self.random.choices(names, [self.weights[name] for name in names])
            faults[operation, min(self.random.randint(1, self.calls[operation]) for _ in range(2))] = kind
        return faults

    def _run_as(self, actor: Actor) -> str:
        """A run as an actor; how it failed."""
        try:
            with self.disk.acting(actor), self.disk.recorder.running():
                stopped = self._process(self.random.randrange(1 << 30))
            if not stopped:
                self._landed()
        except (Killed, StratalogError) as error:
            return f"{type(error).__name__} {error}"
        return str(stopped or "")

    def _process(self, seed: int) -> dict[str, str]:
        """A run by a seed; what stopped."""
        return runs.run(self.pipeline, seed, replays=self.has_replays, staged=self._landing, publishes=self.publishes)

    def _race_as(self, seed: int) -> None:
        """One of two runs at once."""
        runs.run(self.pipeline, seed, publishes=self.publishes)

    def _run_rivals(self, kind: str) -> None:
        """What others do while a run waits: a run of all, or of a longer log."""
        if kind == "taken over by a later run":
            self._grow(min(self.step + 1, _STEPS - 1))
        # What the run that waits has not made durable still is not: others have used its folders by now.
        self._run_and_check()

    def _race(self) -> None:
        """Two runs at once, whose calls come in an order of the seed."""
        interleaving = _Interleaving(self.random.randrange(1 << 30))
        seeds = [self.random.randrange(1 << 30) for _ in range(2)]
        failures: list[BaseException] = []

        def run(number: int) -> None:
            actor = Actor(step=lambda: interleaving.next(number), kept=self.kept if number == 0 else None)
            with self.disk.acting(actor), interleaving.taking_part(number), self.disk.recorder.running():
                try:
                    self._race_as(seeds[number])
                except BaseException as error:  # noqa: BLE001 - raised by the thread that waits; a lost race too
                    failures.append(error)

        threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        self.counts[RACE] += 1
        self.trace.append(RACE)
        self.disk.forget()


class _Interleaving:
    """Lets two threads go on one at a time."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._changed = threading.Condition()
        self._present = [0, 1]
        self._allowed = 0

    @contextmanager
    def taking_part(self, number: int) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: self._allowed == number)
        try:
            yield
        finally:
            with self._changed:
                self._present.remove(number)
                self._allowed = self._present[0] if self._present else -1
                self._changed.notify_all()

    def next(self, number: int) -> None:
        with self._changed:
            self._allowed = self._random.choice(self._present)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._allowed == number)


def play(
    seeds: range,
    folder: Path,
    kinds: tuple[str, ...] = (*KINDS, RACE),
    layout: str = "mirrors",
    *,
    to_first_wrong: bool = False,
    traces: Path | None = None,
) -> tuple[Counter[str], Counter[str], list[str]]:
    """Faults by kind and by call of the scenarios of some seeds, and what was wrong in which.

    layout: as in runs.py. to_first_wrong: whether a scenario in which something was wrong is the last. traces: a folder
    for what happened.
    """
    logging.disable(logging.CRITICAL)  # of thousands of runs that fail
    counts, by_call, wrong = Counter[str](), Counter[str](), list[str]()
    log: Log | None = None
    with runs.without_spark():
        for seed in seeds:
            if log is None or seed % 10 == 0:
                log = Log(seed // 10, folder / f"log{seed}", layout)
            home = folder / f"scenario{seed}"
            home.mkdir(parents=True)
            scenario = Scenario(seed, log, home, kinds, layout)
            try:
                scenario.play()
            except Wrong as error:
                wrong.append(str(error))
            if traces:
                lines = "".join(trace.to_lines() for trace in scenario.traces())
                Path(traces, f"{layout} {seed}.jsonl").write_text(lines, encoding="utf-8")
            counts += scenario.counts
            by_call += scenario.by_call
            shutil.rmtree(home)
            if wrong and to_first_wrong:
                break
    logging.disable(logging.NOTSET)
    return counts, by_call, wrong
