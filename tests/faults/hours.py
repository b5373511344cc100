"""Hours of a follower in minutes: a log by its clock, a run each ten seconds, and what operators have beside runs.

Each minute a delivery writes what a target lacks, and a consumer takes what the log has; gc, maintenance and a backfill
come less often. A share of all these processes has faults, which a seed decides, as it decides the log. Times of files
and commits are those of the clock, so that log expires and files are removed as they are in hours.

Put here: the clock, who comes when, and what is right of each. Not here: how a fault is made (disk.py), what a table
has to have (checking.py), extraction (extraction.py).
"""

import logging
import os
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any
from unittest.mock import patch

import time_machine

from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.deliveries import Delivery
from spark_jobs.config.servers import MySQL
from spark_jobs.delivery.deliver import deliver
from spark_jobs.demo.server import MySQLServer
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.retry import retry_on_conflict
from spark_jobs.log.position import Position, Range
from spark_jobs.operations.retention.gc import gc_source
from spark_jobs.operations.retention.maintenance import maintain_source
from spark_jobs.subscriptions.subscription import Subscription
from tests.faults import runs
from tests.faults.campaign import RACE, Log, Scenario
from tests.faults.changes import SCHEMA, SOURCE, Changes, Event, Row, Twin
from tests.faults.checking import Checks, Wrong, require_same, row_cells
from tests.faults.commands import replayed
from tests.faults.deliveries import DELIVERY, Targets, rows_of_answer
from tests.faults.disk import CALLS, KINDS, Actor, Disk, calls_of
from tests.faults.extraction import extract, log_parts
from tests.faults.runs import SPARK

HOUR = 3600
_EACH = 10
"""Seconds of the clock between two runs."""
_MINUTE = 60
_FILE = 600
"""Seconds of log that a file of it has."""
_TRANSACTIONS = 400
"""Of an hour."""
_STATEMENTS = 3
"""Of an hour: they change columns, or empty a table."""
_KEPT = timedelta(hours=1)
"""Time that log is kept, and data files of older versions."""
_FAULTY = 0.3
"""Of processes: those that get faults."""
_TASK_BYTES = 20_000
"""Of a task: a replay of half an hour is some tasks'."""
_GROUP = "audit"
_LEASE = 45.0
"""Seconds of the clock: a consumer that was killed has lost the group when the next one comes."""
_BATCH = 40
"""Entries that a consumer takes at once."""


