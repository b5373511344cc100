"""Runs of the engine without Spark: the pipeline's own functions, their tasks one after the other in a seed's order.

Put here: what stands in the place of Spark's scheduler, and one run. Not here: faults, or what tables have to be.
"""

import pickle
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self
from unittest.mock import patch

import pyarrow as pa
import yaml

from spark_jobs.binlog import TableName
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.delta import commits, data_files
from spark_jobs.delta.snapshot import new_table, snapshot_of
from spark_jobs.downstream import commit_clock
from spark_jobs.downstream.commit import ClockCommit
from spark_jobs.downstream.commit_clock import Clock
from spark_jobs.engine.changes import change_job
from spark_jobs.engine.jobs import log_removal, spark_job
from spark_jobs.engine.jobs.spark_job import Capacity, ShuffleBlock
from spark_jobs.engine.merge import downstream_job
from spark_jobs.engine.rows import fills
from spark_jobs.engine.silver import silver_job, silver_task
from spark_jobs.errors import LakeError, StratalogError
from spark_jobs.iceberg.table_view import show
from spark_jobs.lake.commit import APPLICATION, new_batch
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.lake.retry import retry_on_conflict
from spark_jobs.log.position import Position, Range
from spark_jobs.operations.retention import maintenance
from spark_jobs.pipeline import iceberg_catalog, table_merge, tables_at_once
from spark_jobs.pipeline import run as pipeline_run
from spark_jobs.pipeline.backfill import run as backfill_run
from spark_jobs.pipeline.cascades.unlogged_changes import NO_UNLOGGED_CHANGES
from spark_jobs.pipeline.initial_load import landing
from spark_jobs.pipeline.initial_load.commit import READ, READING, LoadCommit
from spark_jobs.pipeline.initial_load.context import LoadContext
from spark_jobs.pipeline.initial_load.landing import land
from spark_jobs.pipeline.initial_load.range_files import as_silver
from spark_jobs.pipeline.initial_load.reading import ReadTable
from spark_jobs.pipeline.initial_load.staging import StagedTable, design_of
from spark_jobs.runtime.tasks_here import Placement
from spark_jobs.schema.history import follow
from spark_jobs.silver import table as silver
from spark_jobs.silver.column_masks import RAW
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.windows import windows_of
from tests.binlogs.slicing import FILE
from tests.faults.changes import SCHEMA, SOURCE
from tests.faults.rules import COLUMNS, ENVIRONMENT, ROW_FILTERS

SPARK: Any = None
"""No session: whatever asks one for something fails."""


MERGED = "merged"
"""A downstream table of all source tables."""
SHARED = "shared"
"""The same, in which equal keys are one row."""
PARTIAL = "partial"
"""Mirrors of tables whose row images leave columns out."""
KEYLESS = "keyless"
"""Tables of which one has no key, in all modes."""
REPLAYS = "replays"
"""Tables in all modes, of which runs replay windows; versions in buckets."""
RENAMES = "renames"
"""Mirrors of tables that change names and keys; a log has row images that leave columns out, or whole ones."""
LOADS = "loads"
"""Tables that have every change, and get rows that a load read."""
LANDINGS = "landings"
"""Mirrors, of which one may have no key, that get rows which a load read, by its own code, and statements before."""
SOFT_DELETE = "soft_delete"
"""Tables in which deleted rows stay, through TRUNCATE."""
SOFT_PARTIAL = "soft_delete of partial images"
"""The same, where row images leave columns out."""
SOFT_KEYLESS = "soft_delete without a key"
"""The same, of which one table has no key."""
APPEND_PARTIAL = "append of partial images"
"""Tables in which each change is a row, where row images leave columns out; with rows that a load read, and replays."""
HISTORY_PARTIAL = "history of partial images"
"""The same with versions, which are in buckets."""
FEED = "feed"
"""Mirrors with a change data feed."""
ICEBERG = "iceberg"
"""Mirrors that are Iceberg tables too."""
CATALOG = "iceberg in a catalog"
"""Mirrors that runs publish, and register as Iceberg tables in a REST catalog."""
PUBLISHED = "published"
"""Mirrors, of which runs publish what they left, and continue from what is published."""
CASCADES = "cascades"
"""Mirrors of tables that foreign keys join, with what these do; runs publish what they left."""
RULES = "rules"
"""Mirrors, and tables in which deleted rows stay, under row filters, masks and computed columns."""
RULES_PARTIAL = "rules of partial images"
"""The same, where row images leave columns out."""
RULES_CHANGES = "rules of every change"
"""Tables that have every change, under the same rules; runs replay windows."""
RULES_CHANGES_PARTIAL = "rules of every change of partial images"
"""The same, where row images leave columns out."""
RULED = (RULES, RULES_PARTIAL, RULES_CHANGES, RULES_CHANGES_PARTIAL)
EVERY_CHANGE = ("append", "history")
SOFT = "soft_delete"
"""The schema of such tables beside mirrors."""
_MODES = {
    "routes": [{"from": f"{SCHEMA}.*", "to": [f"{SCHEMA}.{{1}}", *(f"{mode}.{{1}}" for mode in EVERY_CHANGE)]}],
    "downstream": [{"tables": f"{mode}.*", "mode": mode} for mode in EVERY_CHANGE],
}


