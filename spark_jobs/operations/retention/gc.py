"""Removal of old log from bronze that all readers have read: ``stratalog gc``.

Put here: who still reads bronze, which files may go, and removing them. Not here: the data files that Delta keeps for
older versions of a table; those go when they are vacuumed (maintenance.py).

Whole files of the log go, from the first on, in batches. A batch is one commit under the table's counter, and says
where bronze begins after it, so that a run that is killed leaves whole batches, and one that lost a race removes
nothing. Positions stay what they are; the last file always stays.
"""

import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile

from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.bronze.index import read_index
from spark_jobs.bronze.prepared_xa import prepared_transactions
from spark_jobs.bronze.scan import scan_metadata
from spark_jobs.bronze.table import BronzeSnapshot, HeldFile
from spark_jobs.config.model import Pipeline
from spark_jobs.config.modes import Mode
from spark_jobs.delivery.ordered.log_tables import needed_from
from spark_jobs.downstream import commit_clock, publication
from spark_jobs.downstream.publication import Entry
from spark_jobs.engine.jobs.log_removal import log_removal_arguments
from spark_jobs.errors import ConfigError, DeliveryError, LostRace, about
from spark_jobs.lake import driver_commit
from spark_jobs.lake.commit import Checkpoint, CommitKind, Head, new_batch
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.lake.retry import retry_on_conflict
from spark_jobs.lake.table import Table
from spark_jobs.log.position import FIRST_EVENT, Position
from spark_jobs.operations.retention.derived_removal import remove_derived_before
from spark_jobs.pipeline.initial_load.commit import progress
from spark_jobs.silver.rename_lineage import made_at
from spark_jobs.subscriptions.lag import groups_of

log = logging.getLogger(__name__)

XA = "xa"
SILVER = "silver"
CLOCK = "clock"
GROUP = "group:"
"""Prefix of the name of a consumer group, so that no table has the same."""
DELIVERY = "delivery:"
"""Prefix of the name of a delivery."""
_BATCH = 16 << 30
"""Bytes of log that one commit removes."""
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Reader:
    """Reader that needs the log from a position on.

    ``name`` is what ``--ignore`` takes; ``reason`` says why it needs it.
    """

    name: str
    position: Position
    reason: str

    def __str__(self) -> str:
        return f"{self.name}, at {self.position} ({self.reason})"


@dataclass(frozen=True, slots=True)
class Collected:
    """Log that gc removed of a source's bronze, or with ``dry_run`` would."""

    source: str
    files: tuple[HeldFile, ...]
    oldest: Position
    """Begin of bronze after it."""
    kept_for: Reader | None = None
    """The slowest reader, where it keeps files that are old enough to go."""

    @property
    def size(self) -> int:
        """Bytes of log."""
        return sum(file.size for file in self.files)


def gc_source(
    spark: SparkSession,
    pipeline: Pipeline,
    source: str,
    *,
    ignored: Collection[str] = (),
    dry_run: bool = False,
    now: datetime | None = None,
) -> Collected:
    """Remove the files whose newest transaction is older than ``retention.bronze`` and that no reader needs.

    ``ignored``: names of readers that are not waited for. Raises ConfigError for one that there is not, LakeError,
    LostRace where other writers keep winning.
    """
    work = _Collection(spark, pipeline, lake_of(pipeline), source, frozenset(ignored))
    with about(source):
        return work.run(now or datetime.now(UTC), dry_run=dry_run)


