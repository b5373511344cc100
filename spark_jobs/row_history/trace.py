"""Trace of rows: changes of chosen rows in the log's order, with the statements about their table between them.

Put here: reading bronze for one table and some of its rows, without a JVM. Not here: which changes are of a row
(key_life.py), how they are written (trace_lines.py), or taking them back (undo.py).

Slices are chosen by the names of tables in their metadata, and with keys by indexes (key_search.py); only their
payloads are read. Those with changes of chosen rows are decoded twice: a row's earlier keys are known when all of the
range was searched.
"""

import heapq
import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

import pyarrow as pa

from spark_jobs.binlog import TableName
from spark_jobs.bronze import derived_slices
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.data_files import DataFiles
from spark_jobs.bronze.derived_slices import DerivedChanges, stored_changes
from spark_jobs.bronze.effective_slices import EffectiveSlices, LocatedSlice
from spark_jobs.bronze.scan import LoggedStatement
from spark_jobs.bronze.seek import range_in
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.changes.bronze_feed import lines_with_slices
from spark_jobs.changes.formats.base import ChangeLine, Format
from spark_jobs.changes.lines import JsonChanges, Output
from spark_jobs.changes.table_definitions import HistoryDefinitions
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import ConfigError
from spark_jobs.expressions.condition import Condition
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.log.gtid import MysqlGtids, NoGtids
from spark_jobs.log.position import Range
from spark_jobs.row_history.column_view import ColumnView
from spark_jobs.row_history.key_life import KeyEvent, KeyLives, Order, keys_met
from spark_jobs.row_history.key_search import KeyIndexes, KeySearch
from spark_jobs.row_history.log_facts import FactsReader, LogFacts
from spark_jobs.row_history.row_choice import ChosenLine, ChosenRows, KeyChanges, KeyLine, RowChange, RowChoice
from spark_jobs.row_history.table_life import TableLife, life_of
from spark_jobs.schema.history import by_table
from spark_jobs.silver.planning_context import filters_of

log = logging.getLogger(__name__)

_BEHIND = 1 << 62
"""Offset that is greater than any in a file."""
_KEPT = 128 << 20
"""Bytes of slices with changes of chosen rows that are kept in memory; of more they are read again."""


@dataclass(frozen=True, slots=True)
class TracedChange:
    """A change, where it takes effect, and who made it. stretch: of the file that its bytes stand in."""

    position: Order
    stretch: int
    change: RowChange
    facts: LogFacts


@dataclass(frozen=True, slots=True)
class TracedStatement:
    """A statement about the table."""

    position: Order
    statement: LoggedStatement
    gtid: str | None


Traced = TracedChange | TracedStatement


@dataclass(frozen=True, slots=True)
class Selection:
    """Selection of changes; what is not given chooses all.

    start, stop: positions. keys: as users write them. gtids: sets of transactions. connections: thread ids. pattern: of
    the statement's text. is_raw: as bronze has rows, and not as downstream tables do.
    """

    start: str | None = None
    stop: str | None = None
    keys: tuple[str, ...] = ()
    condition: str | None = None
    gtids: tuple[str, ...] = ()
    connections: tuple[int, ...] = ()
    pattern: str | None = None
    is_raw: bool = False


