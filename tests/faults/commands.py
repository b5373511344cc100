"""Scenarios of what an operator runs beside runs: gc and backfills, with faults, and traces of them.

A run extracts, as far as bronze lacks log, and merges. Some runs are of an earlier release, whose decoder gives other
texts: backfills find these, and replace their windows. The log is in several files, so that gc has some to remove.
Offsets of a file continue those of the file before, so that an offset alone is a place in the log.

Put here: scenarios and what is right of them. Not here: how a fault is made (disk.py), scenarios of runs alone
(campaign.py), traces (tracing.py).
"""

import logging
import random
import shutil
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.model import Pipeline
from spark_jobs.delta.snapshot import DataFile, snapshot_of
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.engine.silver import silver_task
from spark_jobs.engine.silver.silver_task import SilverUnit, SilverWindow
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.retry import retry_on_conflict
from spark_jobs.log.position import Range
from spark_jobs.operations.retention.gc import gc_source
from spark_jobs.pipeline.backfill.run import backfill_source
from tests.faults import runs
from tests.faults.campaign import Log, Scenario
from tests.faults.changes import SCHEMA, SOURCE, Row, Twin
from tests.faults.checking import Checks, Wrong, require_same, rows_of_snapshot
from tests.faults.extraction import extract, log_parts
from tests.faults.runs import PUBLISHED, SPARK
from tests.faults.tracing import Trace

_STEPS = 5
_PROCESSES_A_STEP = 4
_LATER = datetime(2100, 1, 1, tzinfo=UTC)
"""A time at which all log is old enough to go."""
_TEXTS = ("text", "state")
"""Columns that an earlier release decodes otherwise; none is of a key."""
_MARK = "~"


