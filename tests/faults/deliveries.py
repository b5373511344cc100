"""Scenarios of deliveries: statements at a real target that fail, deliverers that die or are overtaken, and traces.

Everything is the project's own code upon a lake that is written without Spark, and a server. A seed decides what the
lake has, which statements get a fault, and who comes in between. A delivery has one connection that writes, so that a
seed repeats its order.

Put here: scenarios and their traces. Not here: the model (spec/Delivery.tla), how traces are followed (tracing.py),
kills at each statement (tests/spark_jobs/delivery/test_transactions.py).
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self
from unittest.mock import patch

import pymysql
from pymysql.constants import CR

from spark_jobs.config.model import Pipeline
from spark_jobs.delivery import progress, table_delivery, target, transactions
from spark_jobs.delivery.deliver import deliver
from spark_jobs.delivery.progress import Progress, TableId
from spark_jobs.delivery.target import Connection
from spark_jobs.delivery.transactions import TargetTransaction
from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import StratalogError
from spec.check import Definition, Model
from tests.binlogs.segment_spec import Change, Delete, Insert, Update
from tests.faults.checking import Wrong
from tests.faults.tracing import followed
from tests.spark_jobs.delivery.written_lake import WrittenLake

DELIVERY = "copy"
TABLES = ("keyed", "bag")
_STAGES = 3
_FAULTS_A_STAGE = 4
_CALLS = 40
"""Of a delivery, before one is known."""
KINDS = (
    "killed before a statement",
    "killed after a statement",
    "connection lost before a statement",
    "answer of a statement lost",
    "taken over by one that dies",
    "another delivery in between",
)
AIMED = "taken over by one that dies, before a part is complete"
"""The first fault of a stage. Where windows are of one transaction, it is none."""


class Killed(BaseException):
    """The deliverer is gone. No code catches it, and none of its statements does anything any more."""


@dataclass(frozen=True, slots=True)
class DeliveryEvent:
    """One abstract action of a deliverer at one table: claim, open, part, complete, learned or gone.

    version: that the window ends at; part: its name; of: what was learned. ok: whether a transaction counted. fence,
    reached, open, named: what the row of progress says after it. Versions are those of the lake plus one, 0 is none.
    """

    kind: str
    deliverer: int
    version: int = 0
    part: str = ""
    of: str = ""
    ok: bool = True
    fence: int = 0
    reached: int = 0
    open: int = 0
    named: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeliveryTrace:
    """What happened to one table of a target."""

    title: str
    events: tuple[DeliveryEvent, ...]


@dataclass
class _Deliverer:
    number: int
    fault: str = ""
    at: int = 0
    """The number of the statement that gets the fault, or of the first one after it that may have it."""
    calls: int = 0
    is_dead: bool = False


@dataclass
class _Session:
    """Of a connection: whether a transaction is open, and which statement of the row of progress it has."""

    is_open: bool = False
    moved: DeliveryEvent | None = None
    table: str = ""


_MOVES = {
    "open": re.compile(r"SET exit_version = (\d+)"),
    "part": re.compile(r"SET parts = CONCAT\(parts, ',([cdiu\d-]+)'\).* AND exit_version = (\d+)"),
    "complete": re.compile(r"SET lake_id = .*?, lake_version = (\d+)"),
}
"""Statements that move the row of progress."""


class Scenario:
    """Deliveries of one lake."""

    def __init__(self, seed: int, server: MySQLServer, folder: Path) -> None:
        self.seed, self.random, self._server = seed, random.Random(seed), server
        self.schema = f"copy{seed}"
        self._random_changes, self._ends = _random_changes(self.random)
        login = {"host": server.host, "port": server.port, "user": "writer", "password": "writes"}
        self._lake = WrittenLake(folder, self.schema, login, self._random_changes)
        size = self.random.choice([1, 2, 100])
        self.pipeline: Pipeline = self._lake.pipeline(batch_rows=size, workers=1)
        self.counts: Counter[str] = Counter()
        self._rows: dict[str, list[Counter[Any]]] = {name: [] for name in TABLES}
        """Of each table's versions."""
        self._events: dict[str, list[DeliveryEvent]] = {name: [] for name in TABLES}
        self._acting: list[_Deliverer] = []
        """The last one is in between the statements of the one before."""
        self._deliverers, self._calls = 0, _CALLS
        self._sessions: dict[Connection, _Session] = {}
        self._execute, self._query, self._commit = Connection.execute, Connection.rows, transactions.commit

    def play(self) -> list[DeliveryTrace]:
        """What happened to each table. Raises Wrong, and whatever a deliverer must not raise."""
        with self._server.connect() as self._observer, self._target_tables(), self._numbered_statements():
            for end in self._ends:
                self._lake.publish(end, TABLES)
                for name in TABLES:
                    self._rows[name].append(self._lake.rows[name])
                for number in range(_FAULTS_A_STAGE):
                    self._delivery_run(self.random.choice(KINDS) if number else AIMED)
                    self._check(is_complete=False)
                self._delivery_run("")
                self._check(is_complete=True)
        return [DeliveryTrace(f"seed {self.seed}, {name}", tuple(events)) for name, events in self._events.items()]

    @contextmanager
    def _target_tables(self) -> Iterator[None]:
        rows_of_answer(self._observer, f"CREATE DATABASE {self.schema}")
        rows_of_answer(self._observer, f"CREATE TABLE {self.schema}.keyed (id INT PRIMARY KEY, n INT)")
        rows_of_answer(self._observer, f"CREATE TABLE {self.schema}.bag (id INT, n INT)")
        yield
        rows_of_answer(self._observer, f"DROP DATABASE {self.schema}")

    @contextmanager
    def _numbered_statements(self) -> Iterator[None]:
        """Statements get their faults while the context lasts, and what they did to rows of progress is recorded."""
        scenario = self

        def executing(connection: Connection, statement: str | bytes) -> int:
            return int(scenario._call(connection, lambda: scenario._executed(connection, statement), str(statement)))

        def asking(connection: Connection, query: str, parameters: Any = ()) -> Any:
            return scenario._call(connection, lambda: scenario._query(connection, query, parameters))

        def committing(connection: Connection, work: TargetTransaction, fence: int) -> bool:
            is_first = scenario._commit(connection, work, fence)
            move = _move_of(work.progress)
            assert move
            scenario._noted_event(work.table.table, replace(move, kind="learned", of=move.kind))
            return is_first

        with (
            patch.object(Connection, "execute", executing),
            patch.object(Connection, "rows", asking),
            patch.object(table_delivery, "commit", committing),
            patch.object(target, "_FIRST_WAIT", 0.01),
        ):
            yield

    def _delivery_run(self, fault: str) -> None:
        """A delivery with a fault. Raises Wrong where there is none, and a table stops."""
        deliverer = self._new_deliverer(fault)
        self._acting.append(deliverer)
        try:
            outcome = deliver(self.pipeline, DELIVERY)
        except StratalogError as error:
            if not fault:
                raise Wrong(f"seed {self.seed}: {error}") from error
        except Killed:
            pass
        else:
            if outcome.stopped and not fault:
                raise Wrong(f"seed {self.seed}: tables stopped: {outcome.stopped}")
        finally:
            self._end()
        if not fault:
            self._calls = deliverer.calls

    def _new_deliverer(self, fault: str = "") -> _Deliverer:
        self._deliverers += 1
        return _Deliverer(self._deliverers, fault, 1 if fault == AIMED else self.random.randint(1, self._calls))

    def _end(self) -> None:
        """The one that acts is gone."""
        for name in TABLES:
            if any(event.deliverer == self._acting[-1].number for event in self._events[name]):
                self._noted_event(name, DeliveryEvent("gone", self._acting[-1].number))
        self._acting.pop()

    def _call(self, connection: Connection, function: Callable[[], Any], statement: str = "") -> Any:
        """A statement of the one that acts, or what its fault makes of it. statement: its text; of a query none."""
        deliverer = self._acting[-1]
        if deliverer.is_dead:
            raise Killed
        deliverer.calls += 1
        is_due = deliverer.calls >= deliverer.at and self._may_have(deliverer.fault, statement)
        fault = deliverer.fault if is_due else ""
        if fault:
            deliverer.fault = ""
            self.counts[fault] += 1
        match fault:
            case "killed before a statement":
                self._kill(deliverer)
            case "connection lost before a statement":
                self._lose(connection)
            case "taken over by one that dies" | "taken over by one that dies, before a part is complete":
                self._take_over()
            case "another delivery in between":
                self._delivery_run("")
        result = function()
        match fault:
            case "killed after a statement":
                self._kill(deliverer)
            case "answer of a statement lost":
                self._lose(connection)
        return result

    def _may_have(self, fault: str, statement: str) -> bool:
        """True if nobody who comes in between would wait for locks of the one that waits for it."""
        if fault == "another delivery in between":
            return not any(session.is_open for session in self._sessions.values())
        if fault == AIMED:
            # The rows of the part are written, and one part in two is let through.
            return bool(_MOVES["part"].search(statement)) and self.random.random() < 0.5
        if fault == "taken over by one that dies":
            return not any(session.moved for session in self._sessions.values())
        return True

    def _kill(self, deliverer: _Deliverer) -> None:
        deliverer.is_dead = True
        for connection in self._sessions:
            self._cut_connection(connection)
        self._sessions.clear()
        raise Killed

    def _lose(self, connection: Connection) -> None:
        self._cut_connection(connection)
        self._sessions.pop(connection, None)
        raise pymysql.err.OperationalError(CR.CR_SERVER_LOST, "the connection was lost")

    def _cut_connection(self, connection: Connection) -> None:
        if connection._connection is not None:
            getattr(connection._connection, "_force_close")()  # noqa: B009 - PyMySQL has no public name for it

    def _take_over(self) -> None:
        self._acting.append(self._new_deliverer())
        with Connection(DELIVERY, self.pipeline.deliveries[DELIVERY].mysql) as connection:
            progress.create(connection)
            for name in TABLES:
                progress.claim(connection, TableId(DELIVERY, self.schema, name))
        self._end()

    def _executed(self, connection: Connection, statement: str | bytes) -> int:
        """A statement, and an event where it changes a row of progress."""
        affected = self._execute(connection, statement)
        session, text = self._sessions.setdefault(connection, _Session()), str(statement)
        number = self._acting[-1].number
        if text.startswith("START TRANSACTION"):
            self._sessions[connection] = _Session(is_open=True)
        elif text in ("COMMIT", "ROLLBACK"):
            self._sessions[connection] = _Session()
            if text == "COMMIT" and session.moved:
                self._noted_event(session.table, session.moved)
        elif table := self._row_of(text):
            if "LAST_INSERT_ID(fence + 1)" in text:
                self._noted_event(table, DeliveryEvent("claim", number))
            elif move := _move_of(text):
                event = replace(move, deliverer=number)
                if affected:
                    session.moved, session.table = event, table
                else:
                    self._noted_event(table, replace(event, ok=False))
        return affected

    def _row_of(self, statement: str) -> str:
        """The table whose row of progress a statement changes."""
        if not statement.startswith(f"UPDATE {progress.TABLE} "):
            return ""
        return next(name for name in TABLES if TableId(DELIVERY, self.schema, name).condition() in statement)

    def _noted_event(self, table: str, event: DeliveryEvent) -> None:
        row = self._progress_of(table)
        assert row
        self._events[table].append(
            replace(
                event,
                deliverer=self._acting[-1].number,
                fence=row.fence,
                reached=_number(row.version),
                open=_number(row.exit_version),
                named=tuple(sorted(row.parts)),
            )
        )

    def _progress_of(self, table: str) -> Progress | None:
        """The row of progress as it is committed."""
        condition = TableId(DELIVERY, self.schema, table).condition()
        rows = rows_of_answer(self._observer, f"SELECT * FROM {progress.TABLE} WHERE {condition}")
        return progress._progress(rows[0]) if rows else None

    def _check(self, *, is_complete: bool) -> None:
        """Raises Wrong where a table has other rows than the lake's version that its row of progress says."""
        if not rows_of_answer(
            self._observer, "SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = 'stratalog'"
        ):
            return
        for name in TABLES:
            row = self._progress_of(name)
            if row is None or row.exit_version is not None:
                if is_complete:
                    raise Wrong(
                        f"seed {self.seed}, {name}: the delivery ended, and a window is open or was never begun"
                    )
                continue
            expected = self._rows[name][row.version] if row.version is not None else Counter[Any]()
            found = Counter(
                (row["id"], row["n"]) for row in rows_of_answer(self._observer, f"SELECT * FROM {self.schema}.{name}")
            )
            if found != expected or (is_complete and row.version != len(self._rows[name]) - 1):
                difference = f"lost {expected - found}, more {found - expected}"
                raise Wrong(f"seed {self.seed}, {name} at version {row.version}: {difference}")


