"""The lease of a group: one consumer has it, and renews it while it lives.

Put here: taking, renewing and giving up a group, and moving its cursor. Not here: files of records (records.py), or
what is delivered (subscription.py).
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from spark_jobs.errors import LostRace, StratalogError
from spark_jobs.subscriptions.cursor import Cursor
from spark_jobs.subscriptions.records import Consumer, Record, Records

log = logging.getLogger(__name__)


class Lease:
    """A group that this process has taken. A thread of its own renews it, until it is given up or lost."""

    def __init__(self, records: Records, record: Record, *, is_orphaned: bool = False) -> None:
        """record: as it was written with this process as the consumer. is_orphaned: the last one did not free it."""
        assert record.consumer
        self.is_orphaned = is_orphaned
        self._records, self._record, self._consumer = records, record, record.consumer
        self._takeover: StratalogError | None = None
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._written_at = time.monotonic()
        self._renewer = threading.Thread(target=self._renew, name=f"lease of {record.group}", daemon=True)
        self._renewer.start()

    @classmethod
    def take(
        cls,
        records: Records,
        group: str,
        *,
        make: Callable[[], Record],
        tables: tuple[str, ...],
        lease: float,
        wait: float,
    ) -> "Lease":
        """Take a group, or wait for it. Raises StratalogError where another consumer has it, LakeError.

        make: the record of a group that is not there yet. tables: those of the group from now on, if any are named.
        """
        consumer, deadline = Consumer.of_process(lease), time.monotonic() + wait
        while True:
            record = records.read(group) or make()
            holder = record.consumer
            # Nobody has it, or who had it gave no sign of life: whoever writes the next record first takes it.
            if holder is None or records.age(record) > holder.lease:
                try:
                    written = records.write(replace(record, consumer=consumer, tables=tables or record.tables))
                    return cls(records, written, is_orphaned=holder is not None)
                except LostRace:
                    continue
            if time.monotonic() >= deadline:
                raise StratalogError(
                    f"{records.source}: group {group} has a consumer, {holder.name}; end that one, or wait: the group "
                    f"is free {holder.lease:.0f} seconds after its last sign of life"
                )
            time.sleep(min(1.0, max(0.0, deadline - time.monotonic())))

    @property
    def record(self) -> Record:
        """The group's newest record. Raises StratalogError where another consumer has taken over."""
        self.require()
        return self._record

    @property
    def idle_seconds(self) -> float:
        """Seconds since the group's record was written."""
        return time.monotonic() - self._written_at

    def require(self) -> None:
        """Check that no other consumer has taken over. Raises StratalogError."""
        if self._takeover:
            raise self._takeover

    def move(self, cursor: Cursor, batch: int) -> None:
        """Acknowledge up to a cursor. Raises StratalogError where another consumer has taken over, LakeError."""
        with self._lock:
            self._write_record(replace(self.record, cursor=cursor, batch=batch))

    def abandon(self) -> None:
        """Ends without a word: a group that this consumer made is none again, others are free after the lease."""
        self._ending.set()
        self._renewer.join()
        if self._record.version == 1:
            self._records.remove(self._record.group)

    def give_up(self, cursor: Cursor | None = None) -> None:
        """Frees the group at once, at a cursor or where it is; nothing where another consumer has taken over."""
        self._ending.set()
        self._renewer.join()
        if not self._takeover:
            try:
                self._records.write(replace(self._record, cursor=cursor or self._record.cursor, consumer=None))
            except LostRace:
                log.debug("%s: group %s was taken over before", self._records.source, self._record.group)

    def _write_record(self, record: Record) -> None:
        try:
            self._record = self._written_record(record)
        except LostRace:
            self._takeover = StratalogError(
                f"{self._records.source}: group {record.group} was taken over or moved; what this consumer did not "
                "acknowledge is delivered again there; end this one"
            )
            raise self._takeover from None
        self._written_at = time.monotonic()

    def _written_record(self, record: Record) -> Record:
        """The record as it was written. Raises LostRace where another consumer has the group."""
        try:
            return self._records.write(_onward(record, self._record))
        except LostRace:
            newest = self._records.read(record.group)
            if newest is None or newest.consumer != self._consumer:
                raise
            # A write of this consumer's own whose answer was lost. What it acknowledged stays: gc may know it already.
            return self._records.write(replace(_onward(record, newest), version=newest.version))

    def _renew(self) -> None:
        """Write the record again whenever a third of the lease is over."""
        pause = self._consumer.lease / 3
        while not self._ending.wait(pause / 2):
            with self._lock:
                if self._takeover or self.idle_seconds < pause:
                    continue
                try:
                    self._write_record(self._record)
                except StratalogError as error:  # the store is away: the next attempt, or the next consumer
                    log.warning("%s", error)


def _onward(record: Record, known: Record) -> Record:
    """A record that does not move the group back behind one that was written."""
    if record.cursor.order >= known.cursor.order:
        return record
    return replace(record, cursor=known.cursor, batch=known.batch)
