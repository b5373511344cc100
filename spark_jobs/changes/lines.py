"""Lines of slices: the changes of each table in the log's order, with DDL statements and transactions where asked.

Put here: which entries a slice has, and their order. Not here: lines themselves (formats/), which slices there are
(feed.py, bronze_feed.py).
"""

import heapq
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.binlog import (
    Decoder,
    Definitions,
    Mark,
    Marks,
    SliceMarks,
    TableDefinition,
    TableName,
    read_session,
)
from spark_jobs.changes.formats import FORMATS, ChangeLine, Format, SliceContext, StatementEntry, StratalogFormat
from spark_jobs.changes.formats.base import BEHIND
from spark_jobs.changes.json_encoding import bytes_at
from spark_jobs.changes.table_definitions import lacking, open_signs, read_as_signed
from spark_jobs.config.table_patterns import Pattern
from spark_jobs.ddl.classify import Effect, classify
from spark_jobs.ddl.effects import effects
from spark_jobs.errors import ConfigError, DecodeError, Unsupported
from spark_jobs.log.position import Position

if TYPE_CHECKING:  # imports pyspark, which changes of a file do without
    from spark_jobs.bronze.derived_slices import DerivedChanges

logger = logging.getLogger(__name__)

_ROWS = 4096
"""The most rows of a block: enough to spread the cost of a block, few enough to be text all at once."""
BEGIN_BYTES = 4096
"""Bytes of a statement's slice in which its session is told."""
TableFilter = Callable[[TableName], bool]
CompleteDefinition = Callable[[TableDefinition, Position], TableDefinition]
"""Adds to a table's definition what the log leaves out of it at a position: names, signs, character sets, labels."""


def as_logged(definition: TableDefinition, _: Position) -> TableDefinition:
    """Add nothing to what the log says of a table."""
    return definition


def wanted_tables(names: Sequence[str]) -> TableFilter:
    """A test for tables named ``DB.TABLE`` (patterns are fine); any table passes where none is named.

    Raises ConfigError.
    """
    patterns = [Pattern.parse(name) for name in names]
    return lambda name: not patterns or any(pattern.matches(name.schema, name.table) for pattern in patterns)


@dataclass(frozen=True, slots=True)
class Output:
    """Form of entries, and which there are beside rows.

    statements, transactions: DDL statements; begins and ends of transactions that have rows. cascades: changes that
    were derived from foreign keys (``on_cascade: apply``).
    """

    form: Format = field(default_factory=StratalogFormat)
    statements: bool = False
    transactions: bool = False
    cascades: bool = False

    @classmethod
    def of(
        cls, name: str, *, statements: bool | None = None, transactions: bool = False, cascades: bool = False
    ) -> "Output":
        """A format by its name; statements as its tool writes them by default. Raises ConfigError."""
        if name not in FORMATS:
            raise ConfigError(f"there is no format {name!r}; there are {', '.join(FORMATS)}")
        form = FORMATS[name]()
        if statements and not form.allows_statements:
            raise ConfigError(f"the format {name} has no DDL statements; leave --ddl out, or use {_OTHERS}")
        if transactions and not form.allows_transactions:
            raise ConfigError(f"the format {name} has no begins and ends of transactions; use stratalog")
        if cascades and not form.allows_derived:
            raise ConfigError(f"the format {name} has no mark for changes that were not logged; use stratalog")
        return cls(form, form.has_statements if statements is None else statements, transactions, cascades)


_OTHERS = " or ".join(name for name, form in FORMATS.items() if form.allows_statements)


@dataclass(frozen=True, slots=True)
class _TableReader:
    """The decoder of rows that were logged with one TABLE_MAP. either_sign: as SliceContext has it."""

    decoder: Decoder
    either_sign: tuple[int, ...]