def rows_of_answer(connection: Any, statement: str) -> list[dict[str, Any]]:
    """The rows that a server answers a statement with."""
    with connection.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


def _number(version: int | None) -> int:
    return 0 if version is None else version + 1


def _move_of(statement: str) -> DeliveryEvent | None:
    """What a statement does to the row of progress, for no deliverer yet."""
    for kind, pattern in _MOVES.items():
        if match := pattern.search(statement):
            part = match[1] if kind == "part" else ""
            return DeliveryEvent(kind, 0, version=int(match[match.lastindex or 1]) + 1, part=part)
    return None


def _random_changes(generator: random.Random) -> tuple[list[Change], list[int]]:
    """Changes of both tables, and how many there are at the end of each stage."""
    changes, ends, keyed, keyless = list[Change](), list[int](), dict[int, int](), list[tuple[int, int]]()
    for _ in range(_STAGES):
        for _ in range(generator.randint(5, 30)):
            n, key = generator.randrange(100), generator.randrange(40)
            if key not in keyed:
                changes.append(Insert("shop.keyed", (key, n)))
                keyed[key] = n
            elif generator.random() < 0.6:
                changes.append(Update("shop.keyed", (key, keyed[key]), (key, n)))
                keyed[key] = n
            else:
                changes.append(Delete("shop.keyed", (key, keyed.pop(key))))
            if keyless and generator.random() < 0.4:
                changes.append(Delete("shop.bag", keyless.pop(generator.randrange(len(keyless)))))
            else:
                keyless.append((generator.randrange(3), generator.randrange(3)))
                changes.append(Insert("shop.bag", keyless[-1]))
        ends.append(len(changes))
    return changes, ends


