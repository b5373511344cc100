"""A consumer of a group: batches of entries, acknowledged in order, at least once.

    from pathlib import Path
    from stratalog import Subscription, load

    with Subscription(load(Path("pipeline.yaml")), "shop", "search", tables=["shop.orders"]) as subscription:
        while True:
            batch = subscription.get_without_ack(1000, timeout=60)
            index(batch)
            subscription.ack(batch.id)

Put here: batches, acknowledgements, and the lease while the group is consumed. Not here: entries (entries.py), records
(records.py).
"""

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from types import TracebackType
from typing import Self

from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.changes.formats.canal import CanalFormat
from spark_jobs.changes.lines import Output, wanted_tables
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import ConfigError, StratalogError
from spark_jobs.lake.layout import lake_of
from spark_jobs.subscriptions.cursor import Cursor
from spark_jobs.subscriptions.entries import EntryReader, LogEntry
from spark_jobs.subscriptions.lease import Lease
from spark_jobs.subscriptions.positions import start_of
from spark_jobs.subscriptions.records import Record, Records, require_group_name

LEASE_SECONDS = 30.0
_SOONEST, _LATEST = 0.1, 3.0
"""Seconds between two looks for new commits of bronze."""
_ADVANCE_SECONDS = 10.0
"""Seconds between two records that move a position over log without entries."""
_BATCH_LETTERS = 16 << 20
"""Letters of lines from which on a batch ends before it has its size."""
NONE_ID = -1
"""Id of a batch without entries, as canal has it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Entries that are acknowledged together. id: counts up from the last acknowledged; -1 where there is no entry."""

    id: int
    entries: tuple[LogEntry, ...]

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[LogEntry]:
        return iter(self.entries)