@dataclass(frozen=True, slots=True)
class LogReaders:
    """Readers of a source's bronze: each needs the log from a position on."""

    pipeline: Pipeline
    lake: Lake
    source: str

    def every_one(self, head: Head, checkpoint: Checkpoint) -> Iterator[Reader]:
        """All of them. head, checkpoint: of bronze. Raises LakeError."""
        begin = bronze.begin(checkpoint)
        surveyed = publication.surveyed_to(self.lake, self.source)
        yield Reader(SILVER, surveyed or begin, "no run has looked for tables in bronze beyond it")
        if self.pipeline.routing.shares(self.source):
            clock = commit_clock.clock_of(self.lake, self.source)
            clock_reason = "order times, for keys: shared, are not known beyond it"
            yield Reader(CLOCK, clock.position if clock else begin, clock_reason)
        # Each table in scope: silver, what is made of every change, and loads.
        for entry in publication.read(self.lake, self.source):
            if self.pipeline.scope.holds(*entry.name):
                reason = entry.reason or "silver has the table up to there"
                yield Reader(".".join(entry.name), entry.checkpoint or begin, reason)
                yield from _change_readers(entry, begin)
                # A table may be complete and be loaded again.
                loading = progress(self.lake, self.source, TableName(*entry.name))
                if loading and loading.is_open:
                    yield Reader(".".join(entry.name), loading.read_from, _why_loading(self.source, entry))
        yield from self._copies(head, bronze.oldest(checkpoint))
        # Consumers of the log itself.
        for group in groups_of(self.lake, self.source):
            reason = "the group of consumers has acknowledged the log up to there"
            yield Reader(f"{GROUP}{group.group}", group.cursor.position, reason)
        yield from self._deliveries(begin)

    def _deliveries(self, begin: Position) -> Iterator[Reader]:
        """The deliveries that follow the log; one whose target cannot be asked may need all of it."""
        for name in self.pipeline.deliveries:
            try:
                position = needed_from(self.pipeline, self.lake, name, self.source)
            except DeliveryError as error:
                yield Reader(f"{DELIVERY}{name}", begin, str(error))
                continue
            if position is not None:
                yield Reader(f"{DELIVERY}{name}", position, "the target has the log up to there (apply: ordered)")

    def _copies(self, head: Head, oldest: Position) -> Iterator[Reader]:
        """The tables that tools fill to take the place of others: what is logged of them is needed then."""
        scope = self.pipeline.scope
        helpers = [entry.name for entry in publication.read(self.lake, self.source) if scope.why_helper(*entry.name)]
        copies = [TableName(*name) for name in helpers if scope.helpers.is_copy(name[1])]
        if not copies:
            return
        range_scan = scan_metadata(read_index(self.lake.bronze(self.source), head.version, kind="statement"))
        for name in copies:
            position = made_at(range_scan, name, oldest)
            if position:
                yield Reader(
                    str(name), position, "an online schema change fills the table, and has not put it in its place"
                )


@dataclass(frozen=True, slots=True)
class _CollectionPlan:
    """The files that may go upon a head, and those that stay."""

    head: Head
    commit: BronzeCommit
    going: tuple[HeldFile, ...]
    staying: tuple[HeldFile, ...]
    kept_for: Reader | None

    def oldest_after(self, count: int) -> Position:
        """Begin of bronze once the first so many files are gone."""
        if not count:
            return bronze.oldest(self.commit)
        first = [*self.going, *self.staying][count]
        return Position(first.file, max(first.start, FIRST_EVENT), first.stretch)