@dataclass(slots=True)
class TableTrace:
    """One table's chosen changes."""

    name: TableName
    within: Range
    indexes: KeyIndexes
    life: TableLife
    view: ColumnView
    choice: RowChoice
    makers: "_Makers"
    _slices: EffectiveSlices = field(init=False)

    def __post_init__(self) -> None:
        self._slices = EffectiveSlices(self.snapshot, self.indexes.files)

    @property
    def snapshot(self) -> BronzeSnapshot:
        """The version of bronze that is read."""
        return self.indexes.snapshot

    @classmethod
    def of(cls, pipeline: Pipeline, source: str, name: TableName, selection: Selection) -> Self:
        """The trace of a table over a range, opened and not yet read.

        Raises LakeError, SourceError, ConfigError, TableStopped.
        """
        lake = lake_of(pipeline)
        snapshot = BronzeSnapshot.of(lake, source)
        within = range_in(snapshot, selection.start, selection.stop)
        files = DataFiles(snapshot.table, snapshot.version)
        indexes = KeyIndexes(snapshot, files, HistoryDefinitions(partial(by_table, lake, source)))
        # Indexes that are there say which data files have no statement.
        for file in files.holding(within) if selection.keys else ():
            indexes.of(file, name, builds=False)
        life = life_of(files, name, within)
        view = _view(pipeline, lake, source, life, is_raw=selection.is_raw)
        choice = _choice(selection, view)
        trace = cls(name, within, indexes, life, view, choice, _Makers.of(selection))
        trace._warn(source)
        return trace

    def _warn(self, source: str) -> None:
        redacted = bronze.redacted_within(self.snapshot.table, self.snapshot.version, self.within)
        if redacted:
            log.warning("%s: in the slices that hold this range, %s", source, redacted)
        for logged in self.life.unlogged:
            log.warning(
                "%s: %s: %s changes rows of %s in statement format, which does not say which: %s",
                source, logged.position, logged.statement.verb, self.name, logged.statement.short,
            )  # fmt: skip

    def entries(self) -> Iterator[Traced]:
        """Changes and statements in the order in which they take effect. Raises DecodeError, ConfigError, LakeError."""
        entries: list[Iterator[Traced]] = [self.changes()]
        if not self.makers:
            entries.append(self._traced_statements())
        yield from heapq.merge(*entries, key=lambda traced: traced.position)

    def nothing_found(self) -> str:
        """Message that the range has no chosen change; to be asked once the changes were read."""
        options = {"--where": self.choice.condition, **self.makers.options}
        listed = " and ".join(name for name, value in options.items() if value)
        chosen = [self.choice.keys_with_names, f"by {listed}" if listed else ""]
        chosen_text = "".join(f", {text}" for text in chosen if text)
        comma = "," if chosen_text else ""
        return f"no change of {self.name}{chosen_text}{comma} in the log from {self.within.start} to {self.within.stop}"

    def changes(self) -> Iterator[TracedChange]:
        """The chosen changes in the order in which they take effect. Raises as ``entries``."""
        lives, slices = self._lives() if self.choice.keys else (None, self._all_slices())
        merged = heapq.merge(self._logged(lives, slices), self.derived(lives), key=lambda traced: traced.position)
        yield from (traced for traced in merged if self.makers.hold(traced.change, traced.facts))
        self.choice.require_asked(self.name)
        self._warn_of_hidden()

    def _logged(self, lives: KeyLives | None, slices: Iterator[LocatedSlice]) -> Iterator[TracedChange]:
        facts = FactsReader(self._slices)
        for log_slice, line in self._lines(ChosenRows(self.choice, self.view), slices):
            assert isinstance(line, ChosenLine)
            change, position = line.change, _order(log_slice, line)
            if lives is None or lives.holds(position, change.old_key, change.new_key):
                log_facts = facts.of(log_slice, change.offset, change.row)
                yield TracedChange(position, log_slice.position.stretch, change, log_facts)

    def derived(self, lives: KeyLives | None = None) -> Iterator[TracedChange]:
        """The changes that foreign keys made, as far as they were derived; who made them is who changed the parent."""
        facts, log_slice = FactsReader(self._slices), None
        for part, line in self._derived_lines(ChosenRows(self.choice, self.view)):
            assert isinstance(line, ChosenLine)
            change, position = line.change, _order_of_derived(part, line)
            if lives and not lives.holds(position, change.old_key, change.new_key):
                continue
            at = replace(part.at, offset=change.offset)
            if log_slice is None or not log_slice.holds(at):
                cells = next(self._slices.logged_slices(Range(at, replace(at, offset=at.offset + 1))))
                log_slice = LocatedSlice(cells, at, part.transaction, None)
            yield TracedChange(position, at.stretch, change, facts.of(log_slice, change.offset, 0))

    def _derived_lines(self, form: Format) -> Iterator[tuple[DerivedChanges, ChangeLine]]:
        """Lines of a format for the table's changes by foreign keys, in order, each with its slice."""
        path, complete = self.snapshot.table.path, self.indexes.definitions.complete
        encoder = JsonChanges(self.snapshot.source, lambda _: True, complete, output=Output(form))
        # Of whole transactions, as the log's changes are.
        begin, outer = self._slices.transaction_at(self.within.start), self._slices.outer(self.within)
        for part in stored_changes(path, derived_slices.read(path, Range(begin, outer.stop))):
            if begin <= part.transaction < self.within.stop and self.life.holds(part.definition.name, part.at):
                yield from ((part, line) for line in encoder.derived_lines([part]))

    def _warn_of_hidden(self) -> None:
        if self.choice.undecided:
            log.warning(
                "%s: --where was not asked of %s changes: their row images leave out what it names, or the lake has no "
                "type for the value; they are not shown", self.name, f"{self.choice.undecided:,}",
            )  # fmt: skip
        for rule, count in sorted(self.view.filtered.items()):
            log.warning("%s: %s filters %s changes; --raw shows them", self.name, rule, f"{count:,}")

    def _traced_statements(self) -> Iterator[TracedStatement]:
        gtids = bronze.statement_gtids(self.snapshot, self.within) if self.life.statements else {}
        for logged in self.life.statements:
            order = logged.position.order
            yield TracedStatement((*order, 0, 0), logged, gtids.get(order))

    def _lives(self) -> tuple[KeyLives, Iterator[LocatedSlice]]:
        """The lives of chosen rows, and the slices with changes of them.

        The range is searched again as long as the chosen rows turn out to have had other keys.
        """
        emptied = [(*position.order, 0, 0) for position in self.life.emptied]
        search = KeySearch(self.indexes, tuple(self.life.names), self.within, self.choice, self.view)
        while True:
            # The changes of keys that the log has, and those that foreign keys made.
            events, memory = list[KeyEvent](), _KeptSlices()
            for log_slice, line in self._lines(KeyChanges(self.choice, self.view), self._all_slices(search)):
                assert isinstance(line, KeyLine)
                memory.add(log_slice)
                if line.changes_keys:
                    events.append(KeyEvent(_order(log_slice, line), line.old, line.new))
            for part, line in self._derived_lines(KeyChanges(self.choice, self.view)):
                assert isinstance(line, KeyLine)
                if line.changes_keys:
                    events.append(KeyEvent(_order_of_derived(part, line), line.old, line.new))
            events.sort(key=lambda event: event.order)
            keys = keys_met(self.choice.seeds, events) - self.choice.seeds
            if keys <= self.choice.followed:
                lives = KeyLives.of(self.choice.seeds, events, emptied)
                return lives, self._all_slices(search, memory.orders) if memory.slices is None else iter(memory.slices)
            self.choice.followed = frozenset(keys)

    def _all_slices(
        self, search: KeySearch | None = None, positions: set[Order] | None = None
    ) -> Iterator[LocatedSlice]:
        """The slices that may have rows of the table: only those that a search finds, that take effect at positions."""
        return self._slices.of_range(self.within, self.life.names, positions, search.rows if search else None)

    def _lines(self, form: Format, slices: Iterator[LocatedSlice]) -> Iterator[tuple[LocatedSlice, ChangeLine]]:
        """Lines of a format for the table's changes in slices, each with its slice."""
        position = self.within.start

        def noted() -> Iterator[LocatedSlice]:
            nonlocal position
            for log_slice in slices:
                position = log_slice.position
                yield log_slice

        # A slice is decoded before the next one is read: what its tables are called depends on where it lies.
        encoder = JsonChanges(
            self.snapshot.source,
            lambda name: self.life.holds(name, position),
            self.indexes.definitions.complete,
            prepared=True,
            output=Output(form),
        )
        yield from lines_with_slices(encoder, noted(), self.within)