def _into(*modes: str) -> dict[str, Any]:
    """Downstream tables with these modes, and no mirrors."""
    return {
        "routes": [{"from": f"{SCHEMA}.*", "to": [f"{mode}.{{1}}" for mode in modes]}],
        "downstream": _MODES["downstream"],
    }


_RULES = {"row_filters": ROW_FILTERS, "columns": COLUMNS}
_BOTH_RULED = _RULES | {
    "routes": [{"from": f"{SCHEMA}.*", "to": [f"{SCHEMA}.{{1}}", f"{SOFT}.{{1}}"]}],
    "downstream": [{"tables": f"{SOFT}.*", "mode": "soft_delete"}],
}
_SOFT_DELETE = {"downstream": [{"tables": "*.*", "mode": "soft_delete", "change_data_feed": True}]}
LAYOUTS: dict[str, dict[str, Any]] = {
    "mirrors": {},
    PARTIAL: {},
    RENAMES: {},
    "modes": _MODES,
    REPLAYS: _MODES,
    LOADS: _into(*EVERY_CHANGE),
    APPEND_PARTIAL: _into("append"),
    HISTORY_PARTIAL: _into("history"),
    LANDINGS: {},
    PUBLISHED: {},
    CASCADES: {"on_cascade": "apply"},
    SOFT_DELETE: _SOFT_DELETE,
    SOFT_PARTIAL: _SOFT_DELETE,
    SOFT_KEYLESS: _SOFT_DELETE,
    ICEBERG: {"iceberg": True},
    CATALOG: {
        "iceberg": True,
        "iceberg_catalog": {"properties": {"type": "rest", "uri": "http://catalog.example"}},
    },
    FEED: {"downstream": [{"tables": "*.*", "change_data_feed": True}]},
    KEYLESS: _MODES,
    RULES: _BOTH_RULED,
    RULES_PARTIAL: _BOTH_RULED,
    RULES_CHANGES: _into(*EVERY_CHANGE) | _RULES,
    RULES_CHANGES_PARTIAL: _into(*EVERY_CHANGE) | _RULES,
    MERGED: {"routes": [{"from": f"{SCHEMA}.*", "to": f"{SCHEMA}.{MERGED}"}]},
    SHARED: {"routes": [{"from": f"{SCHEMA}.*", "to": f"{SCHEMA}.{MERGED}", "keys": "shared"}]},
}
"""What pipelines have besides, by what their downstream tables are."""


def pipeline_in(folder: Path, layout: str = "mirrors") -> Pipeline:
    """A pipeline with its lake in a folder; its source is never read."""
    path = folder / "pipeline.yaml"
    described = {
        "lake": str(folder / "lake"),
        "sources": {SOURCE: {"files": str(folder)}},
        "tables": [f"{SCHEMA}.*"],
    } | LAYOUTS[layout]
    path.write_text(yaml.safe_dump(described), encoding="utf-8")
    return load(path, ENVIRONMENT)