class Targets:
    """A server that scenarios deliver to."""

    def __init__(self, folder: Path) -> None:
        self.server = MySQLServer(folder / "target", {})

    def __enter__(self) -> Self:
        self.server.start()
        with self.server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE USER writer@'%' IDENTIFIED WITH mysql_native_password BY 'writes'")
            cursor.execute("GRANT ALL ON *.* TO writer@'%'")
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop()


def play(seeds: range, folder: Path) -> tuple[Counter[str], list[DeliveryTrace], list[str]]:
    """Faults by kind, a trace of each table of each scenario, and what was wrong."""
    counts, traces, wrong = Counter[str](), list[DeliveryTrace](), list[str]()
    with Targets(folder) as targets:
        for seed in seeds:
            home = folder / f"scenario{seed}"
            home.mkdir(parents=True)
            scenario = Scenario(seed, targets.server, home)
            try:
                traces += scenario.play()
            except Wrong as error:
                wrong.append(str(error))
            counts += scenario.counts
    return counts, traces, wrong


def first_rejection(traces: list[DeliveryTrace]) -> tuple[DeliveryTrace, int, str] | None:
    """The first trace that the model does not allow, its event that cannot happen and why; None where it allows all."""
    parts = max((len(names) for trace in traces for names in _parts_by_window(trace).values()), default=1)
    members = [_members(trace, max(parts, 2)) for trace in traces]
    deliverers = ", ".join(sorted({f'"{event["deliverer"]}"' for events in members for event in events}))
    versions = max(event["version"] for events in members for event in events)
    refused = followed(members, _model(versions, max(parts, 2)), f"Everyone == {{{deliverers}}}\n")
    return (traces[refused[0]], *refused[1:]) if refused else None