@dataclass(slots=True)
class _KeptSlices:
    """Slices with changes of chosen rows, in memory as long as they are few.

    orders: where they take effect. slices: None where they are too many.
    """

    orders: set[Order] = field(default_factory=set)
    slices: list[LocatedSlice] | None = field(default_factory=list)
    _last: LocatedSlice | None = None
    _bytes: int = 0

    def add(self, log_slice: LocatedSlice) -> None:
        """A slice, once or several times in a row."""
        if log_slice is self._last:
            return
        self._last = log_slice
        self.orders.add(log_slice.position.order)
        self._bytes += log_slice.cells.nbytes
        if self.slices is not None and self._bytes > _KEPT:
            self.slices = None
        if self.slices is not None:
            # What is read with it, its row group, is not kept.
            self.slices.append(replace(log_slice, cells=log_slice.cells.take(pa.array([0]))))


def _order(log_slice: LocatedSlice, line: ChangeLine) -> Order:
    # Rows of an XA transaction have their effect where it is committed.
    effect = log_slice.position if log_slice.committed else replace(log_slice.position, offset=line.offset)
    return (*effect.order, line.offset, line.row)


def _order_of_derived(part: DerivedChanges, line: ChangeLine) -> Order:
    """Order of a derived change: after all rows of the event, or XA transaction, that made it."""
    return (*replace(part.at, offset=line.offset).order, _BEHIND, line.row)


