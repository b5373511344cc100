"""Scenarios of consumer groups: consumers that take over, sleep, die and lose answers, and traces of what they did.

Everything is the project's own code upon files. A seed decides who does what next, when a lease counts as over, and
which writes of records get a fault. What is read of bronze is read once, and kept.

Put here: scenarios and their traces. Not here: the model (spec/Subscription.tla), how traces are followed (tracing.py).
"""

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from spark_jobs.config.model import Pipeline
from spark_jobs.errors import LakeError, LostRace, StratalogError
from spark_jobs.storage import files
from spark_jobs.subscriptions import records as records_module
from spark_jobs.subscriptions.cursor import Cursor
from spark_jobs.subscriptions.entries import EntryReader, LogEntry
from spark_jobs.subscriptions.records import Record, Records
from spark_jobs.subscriptions.subscription import Subscription
from spec.check import Definition, Model
from tests.faults.tracing import followed
from tests.lakes.consumers import SOURCE, Shop, orders

ENTRIES = 6
_STEPS = 40
_AT_ONCE = 3
"""Consumers that are connected, or think so."""
_LEASE = 3600.0
_FAULTS = 0.25
"""Of writes of a record."""
KINDS = ("killed before", "killed after", "answer lost", "another consumer in between")


class Killed(BaseException):
    """The consumer is gone. No code catches it."""


@dataclass(frozen=True, slots=True)
class LeaseEvent:
    """One abstract action of a consumer: take, move, renew, get, rollback, confirmed or gone.

    connection: its number, from 1 on. upon: the version that a write was planned on. cursor: the entry that it says, or
    that was given. ok: whether the write counts; answered: whether its consumer learned that. frees: whether nobody has
    the group then. over: whether the lease before had ended.
    """

    kind: str
    connection: int
    upon: int = 0
    cursor: int = 0
    ok: bool = True
    answered: bool = True
    frees: bool = False
    over: bool = False


LeaseTrace = tuple[LeaseEvent, ...]


class LoggedShop:
    """A lake with some entries of the log, which groups of all scenarios read."""

    def __init__(self, folder: Path) -> None:
        shop = Shop(folder)
        shop.log(orders(ENTRIES))
        self.pipeline: Pipeline = shop.pipeline
        self.records = Records(shop.lake, SOURCE)
        with shop.subscription("first") as subscription:
            start = subscription._connected().record.cursor
            entries = subscription.get_without_ack(ENTRIES + 1).entries
        assert len(entries) == ENTRIES
        self.start = start
        self.numbers: dict[Cursor, int] = {start: 0} | {entry.after: at for at, entry in enumerate(entries, 1)}
        self._kept: dict[Cursor, tuple[list[LogEntry], Any, int]] = {}

    def number(self, cursor: Cursor) -> int:
        """The last entry before a cursor; bronze has no more behind its end."""
        return self.numbers.get(cursor, ENTRIES)

    @contextmanager
    def reading_once(self) -> Iterator[None]:
        """Bronze is read once for each cursor while the context lasts, and files need not be durable."""
        entries = EntryReader.entries

        def kept(reader: EntryReader, cursor: Cursor, group: str) -> Iterator[LogEntry]:
            if cursor not in self._kept:
                read = [*entries(reader, cursor, group)]
                self._kept[cursor] = read, reader.end, reader.version
            read, reader.end, reader.version = self._kept[cursor]
            yield from read

        with patch.object(EntryReader, "entries", kept), patch.object(os, "fsync", lambda _: None):
            yield