def _model(versions: int, parts: int) -> Model:
    return Model(
        "DeliveryTrace",
        {
            "Versions": versions,
            "Parts": parts,
            "Deliverers": Definition("Everyone"),
            "Altered": set(),
            "Faults": 0,
            "Takeovers": 0,
        },
        ("Once", "AlteredInTime", "Alone"),
        ("Monotone",),
        specification="TraceSpec",
        is_complete=False,
    )


def _parts_by_window(trace: DeliveryTrace) -> dict[int, list[str]]:
    """By version the names of the parts of its window."""
    names: dict[int, set[str]] = {}
    for event in trace.events:
        if event.part:
            names.setdefault(event.version, set()).add(event.part)
        names.setdefault(event.open, set()).update(event.named)
    return {version: sorted(parts) for version, parts in names.items() if parts}


def _members(trace: DeliveryTrace, part_limit: int) -> list[dict[str, Any]]:
    """Events as the model has them. Of a window the last part stands for all numbers up to ``part_limit``."""
    by_window = _parts_by_window(trace)

    def numbers(version: int, names: tuple[str, ...]) -> set[int]:
        parts = by_window.get(version, [])
        found = {parts.index(name) + 1 for name in names}
        return found | (set(range(len(parts), part_limit + 1)) if parts and parts[-1] in names else set())

    listed = []
    for event in trace.events:
        is_whole = event.kind == "complete" and event.version not in by_window
        parts = (
            set(range(1, part_limit + 1)) if is_whole else numbers(event.version, (event.part,) if event.part else ())
        )
        changed = {"deliverer": f"d{event.deliverer}", "parts": parts, "named": numbers(event.open, event.named)}
        listed.append({name: value for name, value in asdict(event).items() if name != "part"} | changed)
    return listed