class Scheduler:
    """Runs the tasks of a job in an order of its own, some of them twice, as Spark may."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.slots = self.random.choice([1, 2, 4])
        self.repeated = 0
        """Tasks that were run twice, of which one result was taken."""

    def run(
        self,
        _spark: Any,
        tasks: Sequence[Any],
        work: Callable[[Any], Any],
        finish: Callable[[Iterable[ShuffleBlock]], Any] | None = None,
        buckets: int = 0,
    ) -> list[Any]:
        """As ``spark_job.run``."""
        order = list(range(len(tasks)))
        self.random.shuffle(order)
        try:
            values = [value for at in order for value in self._attempts(partial(work, tasks[at]))]
            pieces = [value for value in values if isinstance(value, ShuffleBlock)]
            results = [value for value in values if not isinstance(value, ShuffleBlock)]
            if finish is not None:
                self.random.shuffle(pieces)
                by_bucket = [[piece for piece in pieces if piece.bucket == bucket] for bucket in range(buckets)]
                results += [
                    result for bucket_pieces in by_bucket for result in self._attempts(partial(finish, bucket_pieces))
                ]
        except OSError as error:  # as Spark's error of a job whose task failed
            raise LakeError(f"a task failed: {error}") from error
        self.random.shuffle(results)
        return results

    def _attempts(self, task: Callable[[], Any]) -> list[Any]:
        """A task's results, which travel as bytes. It may run twice: an executor that was lost is done again."""
        results = [pickle.dumps(list(task()))]
        if self.random.random() < 0.05:
            self.repeated += 1
            results.append(pickle.dumps(list(task())))
        return list(pickle.loads(self.random.choice(results)))  # noqa: S301 - written a line above


class _InOrder:
    """An executor of one thread that takes its work in an order of the seed."""

    def __init__(self, generator: random.Random) -> None:
        self._random = generator
        self._waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, function: Callable[..., Any], *arguments: Any) -> "_Lazy":
        future = _Lazy(self)
        self._waiting.append((future, lambda: function(*arguments)))
        return future

    def shutdown(self, *, wait: bool, cancel_futures: bool) -> None:
        """Drops what waits, as a run that ends early has it."""
        assert not wait
        if cancel_futures:
            self._waiting.clear()

    def drain(self) -> None:
        """Does what waits; what is raised and is no error of the program's ends all of it."""
        waiting, self._waiting = self._waiting, []
        self._random.shuffle(waiting)
        for future, work in waiting:
            try:
                future.set_result(work())
            except Exception as error:  # noqa: BLE001 - as an executor does
                future.set_exception(error)


class _Lazy(Future[Any]):
    def __init__(self, executor: _InOrder) -> None:
        super().__init__()
        self._executor = executor

    def result(self, timeout: float | None = None) -> Any:
        self._executor.drain()
        return super().result(timeout)


def _values(expressions: Any) -> dict[str, pa.Scalar]:
    """Values of the literals that the log's statements fill columns with."""
    literals = {}
    for sql in expressions:
        number = "".join(letter for letter in sql.replace("INT", "") if letter.isdigit())
        literals[sql] = pa.scalar(int(number), pa.int32())
    return literals


def _order_times(_spark: Any, lake: Lake, source: str) -> Clock:
    """Order times up to the end of bronze: no transaction of a generated log is late."""

    def commit() -> Clock:
        bronze, table = BronzeSnapshot.find(lake, source), lake.clock(source)
        assert bronze
        head, snapshot = table.head(), snapshot_of(table.path) or new_table(table.path, commit_clock.COLUMNS, {})
        checkpoint = ClockCommit(bronze.end, new_batch(), begin=bronze.oldest)
        commits.commit(
            snapshot,
            transaction=(APPLICATION, head.counter + 1 if head else 1),
            user_metadata=checkpoint.to_json(),
        )
        head = table.head()
        assert head
        return Clock.of(source, table, head)

    return retry_on_conflict(commit)


_BYTES = 2_500
"""Of a task: a window of the generated log is several tasks'."""


_WITH_SESSIONS = (pipeline_run, table_merge, landing)