class Scenario:
    """Consumers of one group."""

    def __init__(self, seed: int, shop: LoggedShop) -> None:
        self.random = random.Random(seed)
        self.shop = shop
        self.group = f"g{seed}"
        self.events: list[LeaseEvent] = []
        self.counts: Counter[str] = Counter()
        self._consumers: dict[int, Subscription] = {}
        self._connections = 0
        self._acting: list[tuple[int, str]] = []
        """Who writes, and for what: take, move or renew; the last one is in between the others' calls."""
        self._is_over = False

    def play(self) -> LeaseTrace:
        """What happened. Raises whatever a consumer must not raise."""
        self.shop.records.write(Record(self.group, 0, self.shop.start))
        with (
            self.shop.reading_once(),
            patch.object(Records, "write", self._writing()),
            patch.object(Records, "age", lambda *_: 2 * _LEASE if self._is_over else 0.0),
        ):
            for _ in range(_STEPS):
                self._next_step()
        for connection in [*self._consumers]:
            self._die(connection)
        self.shop.records.remove(self.group)  # each look at a group lists the files of all
        return tuple(self.events)

    def _next_step(self) -> None:
        free = [
            connection
            for connection in self._consumers
            if connection not in {connection for connection, _ in self._acting}
        ]
        if len(self._consumers) < _AT_ONCE and (not free or self.random.random() < 0.25):
            self._connect()
        elif free:
            connection = self.random.choice(free)
            acts = [self._get, self._get, self._ack, self._ack, self._renew, self._rollback, self._close, self._die]
            self._act(connection, self.random.choice(acts))

    def _connect(self) -> None:
        self._connections += 1
        connection = self._connections
        consumer = Subscription(self.shop.pipeline, SOURCE, self.group, lease=_LEASE)
        self._is_over = self.random.random() < 0.4
        self._acting.append((connection, "take"))
        try:
            consumer.connect()
        except (Killed, StratalogError):  # another one has it, an answer was lost, or it is gone
            return
        finally:
            self._acting.pop()
        self._consumers[connection] = consumer

    def _act(self, connection: int, act: Callable[[int], None]) -> None:
        """What a connected consumer does; one that is refused ends."""
        self._acting.append((connection, "renew" if act == self._renew else "move"))
        try:
            act(connection)
        except LakeError:  # its answer was lost: it goes on
            pass
        except (Killed, StratalogError):
            self._die(connection)
        finally:
            self._acting.pop()

    def _get(self, connection: int) -> None:
        batch = self._consumers[connection].get_without_ack(1)
        self.events += [LeaseEvent("get", connection, cursor=self.shop.number(entry.after)) for entry in batch.entries]

    def _ack(self, connection: int) -> None:
        waiting = self._consumers[connection]._outstanding
        if waiting:
            batch, cursor = waiting[0]
            self._consumers[connection].ack(batch)
            self.events.append(LeaseEvent("confirmed", connection, cursor=self.shop.number(cursor)))

    def _renew(self, connection: int) -> None:
        """As the thread of the lease does once a third of it is over."""
        lease = self._consumers[connection]._connected()
        with lease._lock:
            lease._write_record(lease.record)

    def _rollback(self, connection: int) -> None:
        self._consumers[connection].rollback()
        cursor = self._consumers[connection]._connected().record.cursor
        self.events.append(LeaseEvent("rollback", connection, cursor=self.shop.number(cursor)))

    def _close(self, connection: int) -> None:
        consumer = self._consumers.pop(connection)
        with suppress(LakeError):
            consumer.close()
        self.events.append(LeaseEvent("gone", connection))

    def _die(self, connection: int) -> None:
        """Its thread ends with it, and writes nothing."""
        consumer = self._consumers.pop(connection, None)
        if consumer and consumer._lease:
            consumer._lease._ending.set()
            self.events.append(LeaseEvent("gone", connection))

    def _writing(self) -> Callable[[Records, Record], Record]:
        """In the place of ``Records.write``: the same with a fault, and an event of how it ended."""
        write, create = Records.write, files.create

        def written(records: Records, record: Record) -> Record:
            fault = self.random.choice(KINDS) if self.random.random() < _FAULTS else ""
            self._inject_fault(fault)
            connection, kind = self._acting[-1]
            event = LeaseEvent(
                kind,
                connection,
                upon=record.version,
                cursor=self.shop.number(record.cursor),
                frees=record.consumer is None,
                over=self._is_over,
            )
            created: list[bool] = []

            def creating(*arguments: Any, **options: Any) -> bool:
                created.append(create(*arguments, **options))
                if created[-1] and fault == "killed after":
                    raise Killed
                if created[-1] and fault == "answer lost":
                    raise OSError("the answer was lost")
                return created[-1]

            try:
                with patch.object(files, "create", creating):
                    result = write(records, record)
            except LostRace:
                self._note_event(event, ok=False)
                raise
            except (Killed, LakeError):
                # A version whose file gc has removed can be created again, and does not count.
                newest = records.read(self.group)
                is_newest = newest is not None and newest.version == record.version + 1
                self._note_event(event, ok=created[-1] and is_newest, answered=False)
                self.counts[fault] += 1
                raise
            self._note_event(event)
            return result

        return written

    def _inject_fault(self, fault: str) -> None:
        if fault == "killed before":
            self.counts[fault] += 1
            raise Killed
        if fault == "another consumer in between" and len(self._acting) < _AT_ONCE:
            self.counts[fault] += 1
            is_over = self._is_over
            self._next_step()
            self._is_over = is_over

    def _note_event(self, event: LeaseEvent, **changes: Any) -> None:
        self.events.append(LeaseEvent(**asdict(event) | changes))


def play(seeds: range, folder: Path) -> tuple[Counter[str], list[LeaseTrace]]:
    """Faults by kind, and a trace of each scenario."""
    shop, counts, traces = LoggedShop(folder), Counter[str](), list[LeaseTrace]()
    for seed in seeds:
        scenario = Scenario(seed, shop)
        traces.append(scenario.play())
        counts += scenario.counts
    return counts, traces


def first_rejection(traces: list[LeaseTrace]) -> tuple[int, int, str] | None:
    """The first trace that the model does not allow, its event that cannot happen and why; None where it allows all."""
    numbers = sorted({event.connection for trace in traces for event in trace})
    connections = ", ".join(f'"c{number}"' for number in numbers)
    named = [[asdict(event) | {"connection": f"c{event.connection}"} for event in trace] for trace in traces]
    return followed(named, _MODEL, f"Connections == {{{connections}}}\n")


_MODEL = Model(
    "SubscriptionTrace",
    {
        "LogEnd": ENTRIES,
        "Consumers": Definition("Connections"),
        "Kept": records_module._KEPT,
        "Takeovers": 0,
        "Faults": 0,
        "Renewals": 0,
    },
    ("NothingSkipped", "Confirmed", "Newest"),
    ("Forward",),
    specification="TraceSpec",
    is_complete=False,
)