class JsonChanges:
    """Turns slices (rows of SLICE_SCHEMA or of bronze) of one log into JSON lines."""

    def __init__(
        self,
        source: str | None,
        is_wanted: TableFilter,
        complete: CompleteDefinition = as_logged,
        *,
        prepared: bool = False,
        output: Output | None = None,
    ) -> None:
        """prepared: whether rows of XA transactions are written; the caller knows that they took effect."""
        self.source = source
        self.is_wanted = is_wanted
        self.complete = complete
        output = output or Output()
        self.form, self._statements, self._transactions = output.form, output.statements, output.transactions
        self._prepared = prepared
        self._definitions = Definitions()
        self._readers: dict[tuple[TableDefinition, TableDefinition], _TableReader] = {}
        """Readers by what a TABLE_MAP says, and what completes it."""
        self._warned: set[TableName] = set()
        """Tables of which something is lacking, and that were warned of."""
        self._begin: ChangeLine | None = None
        """The begin of the transaction that is being read, while no row of it was written."""
        self._is_open = False
        """True if a begin was written, and its end was not."""
        self._xa_end: ChangeLine | None = None
        """The end of the XA transaction that is being read, as far as it was read."""

    def for_another_file(self) -> "JsonChanges":
        """One for slices of another file, whose lines go to the same position."""
        output = Output(self.form, self._statements, self._transactions)
        changes = JsonChanges(self.source, self.is_wanted, self.complete, prepared=self._prepared, output=output)
        changes._warned = self._warned
        return changes

    def lines(
        self, batch: pa.RecordBatch, committed: datetime | None = None, derived: "Sequence[DerivedChanges]" = ()
    ) -> Iterator[ChangeLine]:
        """The entries of the batch's slices, in order of offset and row. Raises DecodeError, Unsupported, LakeError.

        committed: when, where it was not the transaction itself that committed its rows. derived: changes that were
        derived from events of the batch.
        """
        for at in range(batch.num_rows):
            unlogged = self.derived_lines(derived) if derived else iter(())
            for line in self.form.arranged(heapq.merge(self._slice(batch, at, committed), unlogged, key=_order)):
                if self._transactions or line.kind in ("change", "statement"):
                    yield line

    def derived_lines(self, derived: "Iterable[DerivedChanges]") -> Iterator[ChangeLine]:
        """The entries of changes that were derived from foreign keys, in order. Raises LakeError."""
        parts = []
        for part in derived:
            if self.is_wanted(part.definition.name):
                definition = self.complete(part.definition, part.at)
                context = SliceContext(self.source, part.at.file, None, None, is_derived=True)
                parts.append(self.form.lines(context, definition, [part.changes(definition)]))
        return heapq.merge(*parts, key=_order)

    @cached_property
    def _marks(self) -> Marks | None:
        return Marks() if self.form.needs_marks or self._transactions or self._statements else None

    def _slice(self, batch: pa.RecordBatch, at: int, committed: datetime | None) -> Iterator[ChangeLine]:
        names = ("file", "start", "context", "committed_at", "transaction_start", "gtid")
        cells = {name: batch.column(name)[at] for name in names}
        payload = bytes_at(batch.column("payload"), at)
        log_position = (cells["file"].as_py(), cells["start"].as_py(), cells["context"].as_py(), payload)
        transaction = {name: cells[name].as_py() for name in ("transaction_start", "gtid")}
        marks = self._marks.of_slice(batch, at, payload) if self._marks else None
        context = SliceContext(self.source, log_position[0], marks, committed)
        # Each table's changes are decoded by themselves, and merged by where they stand.
        tables = []
        stretch = batch.column("stretch")[at].as_py() if "stretch" in batch.schema.names else 1
        position = Position(log_position[0], log_position[1], stretch)
        for definition in self._definitions.of_slice(*log_position):
            if self.is_wanted(definition.name):
                reader = self._reader(definition, position)
                changes = reader.decoder.decode(*log_position, committed_us=cells["committed_at"].value, **transaction)
                of_table = replace(context, either_sign=reader.either_sign) if reader.either_sign else context
                tables.append(
                    _held_back(log_position[0], self.form.lines(of_table, reader.decoder.definition, changes))
                )
        if marks is None:
            return heapq.merge(*tables, key=_order)
        edges = self._xa_edges(context, marks, cells) if committed else self._edges(context, marks)
        statements = self._statement_lines(context, batch, at) if self._statements else iter(())
        return self._with_edges(heapq.merge(*tables, edges, statements, key=_order))

    def _reader(self, logged: TableDefinition, position: Position) -> _TableReader:
        """The reader of rows that the log defines so, at a position."""
        completed = self.complete(logged, position)
        reader = self._readers.get((logged, completed))
        if reader is None:
            self._warn(completed, position)
            # Rows whose sign nothing tells are read as signed; what formats have place for has the other reading.
            either_sign = open_signs(completed)
            decoder = Decoder(
                read_as_signed(completed, either_sign),
                logged=logged,
                before="all",
                rows=_ROWS,
                gtids=True,
                partial=True,
                prepared=self._prepared,
                redacted=True,
            )
            reader = self._readers[logged, completed] = _TableReader(decoder, either_sign)
        return reader

    def _warn(self, definition: TableDefinition, position: Position) -> None:
        """Warn once a table of what is not known of its columns, and say what to do."""
        missing = lacking(definition)
        if not missing or definition.name in self._warned:
            return
        self._warned.add(definition.name)
        location = f"{self.source}: {position}" if self.source else str(position)
        remedy = "name a schema dump (schema_dump:)" if self.source else "give a dump by mysqldump --no-data (--schema)"
        logger.warning("%s: %s: the log does not have %s; %s", location, definition.name, "; ".join(missing), remedy)

    def _edges(self, context: SliceContext, marks: SliceMarks) -> Iterator[ChangeLine]:
        """Begins and ends; their lines are written where transactions are asked for."""
        for mark in marks.marks:
            if mark.kind == "statement":
                continue
            text = (self.form.edge(context, mark),) if self._transactions else ()
            yield ChangeLine(mark.offset, -1 if mark.kind == "begin" else 2 * BEHIND, text, mark.kind, mark)

    def _xa_edges(
        self, context: SliceContext, marks: SliceMarks, cells: Mapping[str, pa.Scalar]
    ) -> Iterator[ChangeLine]:
        """The begin of an XA transaction, of its first slice. Its end is at the last statement of its last slice."""
        if not self._transactions:
            return
        gtid, start, begin = (cells[name].as_py() for name in ("gtid", "start", "transaction_start"))
        statements = [mark.offset for mark in marks.marks if mark.kind == "statement"]
        for mark in (Mark("begin", begin, gtid), Mark("end", max(statements, default=begin), gtid)):
            row = -1 if mark.kind == "begin" else 2 * BEHIND
            line = ChangeLine(mark.offset, row, (self.form.edge(context, mark),), mark.kind, mark)
            if mark.kind == "end":
                self._xa_end = line
            elif start == begin:
                yield line

    def rest(self) -> Iterator[ChangeLine]:
        """Rest of the lines of a transaction that no event ends: of XA transactions, and at the end of a feed."""
        yield from self.form.rest()
        if self._xa_end and self._is_open:
            yield self._xa_end
        if self._xa_end:
            self._begin, self._is_open, self._xa_end = None, False, None

    def _with_edges(self, lines: Iterator[ChangeLine]) -> Iterator[ChangeLine]:
        """A begin comes with the first row of its transaction, and an end where there was a row."""
        for line in lines:
            if line.kind == "begin":
                self._begin, self._is_open = line, False
            elif line.kind == "end":
                if self._is_open:
                    yield line
                self._begin, self._is_open = None, False
            else:
                if line.kind == "change" and self._begin:
                    yield self._begin
                    self._begin, self._is_open = None, True
                yield line

    def _statement_lines(self, context: SliceContext, batch: pa.RecordBatch, at: int) -> Iterator[ChangeLine]:
        """The slice's DDL statement, if it has one that names a wanted table, or no table of a wanted schema."""
        kind, text, database = (batch.column(name)[at].as_py() for name in ("kind", "statement", "database"))
        if kind != "statement" or context.marks is None:
            return
        session = read_session(bytes(bytes_at(batch.column("payload"), at)[:BEGIN_BYTES]))
        statement = classify(text, database or "", session)
        if statement.effect in (Effect.ROWS, Effect.ROUTINE, Effect.TRANSACTION):
            return
        # The tables that it names; of one that cannot be read, its schema decides.
        try:
            names = [name for effect in effects(statement, database or "", session) for name in effect.tables]
        except Unsupported:
            names = []
        if not any(map(self.is_wanted, names or [TableName(database or "", "")])):
            return
        first = names[0] if names else None
        gtid, committed_at = (batch.column(name)[at].as_py() for name in ("gtid", "committed_at"))
        mark = next((mark for mark in context.marks.marks if mark.kind == "statement"), None)
        offset = mark.offset if mark else batch.column("start")[at].as_py()
        schema, table = (first.schema, first.table) if first else (None, None)
        entry = StatementEntry(text, database or "", schema, table, statement.verb, offset, gtid, committed_at)
        yield ChangeLine(offset, 0, (self.form.statement(context, entry),), "statement")


def _order(line: ChangeLine) -> tuple[int, int, int]:
    return line.offset, line.row, line.part


def _held_back(file: str, lines: Iterator[ChangeLine]) -> Iterator[ChangeLine]:
    """The lines of a table; its failure comes as one of them, in its place among the lines of other tables."""
    try:
        yield from lines
    except DecodeError as error:
        location = str(error).removeprefix(f"{file}:").split(":", 1)[0]  # every message begins with file:offset
        yield ChangeLine(int(location), BEHIND, _failure(error))


def _failure(error: DecodeError) -> Iterator[str]:
    yield from ()
    raise error