class HoursLog(Log):
    """The log of some hours: its changes, and a part for each run, which extracts it."""

    def __init__(self, seed: int, hours: float) -> None:
        generator = random.Random(seed)
        count, statements = round(hours * _TRANSACTIONS), round(hours * _STATEMENTS)
        # Files that nobody has given a time of the clock yet are newer than all times of the clock: nothing takes them
        # for old.
        self.begin = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=hours + 1)
        seconds = sorted(generator.uniform(0, hours * HOUR) for _ in range(count + statements))
        self.changes = Changes(
            seed,
            count,
            statements=True,
            statements_before=generator.sample(range(1, count), statements),
            is_keyless=seed % 2 == 1,
            is_widened_alone=True,
            commit_micros=[round((self.begin.timestamp() + second) * 1_000_000) for second in seconds],
        )
        steps = range(1, round(hours * HOUR) // _EACH + 1)
        committed = [bisect_right(seconds, step * _EACH) for step in steps]
        ends = [self.changes.transaction_ends[count - 1] if count else 0 for count in committed]
        numbers = [1 + (step - 1) * _EACH // _FILE for step in steps]
        self.parts = log_parts(self.changes.content, ends, numbers)
        # A part has whole slices, which may end before the last transaction of its time.
        reached = accumulate((part.column("stop")[-1].as_py() if len(part) else 0 for part in self.parts), max)
        self.bronze = [(Path(), end) for end in reached]
        # Windows are folded where a table is mirrored alone: other modes keep what was deleted.
        self.layout = "mirrors" if seed % 6 == 0 else "modes"
        self.checks = self.table_checks = Checks(self.changes, self.layout)


class _ClockedDisk(Disk):
    """A disk that knows which files were written, so that they get times of the clock."""

    def __init__(self, root: Path, seed: int) -> None:
        super().__init__(root, seed)
        self._written: set[str] = set()
        self._with_checkpoints: set[str] = set()

    def call(self, name: str, path: object, function: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        if name == "checkpoint":
            self._with_checkpoints.add(str(path))
        return super().call(name, path, function, half)

    def add_name(self, path: Path, *, has_content: bool = True) -> None:
        if str(path).startswith(self.root):
            self._written.add(str(path))
        super().add_name(path, has_content=has_content)

    def set_times(self, now: float) -> None:
        """Gives all files that were written since the last time the time of the clock."""
        for table in self._with_checkpoints:
            self._written |= {str(file) for file in Path(table, "_delta_log").glob("*.checkpoint.parquet")}
        for path in self._written:
            if os.path.lexists(path):
                os.utime(path, (now, now))
        self._written.clear()
        self._with_checkpoints.clear()
        self.opened.clear()  # by the times of files


@dataclass
class Account:
    """What happened in the hours: processes by kind and how many of them failed, faults by kind, and what was done."""

    processes: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)


class HoursScenario(Scenario):
    """A lake that grows for hours."""

    def __init__(self, seed: int, log: HoursLog, folder: Path, target: MySQLServer) -> None:
        super().__init__(seed, log, folder, layout=log.layout)
        self.hours_log, self.account = log, Account()
        self.disk: _ClockedDisk = _ClockedDisk(folder / "lake", seed)
        self._target = target
        login = MySQL(host=target.host, port=target.port, user="writer", password="writes")
        retention = self.pipeline.retention.model_copy(update={"bronze": _KEPT, "versions": _KEPT, "fold": True})
        self.pipeline = self.pipeline.model_copy(
            update={
                "retention": retention,
                "deliveries": {DELIVERY: Delivery(mysql=login, tables=[f"{SCHEMA}.*"], workers=1)},
            }
        )
        self._calls_of = {name: Counter[str]() for name in self._processes()}
        """Calls of each process, by name, as far as those without faults have shown."""
        self._acting: Callable[[int], dict[str, str]] = self._run
        self._consumer: Subscription | None = None
        self._consumed = 0
        """Changes of the log that consumers were given, from the first on."""
        self._keys: set[tuple[str, int]] = set()
        self._expected = [event for _, event in log.changes.events if not event.statement]

    def play(self) -> None:
        """The hours. Raises Wrong, or whatever a process must not raise, with the seed and the clock's time."""
        log, step = self.hours_log, 0
        try:
            with time_machine.travel(log.begin, tick=False) as clock, self.disk.wrapped(), self._target_schema():
                for step in range(len(log.parts)):
                    self.step = step
                    clock.move_to(log.begin + timedelta(seconds=(step + 1) * _EACH))
                    second = (step + 1) * _EACH
                    is_compared = second % HOUR == 0 or step + 1 == len(log.parts)
                    for name, process in self._due(second):
                        # A consumer that is killed keeps the next one waiting.
                        self._act(name, process, may_fail=not (is_compared and name == "consumer"))
                        clock.shift(1)
                    if second % _MINUTE == 0:
                        log.table_checks.require_rows(self.pipeline)
                    if is_compared:
                        self._check_all()
        except BaseException as error:
            last_calls = "\n".join(self.trace[-6:])
            raise Wrong(f"seed {self.seed}, run {step}: {type(error).__name__}: {error}\n{last_calls}") from error

    def _processes(self) -> dict[str, tuple[int, Callable[[int], dict[str, str]]]]:
        """By name the seconds between two of them, and what they do."""
        return {
            "run": (_EACH, self._run),
            "delivery": (_MINUTE, self._deliver_tables),
            "consumer": (_MINUTE, self._consume_log),
            "gc": (HOUR // 4, self._gc),
            "maintenance": (HOUR // 2, self._maintain),
            "backfill": (HOUR, self._backfill),
        }

    def _due(self, second: int) -> Iterator[tuple[str, Callable[[int], dict[str, str]]]]:
        return ((name, process) for name, (period, process) in self._processes().items() if second % period == 0)

    def _act(self, name: str, process: Callable[[int], dict[str, str]], *, may_fail: bool = True) -> None:
        """A process, with faults or without."""
        self._acting, self.calls = process, self._calls_of[name]
        self.weights = {call: weight for call, weight in CALLS.items() if self.calls[call]}
        self.kinds = (RACE, *(kind for kind in KINDS if calls_of(kind, self.weights)))
        self.account.processes[name] += 1
        actor = Actor(kept=self.kept)
        if may_fail and self.weights and self.random.random() < _FAULTY:
            before = self.counts.total()
            self._fault()
            self.account.failed[name] += self.counts.total() > before
        elif failed := self._run_as(actor):
            raise Wrong(f"{name} without a fault: {failed}")
        else:
            self.calls |= actor.calls
            self.disk.forget()
        self._end_consumer()
        self.disk.set_times(datetime.now(UTC).timestamp())
        del self.trace[:-20]

    def _run_as(self, actor: Actor) -> str:
        # Threads of a run are several, so that their calls would come in no order of the seed's.
        self.disk.of_threads = actor if self._acting in (self._deliver_tables, self._consume_log) else None
        try:
            return super()._run_as(actor)
        finally:
            self.disk.of_threads = None

    def _process(self, seed: int) -> dict[str, str]:
        return self._acting(seed)

    def _race_as(self, seed: int) -> None:
        """One of two runs: what has a server beside the lake does not race here, since it would wait inside a call."""
        self._run(seed)

    def _run_rivals(self, kind: str) -> None:
        self.disk.of_threads, before = None, self.disk.of_threads
        with self.disk.acting(None), self.disk.recorder.running():
            if stopped := self._run(self.random.randrange(1 << 30)):
                raise Wrong(f"tables stopped: {stopped}")
        self.disk.of_threads = before
        self.disk.forget()

    def _check_all(self) -> None:
        """All that there is to do, and whether everything is right then."""
        with self.disk.acting(None), self.disk.recorder.running():
            for process in (self._run, self._deliver_tables, self._consume_log):
                if stopped := process(self.random.randrange(1 << 30)):
                    raise Wrong(f"stopped: {stopped}")
                self._end_consumer()
            self.hours_log.table_checks.require_rows(self.pipeline, self._until())
            self._check_target()
            events = self.hours_log.changes.events
            expected = sum(1 for end, event in events if end <= self._until() and not event.statement)
            if self._consumed != expected:
                raise Wrong(f"consumers were given {self._consumed} of {expected} changes")
        self.disk.forget()
        self.disk.set_times(datetime.now(UTC).timestamp())
        self.account.done["comparisons of everything"] += 1

    def _run(self, seed: int) -> dict[str, str]:
        retry_on_conflict(lambda: extract(self.pipeline, self.hours_log.parts[: self.step + 1]))
        return runs.run(self.pipeline, seed, publishes=True) if self._bronze_end() else {}

    def _bronze_end(self) -> int:
        snapshot = BronzeSnapshot.find(lake_of(self.pipeline), SOURCE)
        return snapshot.end.offset if snapshot else 0

    def _gc(self, seed: int) -> dict[str, str]:
        with runs.scheduled(seed):
            if self._bronze_end():
                self.account.done["files of log removed"] += len(gc_source(SPARK, self.pipeline, SOURCE).files)
        return {}

    def _maintain(self, seed: int) -> dict[str, str]:
        with runs.scheduled(seed):
            upkeep = maintain_source(SPARK, self.pipeline, SOURCE)
        self.account.done["tables rewritten"] += sum(
            table.version_after > table.version_before for table in upkeep.tables
        )
        self.account.done["tables folded"] += sum(table.folded is not None for table in upkeep.tables)
        return upkeep.stopped

    def _backfill(self, seed: int) -> dict[str, str]:
        """Of the last half an hour of the log."""
        with runs.scheduled(seed):
            snapshot = BronzeSnapshot.find(lake_of(self.pipeline), SOURCE)
            if snapshot is None:
                return {}
            first = max(0, self.step - HOUR // 2 // _EACH)
            begin = next((part.slice(0, 1).to_pylist()[0] for part in self.hours_log.parts[first:] if len(part)), None)
            start = Position(begin["file"], begin["start"], 1) if begin else snapshot.oldest
            if not snapshot.oldest <= start < snapshot.end:
                return {}
            stopped = replayed(self.pipeline, Range(start, snapshot.end))
            self.account.done["backfills"] += 1
        return stopped

    def _deliver_tables(self, _seed: int) -> dict[str, str]:
        outcome = deliver(self.pipeline, DELIVERY)
        self.account.done["rows delivered"] += sum(table.rows for table in outcome.tables)
        return {".".join(name): reason for name, reason in outcome.stopped.items()}

    def _consume_log(self, _seed: int) -> dict[str, str]:
        """A consumer that takes all that there is, batch by batch. Raises Wrong where it is given a wrong change."""
        if not self._bronze_end():
            return {}
        self._consumer = Subscription(self.pipeline, SOURCE, _GROUP, start="earliest", lease=_LEASE)
        with self._consumer as consumer:
            while entries := (batch := consumer.get_without_ack(_BATCH)).entries:
                for entry in entries:
                    if entry.kind == "change":
                        self._take_change((str(entry.position), entry.row), entry.value)
                consumer.ack(batch.id)
        self._consumer = None
        return {}

    def _take_change(self, key: tuple[str, int], value: dict[str, Any]) -> None:
        """Of what a consumer is given: again, or the next one. Raises Wrong."""
        if key in self._keys:
            self.account.done["changes given again"] += 1
            return
        expected = self._expected[self._consumed] if self._consumed < len(self._expected) else None
        given = value["table"], value["before"], value["after"]
        if expected is None or given != _images(expected):
            raise Wrong(f"a consumer was given {given} at {key} as change {self._consumed}, which is {expected}")
        self._keys.add(key)
        self._consumed += 1
        self.account.done["changes consumed"] += 1

    def _end_consumer(self) -> None:
        """The threads of a consumer that was killed end with it."""
        consumer, self._consumer = self._consumer, None
        if consumer and consumer._lease:
            consumer._lease._ending.set()

    @contextmanager
    def _target_schema(self) -> Iterator[None]:
        with self._target.connect() as self._observer:
            rows_of_answer(self._observer, f"CREATE DATABASE IF NOT EXISTS {SCHEMA}")
            yield
            rows_of_answer(self._observer, f"DROP DATABASE {SCHEMA}")
            rows_of_answer(self._observer, "DROP DATABASE IF EXISTS stratalog")

    def _check_target(self) -> None:
        """Raises Wrong where the target has other rows than the source at the end of the log."""
        twin = Twin(self.hours_log.changes)
        for table in self.hours_log.changes.keys:
            expected = twin.downstream(table, self._until()).values()
            is_there = rows_of_answer(self._observer, f"SHOW TABLES FROM {SCHEMA} LIKE '{table}'")
            found = rows_of_answer(self._observer, f"SELECT * FROM {SCHEMA}.{table}") if is_there else []
            require_same(f"target of {table}", Counter(map(row_cells, found)), Counter(map(row_cells, expected)))


def _images(event: Event) -> tuple[str, Row | None, Row | None]:
    """A change as a consumer sees it."""
    return event.table, next(iter(event.before), None), next(iter(event.after), None)


def play(seed: int, hours: float, folder: Path) -> tuple[Account, list[str]]:
    """What happened in so many hours, and what was wrong."""
    logging.disable(logging.CRITICAL)  # of thousands of runs, a third of which fail
    wrong = list[str]()
    folder.mkdir(parents=True, exist_ok=True)
    with patch.object(runs, "_BYTES", _TASK_BYTES), runs.without_spark(), Targets(folder) as targets:
        log = HoursLog(seed, hours)
        scenario = HoursScenario(seed, log, folder, targets.server)
        try:
            scenario.play()
        except Wrong as error:
            wrong.append(str(error))
    logging.disable(logging.NOTSET)
    account = scenario.account
    account.faults = scenario.counts
    account.done |= {"transactions": len(log.changes.transaction_ends), "changes": len(log.changes.events)}
    return account, wrong