@contextmanager
def without_spark() -> Iterator[None]:
    """The pipeline's functions run in this process while the context lasts."""
    replaced: tuple[Any, ...] = (
        *(
            patch.object(module, "placement_for", lambda *_, **__: Placement(SPARK, _current().slots))
            for module in (pipeline_run, table_merge, maintenance)
        ),
        *(patch.object(module, "start_session", lambda _: SPARK) for module in (maintenance, log_removal)),
        *(
            patch.object(module, "session_over", lambda _spark, _size: SPARK)
            for module in (pipeline_run, landing, maintenance, backfill_run, log_removal)
        ),
        *(
            patch.object(module, "slots", lambda _: _current().slots)
            for module in (landing, maintenance, backfill_run, log_removal)
        ),
        *(patch.object(module, "CONFLICT_WAIT", 0.0) for module in (pipeline_run, landing, backfill_run)),
        patch.object(table_merge, "_CONFLICT_WAIT", 0.0),
        patch.object(commit_clock, "advance", _order_times),
        patch.object(tables_at_once, "ThreadPoolExecutor", lambda _: _InOrder(_current().random)),
        patch.object(spark_job, "run", lambda *arguments: _current().run(*arguments)),
        patch.object(fills, "values_by_expression", _values),
        *(
            patch.object(module, "Capacity", lambda slots, _: Capacity(slots, _BYTES))
            for module in (pipeline_run, table_merge, landing)
        ),
        patch.object(silver_job, "_LEAST_TASK_BYTES", _BYTES),
        patch.object(downstream_job, "_LEAST_TASK_BYTES", _BYTES),
        patch.object(downstream_job, "_UNIT_BYTES", 0),
        patch.object(change_job, "_LEAST_TASK_BYTES", _BYTES),
        patch.object(change_job, "_UNIT_BYTES", 0),
        patch.object(change_job, "_VERSIONS_BYTES", 4 * _BYTES),
        patch.object(commits, "_CHECKPOINT_INTERVAL", 4),
    )
    threads = pa.cpu_count()
    pa.set_cpu_count(1)  # for rows as few as these, others cost more than they do
    try:
        with ExitStack() as stack:
            for replacement in replaced:
                stack.enter_context(replacement)
            yield
    finally:
        pa.set_cpu_count(threads)


_LOCAL = threading.local()


def _current() -> Scheduler:
    """That of this thread's run."""
    return _LOCAL.schedulers[-1]  # type: ignore[no-any-return]


def _windows(pipeline: Pipeline, generator: random.Random) -> dict[TableName, tuple[Range, ...]]:
    """Some windows of each table in silver, as ranges of the log."""
    ranges: dict[TableName, tuple[Range, ...]] = {}
    for name in published(pipeline):
        snapshot = snapshot_of(lake_of(pipeline).silver(SOURCE, name.schema, name.table).path)
        windows = sorted(windows_of(snapshot)) if snapshot else []
        sample = generator.sample(windows, min(len(windows), 2))
        if sample:
            ranges[name] = tuple(
                Range(*(Position(FILE, position[2], position[0]) for position in window)) for window in sample
            )
    return ranges


def published(pipeline: Pipeline) -> list[TableName]:
    """The tables that silver has."""
    folder = Path(lake_of(pipeline).silver(SOURCE, SCHEMA, "t").path).parent
    return [TableName(SCHEMA, path.name) for path in _listed(folder)]


def _listed(folder: Path) -> list[Path]:
    """What a folder holds, if there is one. Raises LakeError where the disk fails, as in the run that asks."""
    try:
        return sorted(folder.glob("*")) if folder.exists() else []
    except OSError as error:
        raise LakeError(f"{folder}: cannot be read: {error}") from error


@contextmanager
def scheduled(seed: int) -> Iterator[None]:
    """Jobs of this thread run in an order of the seed's while the context lasts."""
    if not hasattr(_LOCAL, "schedulers"):
        _LOCAL.schedulers = []
    _LOCAL.schedulers.append(Scheduler(seed))
    try:
        yield
    finally:
        _LOCAL.schedulers.pop()