class Subscription:
    """The consumer of one group of one source. A group has one consumer at a time.

    Delivery is at least once: what was delivered and not acknowledged comes again, to this consumer or the next one.
    Of what comes again, ``position`` and ``row`` are the same.
    """

    def __init__(  # noqa: PLR0913 - each has a default that fits most
        self,
        pipeline: Pipeline,
        source: str,
        group: str,
        *,
        tables: Sequence[str] = (),
        format: str = "stratalog",  # noqa: A002 - the option's name
        start: str = "earliest",
        ddl: bool | None = None,
        transactions: bool = False,
        wait: float = 0.0,
        lease: float = LEASE_SECONDS,
    ) -> None:
        """Consumer that reads and writes nothing before ``connect``, or the beginning of a ``with`` block.

        Args:
            pipeline: The configuration.
            source: One of its sources.
            group: The name of the group; a new one starts at ``start``.
            tables: Patterns such as ``shop.*``. By default those of the group's last consumer, or all.
            format: stratalog, debezium, canal-json or maxwell.
            start: Where a new group starts: earliest, latest, a position, a GTID set or a time.
            ddl: Whether DDL statements are entries; by default as the format's tool has it.
            transactions: Whether begins and ends of transactions are entries.
            wait: Seconds to wait for a group that another consumer has.
            lease: Seconds without a sign of life after which this consumer counts as gone.

        Raises:
            ConfigError: A name, a table or a format is none.
        """
        if source not in pipeline.sources:
            raise ConfigError(f"no source {source!r}; there are {', '.join(pipeline.sources)}")
        self.source, self.group = source, require_group_name(group)
        self._lake = lake_of(pipeline)
        self._records = Records(self._lake, source)
        self._output = Output.of(format, statements=ddl, transactions=transactions)
        self._tables, self._start, self._wait_seconds = tuple(tables), start, wait
        wanted_tables(self._tables)
        self._lease_seconds = lease
        self._lease: Lease | None = None
        self._waking = threading.Event()
        self._reader = EntryReader(self._lake, source, lambda _: True, self._output)
        self._outstanding: deque[tuple[int, Cursor]] = deque()
        self._read_to: Cursor | None = None
        """Cursor after the newest batch, or after log without entries that follows it."""
        self._entries: Iterator[LogEntry] | None = None

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def connect(self) -> None:
        """Take the group. Raises StratalogError where another consumer has it, LakeError, SourceError, ConfigError."""
        self._lease = Lease.take(
            self._records,
            self.group,
            make=self._new,
            tables=self._tables,
            lease=self._lease_seconds,
            wait=self._wait_seconds,
        )
        try:
            self._register_group(self._lease)
        except BaseException:
            lease, self._lease = self._lease, None
            with suppress(StratalogError):  # the record stays, and its next consumer registers the group
                lease.abandon()
            raise
        record = self._lease.record
        self._reader = EntryReader(self._lake, self.source, wanted_tables(record.tables), self._output)
        self._outstanding.clear()
        self._rewind(record.cursor)

    def _register_group(self, lease: Lease) -> None:
        """Make gc wait for a new group: a removal of log that did not see its record loses.

        The consumer that made a group may have been killed before it got here; then its next one does it. A group that
        is made here and starts with the earliest log starts behind what went before.

        Raises LakeError, LostRace, StratalogError where another consumer has taken over.
        """
        if lease.record.version > 1 and (lease.record.batch or not lease.is_orphaned):
            return
        self._lake.bronze(self.source).fence()
        if (
            lease.record.version == 1
            and self._start == "earliest"
            and lease.record.cursor.position < BronzeSnapshot.of(self._lake, self.source).oldest
        ):
            lease.move(self._new().cursor, lease.record.batch)

    def close(self) -> None:
        """Release the group at once. Entries that are not acknowledged are delivered again."""
        lease, self._lease, self._entries = self._lease, None, None
        if lease:
            lease.give_up(None if self._outstanding else self._read_to)

    def get(self, size: int = 1000, timeout: float | None = None) -> Batch:
        """The next entries as ``get_without_ack``, in a batch that is acknowledged before it is returned: at most once.

        Raises StratalogError where batches wait for their acknowledgement.
        """
        if self._outstanding:
            raise StratalogError(
                f"{self.source}: group {self.group}: batch {self._outstanding[0][0]} is not acknowledged; acknowledge "
                "it, or roll back, before get, or use get_without_ack"
            )
        batch = self.get_without_ack(size, timeout)
        self.ack(batch.id)
        return batch

    def get_without_ack(self, size: int = 1000, timeout: float | None = None) -> Batch:
        """The next entries, at most ``size``; a batch with id -1 where there are none.

        Several batches may be outstanding.

        Args:
            size: The most entries; a batch of long lines has fewer.
            timeout: Seconds to wait for the first entry; None: what there is now.

        Raises:
            StratalogError: Another consumer has taken over.
            LakeError: Bronze does not hold the group's position.
            DecodeError: The log cannot be read; the entries before that were delivered.
        """
        record = self._connected().record
        batch_id = (self._outstanding[-1][0] if self._outstanding else record.batch) + 1
        if isinstance(self._output.form, CanalFormat):
            self._output.form.batch = batch_id
        # What is there now, or what comes until the deadline.
        deadline = time.monotonic() + (timeout or 0.0)
        entries = self._next_entries(size)
        while not entries and self._wait(deadline):
            entries = self._next_entries(size)
        if not entries:
            self._advance_position()
            return Batch(NONE_ID, ())
        self._read_to = entries[-1].after
        self._outstanding.append((batch_id, self._read_to))
        return Batch(batch_id, tuple(entries))

    def ack(self, batch_id: int) -> None:
        """Acknowledge a batch, the first that is outstanding; nothing for -1.

        Raises:
            StratalogError: It is not the first, or another consumer has taken over.
        """
        lease = self._connected()
        lease.require()
        if batch_id == NONE_ID:
            return
        self._require_outstanding(batch_id, only_first=True)
        lease.move(self._outstanding[0][1], batch_id)
        self._outstanding.popleft()

    def rollback(self, batch_id: int | None = None) -> None:
        """Deliver a batch and all after it again; without an id all that are outstanding.

        Raises:
            StratalogError: The batch is not outstanding, or another consumer has taken over.
        """
        record = self._connected().record
        if batch_id is not None:
            self._require_outstanding(batch_id, only_first=False)
        while self._outstanding and (batch_id is None or self._outstanding[-1][0] >= batch_id):
            self._outstanding.pop()
        self._rewind(self._outstanding[-1][1] if self._outstanding else record.cursor)

    def peek(self, size: int | None = None) -> Iterator[LogEntry]:
        """The next entries of the group, at most ``size``, to the end of bronze. Needs no ``connect``, changes nothing.

        Raises as ``get_without_ack``.
        """
        record = self._records.read(self.group) or self._new()
        tables = self._tables or record.tables
        reader = EntryReader(self._lake, self.source, wanted_tables(tables), self._output)
        return islice(reader.entries(record.cursor, self.group), size)

    def wake(self) -> None:
        """End the waiting of ``get``, from another thread or a signal's handler."""
        self._waking.set()

    def _new(self) -> Record:
        """The record of a group that is not there yet."""
        start = start_of(BronzeSnapshot.of(self._lake, self.source), self._start)
        return Record(self.group, 0, Cursor(start))

    def _connected(self) -> Lease:
        if self._lease is None:
            raise StratalogError(f"{self.source}: group {self.group} is not connected; call connect first")
        return self._lease

    def _require_outstanding(self, batch_id: int, *, only_first: bool) -> None:
        ids = [id_ for id_, _ in self._outstanding]
        expected = ids[:1] if only_first else ids
        if batch_id not in expected:
            listed = ", ".join(map(str, expected)) or "none is outstanding"
            text = "not the first that is outstanding" if batch_id in ids else "not outstanding"
            raise StratalogError(f"{self.source}: group {self.group}: batch {batch_id} is {text}: {listed}")

    def _rewind(self, cursor: Cursor) -> None:
        self._read_to, self._entries = cursor, None

    def _next_entries(self, size: int) -> list[LogEntry]:
        """The entries after ``_read_to``, as far as there are some. What fails after some of them fails next time."""
        assert self._read_to
        entries: list[LogEntry] = []
        letters = 0
        if self._entries is None:
            self._entries = self._reader.entries(self._read_to, self.group)
        try:
            for entry in self._entries:
                entries.append(entry)
                letters += len(entry.line)
                if len(entries) >= size or letters >= _BATCH_LETTERS:
                    return entries
        except StratalogError:
            self._entries = None
            if not entries:
                raise
            return entries
        except BaseException:  # an interrupt: what was read is read again, and an ended reader says nothing of the log
            self._entries = None
            raise
        # The end of bronze: the next reading begins with its newest version then.
        self._entries = None
        if not entries and self._reader.end:
            self._read_to = Cursor(self._reader.end)
        return entries

    def _wait(self, deadline: float) -> bool:
        """True if bronze has new commits before a deadline. Looks ever more seldom."""
        pause = _SOONEST
        while not self._waking.is_set():
            self._connected().require()
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return False
            self._waking.wait(min(pause, remaining))
            if self._reader.has_more():
                return True
            pause = min(2 * pause, _LATEST)
            self._advance_position()
        self._waking.clear()
        return False

    def _advance_position(self) -> None:
        """Move the position over log without entries, now and then."""
        lease = self._connected()
        if self._outstanding or self._read_to is None or self._read_to == lease.record.cursor:
            return
        if lease.idle_seconds > _ADVANCE_SECONDS:
            lease.move(self._read_to, lease.record.batch)