class CommandScenario(Scenario):
    """A lake whose log grows, with commands beside its runs. Seeds that are odd have gc, and keep not all log."""

    def __init__(self, seed: int, log: Log, folder: Path) -> None:
        super().__init__(seed, log, folder, layout=PUBLISHED)
        retention = self.pipeline.retention.model_copy(update={"bronze": timedelta(days=1)})
        self.pipeline = self.pipeline.model_copy(update={"retention": retention})
        assert isinstance(log.checks, Checks)
        self._changes = log.checks.changes
        ends = [end for _, end in log.bronze]
        self._files = log_parts(self._changes.content, ends, range(1, len(ends) + 1))
        self._decoder = threading.local()

    def play(self) -> None:
        """Grows the log, with processes that fail. Raises Wrong with the seed."""
        try:
            with self.disk.wrapped(), self._earlier_decoder():
                for step in range(_STEPS):
                    self._grow(step)
                    for _ in range(_PROCESSES_A_STEP):
                        self._fault()
                        self._check()
                    self._run_and_check()
                if not self.seed % 2:
                    self._backfill_and_check()
        except BaseException as error:
            last_calls = "\n".join(self.trace[-6:])
            raise Wrong(f"seed {self.seed}: {type(error).__name__}: {error}\n{last_calls}") from error

    def _grow(self, step: int) -> None:
        """The source has the log up to a step; runs extract it."""
        self.step = max(step, self.step)

    def _run_rivals(self, kind: str) -> None:
        if kind == "taken over by a later run":
            self._grow(min(self.step + 1, _STEPS - 1))
        with self.disk.acting(None), self.disk.recorder.running():
            self._process(self.random.randrange(1 << 30))

    def _run_and_check(self) -> None:
        with self.disk.acting(None), self.disk.recorder.running():
            stopped = self._run(self.random.randrange(1 << 30))
        if stopped:
            raise Wrong(f"tables stopped: {stopped}")
        self.disk.forget()
        self._check(self._until())

    def _backfill_and_check(self) -> None:
        with self.disk.acting(None), self.disk.recorder.running():
            stopped = self._backfill(self.random.randrange(1 << 30))
        if stopped:
            raise Wrong(f"tables stopped: {stopped}")
        self._check(self._until(), is_exact=True)

    def _process(self, seed: int) -> dict[str, str]:
        """A run or a command by a seed; what stopped."""
        choices = [self._run, self._backfill, *([self._gc] if self.seed % 2 else [])]
        return random.Random(seed).choice(choices)(seed)

    def _race_as(self, seed: int) -> None:
        self._process(seed)

    def _run(self, seed: int) -> dict[str, str]:
        self._decoder.is_earlier = seed % 3 == 0
        try:
            retry_on_conflict(lambda: extract(self.pipeline, self._files[: self.step + 1]))
            return runs.run(self.pipeline, seed, publishes=True)
        finally:
            self._decoder.is_earlier = False

    def _gc(self, seed: int) -> dict[str, str]:
        with runs.scheduled(seed):
            if BronzeSnapshot.find(lake_of(self.pipeline), SOURCE):
                gc_source(SPARK, self.pipeline, SOURCE, now=_LATER)
        return {}

    def _backfill(self, seed: int) -> dict[str, str]:
        """Of all log that bronze has. A table of which a window begins before that stops, and is left as it is."""
        with runs.scheduled(seed):
            snapshot = BronzeSnapshot.find(lake_of(self.pipeline), SOURCE)
            return replayed(self.pipeline, Range(snapshot.oldest, snapshot.end)) if snapshot else {}

    @contextmanager
    def _earlier_decoder(self) -> Iterator[None]:
        """Runs of an earlier release decode as it did while the context lasts."""
        file_of = silver_task._file_of

        def decoded(
            unit: SilverUnit, window: SilverWindow, rows: pa.Table, added: Mapping[str, Any]
        ) -> DataFile | None:
            if getattr(self._decoder, "is_earlier", False):
                for name in {*_TEXTS} & {*rows.column_names}:
                    marked = pc.binary_join_element_wise(rows.column(name), _MARK, "")
                    rows = rows.set_column(rows.column_names.index(name), name, marked)
            return file_of(unit, window, rows, added)

        with patch.object(silver_task, "_file_of", decoded):
            yield

    def _check(self, until: int = 0, *, is_exact: bool = False) -> None:
        """Raises Wrong where downstream has not the rows of the position that it says, or of a change before until.

        is_exact: whether no row is of the earlier release.
        """
        lake, twin = lake_of(self.pipeline), Twin(self._changes)
        for table in self._changes.keys:
            snapshot = snapshot_of(lake.downstream(SCHEMA, table).path)
            commit = DownstreamCommit.from_json(snapshot.user_metadata) if snapshot else None
            offset = commit.position.offset if commit else 0
            last = max((end for end, event in self._changes.events if event.table == table and end <= until), default=0)
            if offset < last:
                raise Wrong(f"downstream of {table}: is at {offset}, and has changes to {last}")
            rows = rows_of_snapshot(snapshot) if snapshot else []
            actual = Counter(_cells(row, is_exact=is_exact) for row in rows)
            expected = Counter(_cells(row, is_exact=True) for row in twin.downstream(table, offset).values())
            require_same(f"downstream of {table}", actual, expected)


def replayed(pipeline: Pipeline, log_range: Range) -> dict[str, str]:
    """A backfill of all tables; why tables stopped, by name."""
    outcome = backfill_source(SPARK, pipeline, SOURCE, log_range, lambda _: True)
    return {str(name): reason for name, reason in outcome.stopped.items()}


def _cells(row: Row, *, is_exact: bool) -> tuple[tuple[str, Any], ...]:
    """A row, unless it is compared exactly without the mark of the earlier release."""
    cells = {name: value for name, value in row.items() if not name.startswith("_")}
    if not is_exact:
        cells |= {name: cells[name].rstrip(_MARK) for name in _TEXTS if cells.get(name)}
    return tuple(sorted(cells.items()))


def play(seeds: range, folder: Path) -> tuple[Counter[str], list[Trace], list[str]]:
    """Faults by kind, a trace of each table of each scenario, and what was wrong."""
    logging.disable(logging.CRITICAL)  # of hundreds of processes that fail
    counts, traces, wrong = Counter[str](), list[Trace](), list[str]()
    with runs.without_spark():
        for seed in seeds:
            home = folder / f"scenario{seed}"
            home.mkdir(parents=True)
            scenario = CommandScenario(seed, Log(4 * seed, home / "log", PUBLISHED), home)
            try:
                scenario.play()
            except Wrong as error:
                wrong.append(str(error))
            traces += scenario.traces()
            counts += scenario.counts
            shutil.rmtree(home)
    logging.disable(logging.NOTSET)
    return counts, traces, wrong