def run(
    pipeline: Pipeline,
    seed: int,
    *,
    replays: bool = False,
    staged: Sequence[ReadTable] = (),
    publishes: bool = False,
) -> dict[str, str]:
    """A run of all tables through silver and downstream; why tables stopped, by name.

    replays: whether windows are merged again. staged: tables that a load has read, and that are landed. publishes:
    whether what the run left is published. Raises LakeError, and whatever a fault is; LostRace where others win every
    time.
    """
    silver_task._row_group.cache_clear()  # a process of its own has nothing in memory
    with scheduled(seed):
        if publishes:  # as run_source does
            retry_on_conflict(lambda: follow(lake_of(pipeline), SOURCE))
            outcome = retry_on_conflict(lambda: pipeline_run.merge_forward(SPARK, pipeline, SOURCE))
            refusal = iceberg_catalog.refusal(pipeline, SOURCE)
            # A run that the catalog refuses something says so, and is followed by another one.
            behind = {"catalog": refusal.reason} if refusal else {}
            return {str(name): reason for name, reason in outcome.stopped.items()} | behind
        outcome = pipeline_run.compact_source(SPARK, pipeline, SOURCE)
        if staged:
            for table in staged:
                land(_loading(pipeline), table, outcome, NO_UNLOGGED_CHANGES)
            outcome = pipeline_run.compact_source(SPARK, pipeline, SOURCE)
        outcome = pipeline_run.merge_source(SPARK, pipeline, SOURCE, outcome)
        if replays and not outcome.stopped:
            repeated = _windows(pipeline, _current().random)
            outcome = pipeline_run.merge_source(SPARK, pipeline, SOURCE, outcome, repeated=repeated)
        if pipeline.iceberg:  # as publishing does; what is published is not written here
            for path in _listed(Path(lake_of(pipeline).downstream(SCHEMA, "t").path).parent):
                show(str(path))
    return {str(name): reason for name, reason in outcome.stopped.items()}


def _loading(pipeline: Pipeline) -> LoadContext:
    """A load as landing sees it: the server that it read is not asked any more."""
    no_server: Any = None
    return LoadContext(SPARK, pipeline, lake_of(pipeline), SOURCE, no_server, 1, lambda *_: None, no_server)


def staged(pipeline: Pipeline, name: TableName, rows: Sequence[dict[str, Any]], position: Position) -> ReadTable:
    """A table whose rows wait, as a load that read them at a position leaves it."""
    lake = lake_of(pipeline)
    origin = lake.silver(SOURCE, name.schema, name.table)
    commit = SilverCommit.of_head(origin.head())
    assert commit is not None
    definition, table = commit.definition, lake.load(SOURCE, name.schema, name.table)
    assert definition is not None
    columns, is_snapshot = silver.columns(definition), not definition.key
    progress = LoadCommit(
        position,
        new_batch(),
        state=READING,
        read_from=position,
        definition=definition,
        chunk_rows=1,
        is_snapshot=is_snapshot,
    )
    design = design_of(table, origin, columns)
    stage = StagedTable(name, table, table.unwritten_head(design.schema.spark_types, {}), progress)
    stage.begin(design)
    upon = stage.snapshot(appends=True)
    fields = upon.schema.arrow(physical=False)
    read_fields = pa.schema([fields.field(name) for name in (*columns.types, RAW)])
    table_rows = pa.Table.from_pylist([dict(row) for row in rows], read_fields)
    if definition.key:
        (table_rows,) = as_silver([table_rows], position, upon.schema)
    # Equal rows of a table without a key are in files of several tasks.
    parts = [table_rows.slice(at, 3) for at in range(0, len(table_rows), 3)]
    files = [data_files.write(upon.path, part, upon.schema, upon.configuration) for part in parts]
    stage.append(upon, files, replace(progress, state=READ, read_to=position, rows=len(rows), is_walked=True))
    return ReadTable(name, stage.progress)


def run_until_current(
    pipeline: Pipeline, seed: int, tries: int = 5, *, staged: Sequence[ReadTable] = (), publishes: bool = False
) -> None:
    """Runs until a run ends without an error; raises what the last one raised."""
    stopped: dict[str, str] = {}
    for number in range(tries):
        try:
            stopped = run(pipeline, seed + number, staged=staged, publishes=publishes)
        except StratalogError:
            if number == tries - 1:
                raise
            continue
        if not stopped:
            return
    raise AssertionError(f"tables do not go on: {stopped}")