@dataclass(frozen=True, slots=True)
class _Makers:
    """Authors of the changes that are asked for."""

    gtids: "_Transactions | None"
    connections: tuple[int, ...]
    pattern: "re.Pattern[str] | None"

    @classmethod
    def of(cls, selection: Selection) -> Self:
        """The choice of makers by GTID, connection and statement. Raises ConfigError."""
        gtids = _Transactions.of(selection.gtids) if selection.gtids else None
        try:
            pattern = re.compile(selection.pattern, re.IGNORECASE | re.DOTALL) if selection.pattern else None
        except re.error as error:
            raise ConfigError({"--statement": f"{selection.pattern!r} is no regular expression: {error}"}) from error
        return cls(gtids, selection.connections, pattern)

    def __bool__(self) -> bool:
        return bool(self.gtids or self.connections or self.pattern)

    @property
    def options(self) -> dict[str, object]:
        """Values of the options, by their names."""
        return {"--gtid": self.gtids, "--connection": self.connections, "--statement": self.pattern}

    def hold(self, change: RowChange, facts: LogFacts) -> bool:
        """True if a change is one of theirs."""
        if self.gtids is not None and not self.gtids.hold(change.gtid):
            return False
        if self.connections and facts.connection not in self.connections:
            return False
        return self.pattern is None or bool(facts.statement and self.pattern.search(facts.statement))


@dataclass(frozen=True, slots=True)
class _Transactions:
    """Transactions by GTID: sets of MySQL's, single ones of MariaDB."""

    sets: MysqlGtids
    single: frozenset[str]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Self:
        """The transactions that texts of GTIDs name. Raises ConfigError."""
        parts = [part.strip() for text in texts for part in text.split(",")]
        single = frozenset(part for part in parts if re.fullmatch(r"\d+-\d+-\d+", part))
        try:
            return cls(MysqlGtids.parse(",".join(part for part in parts if part not in single)), single)
        except NoGtids as error:
            raise ConfigError({"--gtid": str(error)}) from error

    def hold(self, gtid: str | None) -> bool:
        if gtid is None or gtid in self.single:
            return gtid is not None
        return bool(self.sets) and "-" in gtid and ":" in gtid and MysqlGtids.parse(gtid) <= self.sets


def _view(pipeline: Pipeline, lake: Lake, source: str, life: TableLife, *, is_raw: bool) -> ColumnView:
    """View of the columns. Raises TableStopped."""
    if is_raw:
        return ColumnView()
    name = next(iter(life.names))
    versions = by_table(lake, source)
    columns = {
        column.casefold()
        for alias in life.names
        for version in versions.get(alias, ())
        if version.definition
        for column in version.definition.column_names()
    }
    return ColumnView(filters_of(pipeline.filters, source, name), frozenset(columns))


def _choice(selection: Selection, view: ColumnView) -> RowChoice:
    """Choice of rows. Raises ConfigError."""
    try:
        condition = Condition.parse(selection.condition) if selection.condition else None
    except ConfigError as error:
        raise ConfigError({"--where": str(error)}) from error
    if condition:
        view.require_plain(condition.columns, "--where")
    return RowChoice(selection.keys, condition)