@dataclass(frozen=True, slots=True)
class _Collection:
    spark: SparkSession
    pipeline: Pipeline
    lake: Lake
    source: str
    ignored: frozenset[str]

    @property
    def table(self) -> Table:
        return self.lake.bronze(self.source)

    @property
    def _readers(self) -> LogReaders:
        return LogReaders(self.pipeline, self.lake, self.source)

    def run(self, now: datetime, *, dry_run: bool) -> Collected:
        planned = self.plan(now)
        if dry_run:
            return self._collected(planned, planned.going)
        collected = self._without_old_files(planned, now)
        # What is derived of log that is gone goes behind it, that of a gc that was killed between them too.
        remove_derived = partial(remove_derived_before, self.spark, self.lake, self.source, collected.oldest)
        retry_on_conflict(partial(remove_derived, self.pipeline.spark.task_bytes))
        return collected

    def _without_old_files(self, planned: _CollectionPlan, now: datetime) -> Collected:
        """Remove the files that may go. Raises LostRace."""
        removed: list[HeldFile] = []
        for tries_left in reversed(range(_TRIES)):
            try:
                for files in self._remove(planned):
                    removed += files
            except LostRace:  # an extraction came first; what it added is no older
                if not tries_left:
                    raise
                planned = self.plan(now)
            else:
                break
        return self._collected(planned, removed)

    def _collected(self, planned: _CollectionPlan, removed: Sequence[HeldFile]) -> Collected:
        return Collected(self.source, tuple(removed), planned.oldest_after(len(planned.going)), planned.kept_for)

    def plan(self, now: datetime) -> _CollectionPlan:
        snapshot = BronzeSnapshot.of(self.lake, self.source)
        files = bronze.files(snapshot.table, snapshot.version)
        duration = self.pipeline.retention.bronze
        old = [] if duration is None else list(takewhile(lambda file: now - file.newest > duration, files[:-1]))
        waiting = self._waited_for(snapshot.head, snapshot.checkpoint, is_needed=bool(old) or bool(self.ignored))
        slowest = min(waiting, key=lambda reader: reader.position.order, default=None)
        limit = (slowest.position if slowest else snapshot.end).order[:2]
        going = tuple(takewhile(lambda file: file.file_number < limit, old))
        kept_for = slowest if len(going) < len(old) else None
        return _CollectionPlan(snapshot.head, snapshot.checkpoint, going, tuple(files[len(going) :]), kept_for)

    def _waited_for(self, head: Head, checkpoint: Checkpoint, *, is_needed: bool) -> list[Reader]:
        """The readers that are not ignored. Raises ConfigError where one is to be ignored that there is not."""
        readers = list(self._readers.every_one(head, checkpoint)) if is_needed else []
        unknown = sorted(self.ignored - {reader.name for reader in readers} - {XA, SILVER})
        if unknown:
            listed = ", ".join(sorted({reader.name for reader in readers} | {XA, SILVER}))
            raise ConfigError(f"{self.source}: no reader {unknown[0]!r} to ignore; there are {listed}")
        waiting = [reader for reader in readers if reader.name not in self.ignored]
        return waiting + (list(self._xa(head, waiting)) if is_needed and XA not in self.ignored else [])

    def _xa(self, head: Head, waiting: Sequence[Reader]) -> Iterator[Reader]:
        """The XA transactions whose rows somebody still needs: open ones, and those whose commit is not read by all."""
        slowest = min((reader.position for reader in waiting), default=None)
        for open_ in prepared_transactions(self.table, head.version, slowest):
            reason = "the log does not say yet whether it is committed"
            if open_.committed:
                reason = f"its XA COMMIT at {open_.committed} is not read by all"
            yield Reader(XA, open_.position, f"XA transaction {open_.xid} is prepared, and {reason}")

    def _remove(self, planned: _CollectionPlan) -> Iterator[Sequence[HeldFile]]:
        """Remove batch after batch, each upon the commit before; yield the files of each. Raises LostRace."""
        head, removed = planned.head, 0
        for files in _batches(planned.going):
            removed += len(files)
            oldest = planned.oldest_after(removed)
            commit = replace(
                planned.commit, batch=new_batch(), kind=CommitKind.GC, oldest=oldest, removed_to=files[-1].end
            )
            head = self._delete_before(oldest, head, commit)
            log.info("%s: removed %s to %s", self.source, files[0].file, files[-1].file)
            yield files

    def _delete_before(self, oldest: Position, head: Head, checkpoint: Checkpoint) -> Head:
        """Remove the files before a position, in one commit upon ``head``. Raises LostRace."""
        stretch, number, _ = oldest.order
        upon = driver_commit.snapshot_upon(self.table.path, head)
        changes = log_removal_arguments(self.spark, upon, (stretch, number), self.pipeline.spark.task_bytes)
        return self.table.land(upon, head, checkpoint, **changes)


def _why_loading(source: str, entry: Entry) -> str:
    """Reason why an open load keeps log, and how to end one that nobody continues."""
    reason = "a load of the table began there"
    if not entry.complete:
        return reason
    return f"{reason}; if it was interrupted, stratalog load --source {source} --table {'.'.join(entry.name)} ends it"


def _change_readers(entry: Entry, begin: Position) -> Iterator[Reader]:
    """The downstream tables of a table that read bronze themselves, since they are made of every change."""
    for target in entry.into:
        if Mode(target.mode).has_every_change:
            reason = f"{'.'.join(target.name)} has the table up to there (mode: {target.mode})"
            yield Reader(".".join(entry.name), Position.parse(target.merged) if target.merged else begin, reason)


def _batches(files: Sequence[HeldFile]) -> Iterator[list[HeldFile]]:
    """The files in runs of at most ``_BATCH`` bytes, or of one file."""
    batch: list[HeldFile] = []
    for file in files:
        if batch and sum(file.size for file in batch) + file.size > _BATCH:
            yield batch
            batch = []
        batch.append(file)
    if batch:
        yield batch
