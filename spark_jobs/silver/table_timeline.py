"""A table's course through a range of its log: rows, and between them the statements that change the table.

Put here: cutting a range at a table's statements, and what definition holds where. Not here: what bronze says
(bronze/scan.py), how statements are read (schema/), carrying anything out (compact.py).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from operator import eq
from typing import Any

from spark_jobs.binlog import Column, Moment, TableDefinition, TableName, definitions_of, passed_over
from spark_jobs.binlog.events.scanner import Bytes, view
from spark_jobs.bronze.boundaries import first_transaction
from spark_jobs.bronze.index import SliceIndex
from spark_jobs.bronze.scan import Said, Survey, agreed, differs, key_names, same_key
from spark_jobs.bronze.xa import NO_XA, Xa
from spark_jobs.config.filters import (
    ALTER_TABLE,
    CREATE_TABLE,
    DROP_DATABASE,
    DROP_TABLE,
    FOLLOWED,
    RENAME_TABLE,
    TRUNCATE_TABLE,
    Action,
    Filters,
    skip_name,
)
from spark_jobs.ddl import session_time
from spark_jobs.ddl.alter import Moved, drops_key, moved
from spark_jobs.ddl.classify import Effect
from spark_jobs.ddl.columns import require_plain, words_of
from spark_jobs.ddl.default_values import Fill
from spark_jobs.ddl.definitions import (
    PRIMARY,
    Told,
    completed_by_history,
    defaults,
    listed,
    numbered,
    with_defaults,
    with_names,
    without_defaults,
)
from spark_jobs.ddl.labels import with_known_labels, with_labels, without_labels
from spark_jobs.ddl.operations import LEAVING_ROWS, Add, DropIndex, RenameTable
from spark_jobs.ddl.parse_alter import created, dropped, index_dropped, operations, target
from spark_jobs.ddl.renames import like, may_rename, renamed
from spark_jobs.ddl.widening import keeps_values
from spark_jobs.errors import DecodeError, NamesUnknown, TableStopped
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.schema.tracker import lacks
from spark_jobs.silver import partial_rows
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.retired_columns import Kept, led_on, name_of, names_of, types_of
from spark_jobs.text.sql import identifier

_LEAVING_KEYS = tuple(one for one in LEAVING_ROWS if one is not DropIndex)
"""Operations that leave every row as it is, and what it is told apart by."""
Complete = Callable[[TableDefinition, Position | None], TableDefinition]
"""Adds to a logged definition what a server told: (definition, the last change before the range's end)."""
ByHistory = Callable[[TableName, Position], Told | None]
"""What the schema history tells of a table that nothing else is known of at a place: there, or from where on it does;
None where it does not."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a table stands at a position of its log.

    definition: None where it is not known before the next row. is_dropped: the table is gone. emptied: where its last
    TRUNCATE stands, or the CREATE that made it anew: what was written before counts no more. is_complete: whether all
    rows that the table has are known: since it was made or emptied in the log, or because what it held before was
    loaded. is_kept: a rule left its DROP out, so that its rows stay when it is created again. was_numbered: of a table
    that is dropped, whether its rows are of a definition whose columns have numbers for names. kept: what the lake
    keeps of columns that began anew.
    """

    definition: TableDefinition | None
    is_dropped: bool = False
    emptied: Position | None = None
    is_complete: bool = False
    is_kept: bool = False
    was_numbered: bool = False
    kept: tuple[Kept, ...] = ()

    @property
    def is_numbered(self) -> bool:
        """Whether the columns that its rows have are numbered."""
        return self.was_numbered if self.definition is None else self.definition.numbered

    def in_commit(self, commit: SilverCommit) -> SilverCommit:
        """A silver commit that says so."""
        return replace(
            commit,
            definition=self.definition,
            is_dropped=self.is_dropped,
            emptied_at=self.emptied,
            is_complete=self.is_complete,
            keeps_dropped_rows=self.is_kept,
            is_numbered=self.is_numbered,
            retired_columns=self.kept,
        )

    @classmethod
    def of(cls, commit: SilverCommit) -> "Standing":
        """As a silver commit says it."""
        return cls(
            commit.definition,
            commit.is_dropped,
            commit.emptied_at,
            commit.emptied_at is not None if commit.is_complete is None else commit.is_complete,
            commit.keeps_dropped_rows,
            commit.is_numbered and commit.definition is None,
            commit.retired_columns,
        )

    @property
    def columns(self) -> silver.Columns:
        """The columns that silver has, where no rule is about them. Raises TableStopped."""
        assert self.definition is not None
        return silver.columns(self.definition, kept=types_of(self.kept))


@dataclass(frozen=True, slots=True)
class Rows:
    """A part of the log without a statement that changes the table, and the definition of its rows."""

    range: Range
    standing: Standing

    @property
    def definition(self) -> TableDefinition:
        assert self.standing.definition is not None
        return self.standing.definition


@dataclass(frozen=True, slots=True)
class Turn:
    """A change of the table: where it stands, and how the table stands behind it.

    empties: no row that was there counts any more. origins: from which column each one of the definition comes, by
    name, None for new ones; no origins at all where the table is another one. fills: what rows that were there have in
    new columns; absent for NULL. carried: what the table holds whose name this is from here on, under the name that it
    had before; or, with origins, what it held itself until its rows were told apart otherwise. left_out_by: the rule
    that leaves the statement out. keeps: the table was made anew, and a rule keeps the rows that it had. anew: which
    columns begin anew, with both definitions, for people; None where none does.
    """

    range: Range
    standing: Standing
    said: Said | None = None
    empties: bool = False
    origins: dict[str, str | None] | None = None
    fills: dict[str, Fill] = field(default_factory=dict)
    carried: "Content | None" = None
    left_out_by: str | None = None
    keeps: bool = False
    anew: str | None = None


Step = Rows | Turn


@dataclass(frozen=True, slots=True)
class Base:
    """What silver had of a table at one Delta version, without what stands before ``emptied``."""

    table: Table
    version: int
    columns: silver.Columns
    emptied: Position | None


@dataclass(frozen=True, slots=True)
class Content:
    """What a table holds at a place of its log: what silver had of it, and the steps of its course from there on.

    base: None where the steps begin with the first row that is known. since: where the steps begin, or the first that
    they take rows from does. size: bytes, about, that it is made of.
    """

    name: TableName
    base: Base | None
    steps: Sequence[Step]
    standing: Standing
    since: Position
    size: int = 0
    skips: frozenset[Position] = frozenset()
    """Events of its log that are passed over."""
    xa: Xa = NO_XA
    """The XA transactions that its log commits."""

    @property
    def alive(self) -> "Content":
        """The same, without what was there before the table was emptied for the last time."""
        last = max((at for at, one in enumerate(self.steps) if isinstance(one, Turn) and one.empties), default=None)
        return self if last is None else replace(self, base=None, steps=self.steps[last:])

    @property
    def is_empty(self) -> bool:
        """Whether no row is known to be there."""
        rest = self.alive
        return rest.base is None and not any(isinstance(step, Rows) or step.carried for step in rest.steps)


Contents = Callable[[TableName, Position], Content]
"""What a table holds where a statement begins. Raises TableStopped where that is not to be found out."""


Skipped = Callable[[str, str], frozenset[Position]]
"""The events that are passed over for the table of a schema and a name."""
First = Callable[[TableName, Sequence[Range]], Mapping[int, TableDefinition]]
"""Of each part of the log, by its ordinal, the definition of the table's first rows in it."""


Place = Callable[[TableName, Range, Callable[[TableDefinition], bool]], Position]
"""Where the first transaction begins in a range that has rows of a table with such a definition."""


def place_of_rows(slices: SliceIndex) -> Place:
    """Looks into the first slice that a table has in the range."""

    def place(name: TableName, part: Range, wanted: Callable[[TableDefinition], bool]) -> Position:
        row = slices.first(name, [part]).get(0)
        if row is None:
            return part.start
        at = slices.place(row)
        return at if slices.is_moved(row) else first_transaction(slices.record(row), at, name, wanted)

    return place


def first_rows(slices: SliceIndex, skipped: Skipped = lambda _schema, _table: frozenset()) -> First:
    """Reads the first slices that a table has in each part, until one has rows and not their TABLE_MAP alone."""

    def first(name: TableName, parts: Sequence[Range]) -> dict[int, TableDefinition]:
        found: dict[int, TableDefinition] = {}
        left = list(enumerate(parts))
        while left:
            ranges, further = [part for _, part in left], []
            rows = slices.first(name, ranges)
            for nth, cells in zip(rows, slices.cells(list(rows.values())), strict=True):
                at, part = left[nth]
                place, here = slices.place(rows[nth]), slices.begin(rows[nth])
                payload = without(skipped(name.schema, name.table), here, cells["payload"])
                # the slices of one XA transaction have one place: the next one is not behind it
                is_moved = slices.is_moved(rows[nth])
                used = definitions_of(here.file, here.offset, cells["context"], payload, unused=is_moved)
                own = [(place, one) for one in used if one.name == name]
                if own:
                    found[at] = agreed(name, own)
                else:
                    further.append((at, Range(replace(place, offset=place.offset + 1), part.stop)))
            left = further
        return found

    return first


def without(skips: frozenset[Position], start: Position, payload: Bytes) -> Bytes:
    """A slice's bytes, those events of it passed over that are to be. Raises DecodeError where there is none."""
    size = len(view(payload))
    same = (skip for skip in skips if (skip.stretch, skip.file) == (start.stretch, start.file))
    offsets = [one.offset for one in same if start.offset <= one.offset < start.offset + size]
    return passed_over(start.file, start.offset, payload, offsets) if offsets else payload


@dataclass(frozen=True, slots=True)
class Beginning:
    """What of a table may be in the log before bronze begins.

    made: where bronze's log makes the table, before a position; None where it does not. is_needed: whether the table
    needs what was logged before, also where it is not complete.
    """

    made: Callable[[TableName, Position], Position | None]
    is_needed: bool = False


@dataclass(frozen=True, slots=True)
class Again:
    """What silver has behind a range that is done again. emptied: where the last statement stands that emptied it."""

    emptied: Position | None


@dataclass(frozen=True, slots=True)
class Rules:
    """What a course needs to know besides the survey.

    on_drop_empties: whether DROP TABLE takes the rows away. system_zone: the server's own time zone, where the
    configuration names it. is_bag: rows are told apart by all columns, whatever the log says: silver has them so,
    since it was emptied the last time. begins_anew: whether a column begins anew where a statement gives it a type
    that does not hold every value, and the old one is kept; unless why_not says why it does not: then the table stops,
    as otherwise. contents: of other tables, for those that take
    their names or definitions; without it a name that another table takes stops its table. filters: which statements
    are not carried out. begun: the definition whose defaults hold at the range's start, where no standing says that;
    beginning: what may lack where the log commits an XA transaction whose rows bronze does not hold. by_history: names
    that neither the log nor a statement has. base: what silver has where the range begins. again: the range is done
    again, amid what the table has, and silver shows what came of it. numbers: whether columns whose names nothing
    tells are numbered. place: where the first transaction of a range begins that has rows of a table, so defined.
    """

    complete: Complete
    first: First
    on_drop_empties: bool = False
    system_zone: str | None = None
    is_bag: bool = False
    begins_anew: bool = False
    why_not: str | None = None
    contents: Contents | None = None
    filters: Filters = field(default_factory=Filters)
    begun: TableDefinition | None = None
    beginning: Beginning | None = None
    by_history: ByHistory = lambda _name, _start: None
    base: Callable[[], Base | None] = lambda: None
    again: Again | None = None
    numbers: bool = False
    place: Place = lambda _name, part, _wanted: part.start


_EVENTS = {
    "TRUNCATE": TRUNCATE_TABLE,
    "CREATE": CREATE_TABLE,
    "ALTER": ALTER_TABLE,
    "RENAME": RENAME_TABLE,
    "DROP": DROP_TABLE,
}
"""Statements as rules name them, by their verb."""


def course(found: Survey, name: TableName, whole: Range, standing: Standing | None, rules: Rules) -> list[Step]:
    """The table's steps through a range, in order. ``standing``: at the range's start; None: silver has no row of it.

    Raises TableStopped where a statement cannot be carried out, or says something else than the rows behind it.
    """
    return list(held(found, name, whole, standing, rules).steps)


def held(found: Survey, name: TableName, whole: Range, standing: Standing | None, rules: Rules) -> Content:
    """What a table holds at the end of a range, of what it has got in it. Raises TableStopped, DecodeError."""
    content, ended = reached(found, name, whole, standing, rules)
    if ended:
        raise ended.error
    return content


@dataclass(frozen=True, slots=True)
class Ended:
    """Where the course of a table ends before its range does, and why it stops there.

    at: the boundary of transactions before the statement or the row that stops it.
    """

    at: Position
    error: TableStopped | DecodeError

    @property
    def why(self) -> str:
        return str(self.error)


def reached(
    found: Survey, name: TableName, whole: Range, standing: Standing | None, rules: Rules
) -> tuple[Content, Ended | None]:
    """What a table holds where its course ends: at the end of the range, or where it stops before that.

    Where in a range a table stops, and with what rows, does not depend on where the range begins or ends.
    """
    way = _Course(found, name, whole, rules, standing)
    steps = way.steps()
    seen = found.tables.get(name)
    size = seen.size if seen else 0
    return Content(name, None, steps, way.standing, whole.start, size, way.skips, found.xa), way.ended


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of the log, and the definition that the log has for its rows; None where the table has no row there.

    why: how it differs from the piece before it, with no statement between them. failed: its rows cannot be looked at.
    """

    range: Range
    definition: TableDefinition | None = None
    why: str | None = None
    failed: TableStopped | DecodeError | None = None


class _Course:
    def __init__(self, found: Survey, name: TableName, whole: Range, rules: Rules, standing: Standing | None) -> None:
        self.found = found
        self.name = name
        self.whole = whole
        self.rules = rules
        self.seen = found.tables.get(name)
        self.is_new = standing is None
        self.skips = rules.filters.skipped(name.schema, name.table)
        self.standing = standing or Standing(None)
        self.before: Content | None = None
        self.done: list[Step] = []
        self.told: Told | None = None
        """What the history tells of the part that is gone through: without a statement between the two."""
        self.later: Told | None = None
        """What it tells from a place behind the part on."""
        self.ended: Ended | None = None

    def steps(self) -> list[Step]:
        said, self.ended = self._statements()
        stop = max(self.ended.at, self.whole.start) if self.ended else self.whole.stop
        starts = [self.whole.start, *(one.stop for one in said)]
        stops = [*(one.position for one in said), stop]
        parts = [Range(start, max(start, stop)) for start, stop in zip(starts, stops, strict=True)]
        logged = self._logged(parts)
        place, is_whole = self.whole.start, self.ended is None
        try:
            told = self._told([one.definition for pieces in logged for one in pieces])
            self._require_still_unnamed(parts[0])
            self._label_standing()
            for at, (part, pieces) in enumerate(zip(parts, logged, strict=True)):
                self.told = told if told and (told.why or part.start <= told.at <= part.stop) else None
                self.later = told if told and told.at > part.stop else None
                if at:
                    place = said[at - 1].boundary
                    self._behind(said[at - 1], pieces[0].definition)
                place = part.start
                if pieces[0].definition is None:
                    self._begin_with_told()
                for piece in pieces:
                    is_last = is_whole and part is parts[-1] and piece is pieces[-1]
                    place = piece.range.start
                    self._piece(piece, is_last=is_last, begun=None if at else self.rules.begun)
        except (TableStopped, DecodeError) as error:
            found = error.at if isinstance(error, TableStopped) else None
            self.ended = Ended(found if isinstance(found, Position) else place, error)
        return self.done

    def _statements(self) -> tuple[list[Said], Ended | None]:
        """The statements that change the table, up to the first one, or XA COMMIT, that stops it."""
        limit, found = self._undecidable(), []
        about = (*self.found.about(self.name, self.whole.start), *self.found.indexes(self.name, self.whole.start))
        for said in sorted(about, key=lambda one: one.position):
            if limit and said.position >= limit.at:
                break
            try:
                is_of_key = said.statement.effect is not Effect.INDEXES or self._may_drop_key(said)
                found += [said] if is_of_key and self._cuts(said) else []
            except (TableStopped, DecodeError) as error:
                return found, Ended(said.boundary, error)
        return found, limit

    def _piece(self, piece: "_Piece", *, is_last: bool, begun: TableDefinition | None) -> None:
        """The rows of one definition. Raises TableStopped, with the place of the row or statement that stops them."""
        part = piece.range
        try:
            if piece.failed:
                raise piece.failed
            if piece.why:
                self._require_following(piece)
            self._rows(part, piece.definition, is_last=is_last, begun=begun)
        except (TableStopped, DecodeError) as error:
            place = error.at if isinstance(error, TableStopped) else None
            if not isinstance(place, Position):
                is_at_start = piece.why or not piece.definition
                first = None if is_at_start else self.rules.place(self.name, part, lambda _: True)
                raise _stopped(error, first or part.start) from error
            if part.start < place < part.stop and piece.definition:
                before = Range(part.start, place)
                if self.rules.place(self.name, part, lambda _: True) < place:
                    self._rows(before, piece.definition, is_last=False, begun=begun)
            raise

    def _behind(self, said: Said, logged: TableDefinition | None) -> None:
        if said.position in self.skips:
            self._pass_over(said)
        else:
            self._turn(said, logged)

    def _require_still_unnamed(self, first: Range) -> None:
        """Raises TableStopped where rules are about a table with numbered columns, or something names them by now.

        first: the range up to its first statement.
        """
        known = self.standing.definition
        if known is None or not known.numbered:
            return
        self._require_unruled()
        told = self.rules.by_history(self.name, self.whole.start)
        if told and told.definition and not told.why and told.at <= first.stop:
            raise self._named_by_now(told.by)

    def _label_standing(self) -> None:
        """Labels that an earlier version did not take from statements and servers: the lake has their numbers."""
        known = self.standing.definition
        if known is None or known.numbered or not without_labels(known):
            return
        told = self.rules.by_history(self.name, self.whole.start)
        if told is None or told.definition is None or told.why:
            return
        self.standing = replace(self.standing, definition=with_known_labels(known, told.definition))

    def _require_unruled(self) -> None:
        """Raises TableStopped where rules are about the table, which may go by names."""
        rules = self.rules.filters.of(self.name.schema, self.name.table).names()
        if rules:
            raise TableStopped(
                f"{self.name}: its columns have no names (on_unnamed: number), and {', '.join(rules)} would have to "
                "judge them by name: not done; take the rule away from the table"
            )

    def _named_by_now(self, who: str) -> TableStopped:
        return TableStopped(
            f"{self.name}: its columns are numbered in the lake (on_unnamed: number), and {who} names them by now; "
            f"begin it anew with the names (stratalog reset --source SOURCE --table {self.name})"
        )

    def _told(self, logged: Sequence[TableDefinition | None]) -> Told | None:
        """What the history tells of the table, where that is asked for."""
        is_known = self.standing.definition is not None or any(one and one.named() for one in logged)
        return None if is_known else self.rules.by_history(self.name, self.whole.start)

    def _begin_with_told(self) -> None:
        """What the history tells holds from there on, rows or not: the next statement may change it."""
        known = self.told and not self.told.why and self.told.definition
        if known and self.standing.definition is None and not self.standing.is_dropped:
            self.standing = replace(self.standing, definition=known)

    def _undecidable(self) -> Ended | None:
        """The first XA COMMIT whose rows are not there, or are not of the table as it is."""
        own = self.found.xa.of(self.name, self.skips)
        found = [Ended(at, TableStopped(why, at)) for xid, at in own.unknown if (why := self._lacks_rows(xid, at))]
        changing = (one for one in (*self.found.before, *self.found.statements) if self._may_change(one))
        spans = own.spans() if len(own.held) else []
        for said, span in product(changing, spans) if spans else ():
            if span.start < said.position < span.stop and span.stop >= self.whole.start:
                error = self._refused(
                    said,
                    f"changes the table between rows of an XA transaction, prepared at {span.start}, and their XA "
                    f"COMMIT at {span.stop}; which rows the server then had is not in the log",
                )
                found.append(Ended(span.stop, error))
        return min(found, key=lambda one: one.at.order, default=None)

    def _lacks_rows(self, xid: str, at: Position) -> str | None:
        """Why the table stops at an XA COMMIT whose rows bronze does not hold; None where none can be the table's."""
        beginning = self.rules.beginning
        is_needed = self.standing.is_complete or (beginning is not None and beginning.is_needed)
        if at < self.whole.start or not is_needed or (beginning and beginning.made(self.name, at)):
            return None
        return (
            f"the XA transaction {xid}, which XA COMMIT at {at} commits, was prepared before the log begins that "
            "bronze holds, and may have rows of the table; bring the older log (stratalog extract --archive DIR), or "
            f"pass the XA COMMIT over (stratalog skip --at {at})"
        )

    def _may_change(self, said: Said) -> bool:
        """Whether a statement changes the table, also one that is not followed: the table stops at that itself."""
        try:
            return self._changes_it(said)
        except (TableStopped, DecodeError):
            return False

    def _changes_it(self, said: Said) -> bool:
        is_about = said.statement.effect is Effect.CHANGES and said.statement.names(self.name.schema, self.name.table)
        return is_about and said.position not in self.skips and self._changes(said) and not self._is_of_indexes(said)

    def _may_drop_key(self, said: Said) -> bool:
        """Whether rows may be told apart otherwise after a statement about indexes alone.

        Of a table that only a server names, the key is not taken for known where statements are about its indexes.
        """
        return self._may_have_key(said) and self._is_dropping(said)

    def _may_have_key(self, said: Said) -> bool:
        """Whether the table may be told apart, before a statement, by an index that is known."""
        known, told = self.standing.definition, self.seen.definitions if self.seen else ()
        if known is not None or any(one.named() for _, one in told):
            return known is None or known.index != PRIMARY
        before = (one for one in self.found.about(self.name, self.whole.start) if one.position < said.position)
        return any(one.statement.effect is Effect.CREATES for one in before)

    def _is_dropping(self, said: Said) -> bool:
        """Whether a statement drops an index of the table."""
        try:
            return said.statement.verb.startswith("DROP") and bool(self._indexes_dropped(said))
        except DecodeError as error:
            raise self._refused(said, f"is not followed: {error}") from error

    def _is_of_indexes(self, said: Said) -> bool:
        """Whether a statement leaves every row and column as they are."""
        if _is_about_index(said):
            return True
        is_own = said.statement.verb.startswith("ALTER") and self._is_about(said)
        return is_own and all(isinstance(operation, LEAVING_ROWS) for operation in self._operations(said))

    def _cuts(self, said: Said) -> bool:
        """Whether a statement changes the table, or is passed over. Raises TableStopped for what is not handled."""
        if said.position in self.skips:
            return not self._is_before_rows(said)
        if said.statement.effect is Effect.CREATES and said.statement.writes_rows and self._is_about(said):
            raise self._refused(
                said, "fills the table in statement format, which says what was asked, not what happened"
            )
        if self._is_early(said):
            return True
        match said.statement.effect:
            case Effect.CREATES:
                return self._is_about(said)
            case Effect.CHANGES:
                return self._changes(said)
            case Effect.INDEXES:
                return True
            case Effect.ROWS:
                why = "changes rows in statement format, which says what was asked, not what happened"
            case Effect.ROUTINE:
                why = (
                    "runs a routine, logged in statement format: which rows of which tables it changed, it does not say"
                )
            case _:
                why = "undoes a part of the rows that were logged before it; which of them stay is not in the log"
        raise self._refused(said, why)

    def _changes(self, said: Said) -> bool:
        verb = said.statement.verb.split()[0]
        if _is_about_index(said) or said.statement.schemas:
            return _is_about_index(said) or self._is_schema(said)
        if verb == "DROP":
            return self._is_among(said, dropped)
        if verb in ("TRUNCATE", "CREATE"):
            return self._is_about(said)
        if verb == "RENAME":
            return self._is_among(said, lambda text, database: list(renamed(text, database)))
        if verb != "ALTER":
            raise self._refused(said, "changes the table, which is not applied yet")
        if self._is_about(said):
            found = self._operations(said)
            drops = any(isinstance(one, DropIndex) for one in found) and self._may_have_key(said)
            return drops or any(not isinstance(one, LEAVING_ROWS) for one in found)
        if "EXCHANGE" in said.statement.plain.upper().split():
            raise self._refused(said, "changes the table, which is not applied yet")
        return may_rename(said.statement) and self._is_among(said, lambda text, database: list(renamed(text, database)))

    def _was(self, said: Said) -> TableName | None:
        """What the table was called before a statement that has this one's name behind it; None where none has it."""
        if not may_rename(said.statement):
            return self.name
        try:
            return renamed(said.statement.plain, said.database).get(self.name, self.name)
        except (DecodeError, IndexError) as error:
            raise self._refused(said, "changes the table, which is not applied: it cannot be read") from error

    def _operations(self, said: Said) -> list[Any]:
        try:
            if _is_about_index(said):
                return list(self._indexes_dropped(said))
            require_plain(said.statement.text, said.session)
            return list(operations(said.statement.plain))
        except DecodeError as error:
            raise self._refused(said, f"changes the table, which is not applied: {error}") from error

    def _is_about(self, said: Said) -> bool:
        """Whether it is this table that the statement makes or alters, and not one that it mentions."""
        return self._is_among(said, lambda text, database: [target(text, database)])

    def _is_among(self, said: Said, named: Callable[[str, str], list[TableName]]) -> bool:
        """Whether the table is among those that a statement names.

        Some servers store names in small letters and log statements as they were typed; which do is not in the log.
        """
        try:
            found = named(said.statement.plain, said.database)
        except (DecodeError, IndexError) as error:
            raise self._refused(said, "changes the table, which is not applied: it cannot be read") from error
        if self.name in found:
            return True
        alike = [one for one in found if str(one).casefold() == str(self.name).casefold()]
        if alike and alike[0] not in self.found.tables and str(self.name).islower():
            raise self._refused(said, f"names {alike[0]}; whether that is {self.name} is not in the log")
        return False

    def _is_schema(self, said: Said) -> bool:
        """Whether DROP DATABASE names the table's schema in its very letters."""
        if any(word.text == self.name.schema for word in words_of(said.statement.plain)):
            return True
        raise self._refused(
            said, f"names the schema {self.name.schema} in other letters; whether it is, is not in the log"
        )

    def _is_early(self, said: Said) -> bool:
        """Whether it changes a table that the lake has no row of yet: then there is nothing to change but names."""
        effects = (Effect.CREATES, Effect.CHANGES, Effect.INDEXES)
        return self._is_before_rows(said) and said.statement.effect in effects

    def _is_before_rows(self, said: Said) -> bool:
        return self._is_first() and (self.seen is None or said.position < self.seen.first)

    def _carry(self, said: Said, logged: TableDefinition | None, was: TableName) -> None:
        """Takes the place of what the name meant: the table that a statement gives it, with all that it holds."""
        if self.rules.contents is None:
            raise self._refused(said, "changes the table, which is not applied yet")
        content = self.rules.contents(was, said.position)
        if content.standing.is_dropped:
            raise self._refused(said, f"gives the table the rows of {was}, which the log has dropped before")
        if said.statement.verb.startswith("ALTER"):
            content = self._altered(content, said, logged)
        if content.standing.kept:
            names = names_of(content.standing.kept)
            raise self._refused(said, f"gives the table the rows of {was}, which has kept columns ({names}): not done")
        known = content.standing.definition
        definition = replace(known, name=self.name) if known else None
        if logged is not None and content.is_empty:
            definition = self._settled(logged, definition, said.stop, is_last=True, is_new=True)
        standing = Standing(definition, emptied=said.position, is_complete=content.standing.is_complete)
        if content.is_empty and self._is_first():
            self.standing = replace(standing, emptied=None)
            return
        self.standing = standing
        carried = None if content.is_empty else content
        if carried:
            self._require_no_rules(said, f"gives the table the rows of {was}", was)
        place = Range(said.position, said.stop)
        self.done.append(Turn(place, standing, said, empties=True, carried=carried))

    def _require_no_rules(self, said: Said, does: str, was: TableName) -> None:
        """Raises TableStopped where rules are about rows that are taken over, or that the name had."""
        of = self.rules.filters.of
        rules = sorted({rule for one in (was, self.name) for rule in of(one.schema, one.table).names()})
        if rules:
            raise self._refused(said, f"{does}, and {', '.join(rules)} would have to judge them: not done yet")

    def _altered(self, content: Content, said: Said, logged: TableDefinition | None) -> Content:
        """What a table holds behind the other operations of the ALTER that gives it its new name."""
        others = [
            operation
            for operation in self._operations(said)
            if not isinstance(operation, (RenameTable, *_LEAVING_KEYS))
        ]
        if not others or content.standing.definition is None:
            return content
        way = _Course(self.found, content.name, Range(said.position, said.stop), self.rules, content.standing)
        way.before = content
        steps = way.altered(said, logged and replace(logged, name=content.name), content.standing.definition)
        return replace(content, steps=[*content.steps, *steps], standing=way.standing)

    def altered(self, said: Said, logged: TableDefinition | None, before: TableDefinition) -> list[Step]:
        """The step of an ALTER, whatever name it leaves the table with."""
        self._alter(said, logged, before)
        return self.done

    def _early(self, said: Said, *, is_gone: bool) -> None:
        """What the table's first rows will have for columns, as far as statements tell; nothing is refused here."""
        if is_gone:
            self.standing = Standing(None, is_complete=True)
            return
        verb = said.statement.verb.split()[0]
        try:
            if _is_about_index(said):
                self._move_on(said)
                return
            if verb in ("CREATE", "ALTER", "TRUNCATE") and not self._is_about(said):
                if verb == "ALTER" and "EXCHANGE" in said.statement.plain.upper().split():
                    self.standing = Standing(None)
                return
            if verb == "RENAME":
                return
            if verb == "CREATE":
                self._create(said, None, None)
            elif verb == "ALTER":
                self._move_on(said)
            elif verb == "TRUNCATE":
                is_complete = self.standing.is_complete or not self._is_left_out(said)
                self.standing = replace(self.standing, is_complete=is_complete)
            else:
                is_complete = self._is_dropped_by(said) and not self._is_left_out(said)
                self.standing = Standing(None, is_complete=is_complete)
        except (TableStopped, DecodeError):
            self.standing = replace(self.standing, definition=None)

    def _move_on(self, said: Said) -> None:
        """The definition behind a statement before the first row. Raises TableStopped, DecodeError."""
        if self.standing.definition is not None:
            definition = moved(self.standing.definition, self._operations(said), self._moment(said)).definition
            self.standing = replace(self.standing, definition=_or_bag(self.standing.definition, definition))

    def _moment(self, said: Said) -> Moment | None:
        return session_time.with_zone(said.session.moment, self.rules.system_zone)

    def _is_dropped_by(self, said: Said) -> bool:
        """Whether no row of the table is left behind a statement: those that it has later are all in the log."""
        verb = said.statement.verb
        return verb.startswith("DROP") and "INDEX" not in verb and self._changes(said)

    def _refused(self, said: Said, why: str) -> TableStopped:
        return TableStopped(f"{said.statement.verb} at {said.position} {why}: {said.statement.short}", said.boundary)

    def _logged(self, parts: Sequence[Range]) -> "list[list[_Piece]]":
        """Each part in pieces whose rows have one definition each in the log; one without it where there is no row.

        The survey has a definition where its extraction met it first; rows under one that was met before are looked at.
        """
        seen = self.seen
        if seen is None:
            return [[_Piece(part)] for part in parts]
        found = [self._pieces(part) for part in parts]
        open_ = [
            at
            for at, part in enumerate(parts)
            if found[at][0].definition is None and part and seen.first < part.stop and part.start <= seen.last
        ]
        met = self._met([parts[at] for at in open_])
        for at, piece in met.items():
            found[open_[at]] = [piece]
        return found

    def _pieces(self, part: Range) -> "list[_Piece]":
        """A part by the definitions that the survey has in it."""
        seen = self.seen.definitions if self.seen else ()
        inside = [(at, one) for at, one in seen if part.start <= at < part.stop]
        pieces = [_Piece(part, inside[0][1] if inside else None)]
        for at, one in inside[1:]:
            last = pieces[-1]
            assert last.definition is not None
            if not differs(last.definition, one, last.range.start, at):
                continue
            place = self.rules.place(self.name, Range(at, part.stop), partial(eq, one))
            why = differs(last.definition, one, last.range.start, place)
            pieces[-1:] = [replace(last, range=Range(last.range.start, place))]
            pieces.append(_Piece(Range(place, part.stop), one, f"{self.name}: {why}"))
        return pieces

    def _met(self, parts: Sequence[Range]) -> "dict[int, _Piece]":
        """The parts whose rows have a definition that was met before them."""
        try:
            met = self.rules.first(self.name, parts) if parts else {}
        except (TableStopped, DecodeError) as error:
            if len(parts) == 1:
                return {0: _Piece(parts[0], failed=error)}
            each = (self._met([part]) for part in parts)  # the parts before the one that cannot be read are taken
            return {at: one[0] for at, one in enumerate(each) if one}
        return {at: _Piece(parts[at], one) for at, one in met.items()}

    def _rows(
        self, part: Range, logged: TableDefinition | None, *, is_last: bool, begun: TableDefinition | None
    ) -> None:
        self._require_index(self.standing.definition, part)
        known = self.standing.definition
        if logged is None:
            return
        if self.standing.is_dropped:
            raise TableStopped(
                f"{self.name}: rows behind {part.start}, but the log has dropped the table and not created it again"
            )
        definition = self._settled(
            logged, known, part.stop, is_last=is_last, is_new=self._is_first(), by_server=is_last
        )
        definition = with_defaults(definition, begun)
        if known is not None and not self._is_first():
            self._require_same(known, definition, part)
        standing = replace(self.standing, definition=definition)
        if known is None and not self._is_first():
            keeps = standing.is_kept
            standing = replace(standing, is_kept=False)
            self.done.append(Turn(Range(part.start, part.start), standing, keeps=keeps))
        self.standing = standing
        before = self.done[-1] if self.done else None
        is_same = isinstance(before, Rows) and before.standing == standing
        if isinstance(before, Rows) and is_same and defaults(before.definition) == defaults(definition):
            # what stood between changed nothing
            self.done[-1] = Rows(Range(before.range.start, part.stop), standing)
        else:
            self.done.append(Rows(part, standing))

    def _require_following(self, piece: "_Piece") -> None:
        """Raises TableStopped: rows have another definition than those before, as in a run that begins with them."""
        known, logged = self.standing.definition, piece.definition
        assert known is not None
        assert logged is not None
        self._require_same(known, self._settled(logged, known, piece.range.stop, is_last=False), piece.range)
        raise TableStopped(str(piece.why), piece.range.start)

    def _require_index(self, known: TableDefinition | None, part: Range) -> None:
        """Raises TableStopped where statements in a part drop the index by which the table's rows are told apart.

        Where the log names its columns it tells the key, and ``index`` is not known.
        """
        if known is None or known.index in (None, PRIMARY):
            return
        named = (*self.found.indexes(self.name, part.start), *self.found.about(self.name, part.start))
        for said in filter(lambda found: found.position < part.stop, named):
            try:
                goes = any(drops_key(known, one) for one in self._indexes_dropped(said))
            except DecodeError as error:
                if not self._is_first():
                    raise self._refused(said, f"is not followed: {error}") from error
                goes = True
            if goes and not self._is_first():
                raise self._refused(said, "drops the index by which rows are told apart, and is not followed there")
            if goes:
                self.standing = replace(self.standing, definition=replace(known, key=(), index=None))
                return

    def _indexes_dropped(self, said: Said) -> list[DropIndex]:
        """Raises Unsupported."""
        if _is_about_index(said):
            one = index_dropped(said.statement.plain)
            return [one] if one else []
        text = said.statement.plain
        if said.statement.verb.split()[0] != "ALTER" or target(text, said.database) != self.name:
            return []
        return [operation for operation in operations(text) if isinstance(operation, DropIndex)]

    def _is_first(self) -> bool:
        """Whether silver has no row of the table yet."""
        return self.is_new and not any(isinstance(step, Rows) or step.carried for step in self.done)

    def _settled(
        self,
        logged: TableDefinition,
        known: TableDefinition | None,
        until: Position,
        *,
        is_last: bool,
        is_new: bool = False,
        by_server: bool = False,
    ) -> TableDefinition:
        """A logged definition with names: its own, those that are known from before, or a server's.

        A bag stays one, and right, whatever index is made later; is_new: the lake has no row of the table as it is.
        until: up to where the rows lie that have the definition, or the statement that leads to it.
        by_server: a server tells the defaults, which no log does, behind the last statement about the table.
        """
        told = self._named(with_labels(logged, known), known, until, is_last=is_last)
        told = self._labelled(told, until)
        found = with_defaults(without_defaults(told), known)
        found = with_defaults(found, told) if by_server else found
        is_bag = known is not None and known.key == () and not is_new
        if is_bag or self._is_kept_bag(until):
            return replace(found, key=(), index=None)
        is_named = known is not None and found.index is None and known.key == found.key
        return replace(found, index=known.index) if known and is_named else found

    def _labelled(self, told: TableDefinition, until: Position) -> TableDefinition:
        """With labels whose character set the log does not name. Raises TableStopped where nothing tells them."""
        if not any(column.label_bytes for column in told.columns):
            return told
        found = self.rules.by_history(self.name, until)
        if found and not found.why:
            told = with_labels(told, found.definition)
        rule = self.rules.filters.of(self.name.schema, self.name.table).columns
        open_ = [name for name in without_labels(told) if rule is None or not rule.is_left_out(name)]
        if open_ and not told.numbered:
            raise TableStopped(
                f"{self.name}: column {open_[0]}: the log has its labels without a character set that is known "
                "(MySQL before 8.0.17 names none), and neither a statement nor a server tells them as they were up to "
                f"{until}; run again to ask the server, or name a schema dump (schema_dump: of a source of files), or "
                "leave the column out (columns:)"
            )
        return told

    def _is_kept_bag(self, until: Position) -> bool:
        """Whether silver has the rows up to a place, or the last of them, as a bag's, whatever the log says."""
        again = self.rules.again
        is_since = again is None or again.emptied is None or again.emptied < until
        return self.rules.is_bag and is_since

    def _named(
        self, logged: TableDefinition, known: TableDefinition | None, until: Position, *, is_last: bool
    ) -> TableDefinition:
        if known is not None and known.numbered:
            return self._by_number(logged, known, is_last=is_last)
        try:
            return self._by_name(logged, known, until, is_last=is_last)
        except NamesUnknown:
            if not self.rules.numbers or self._is_made_before(until):
                raise
            self._require_unruled()
            return numbered(logged)

    def _is_made_before(self, until: Position) -> bool:
        """Whether the log makes the table before a place: a server may tell more of it when it is asked next."""
        about = (one for one in self.found.about(self.name, self.whole.start) if one.position < until)
        return any(one.statement.effect is Effect.CREATES and self._is_about(one) for one in about)

    def _by_number(self, logged: TableDefinition, known: TableDefinition, *, is_last: bool) -> TableDefinition:
        """The definition of rows behind others whose columns are numbered. Raises TableStopped, also where it is told.

        What a column was numbered as, it stays; columns added since have their names.
        """
        if logged.named():
            raise self._named_by_now("the log")
        changes = self.found.about(self.name, self.whole.start)
        try:
            told = self.rules.complete(logged, changes[-1].position if changes else None) if is_last else None
        except TableStopped:
            told = None
        if told is not None and told.named():
            raise self._named_by_now("the server")
        found = with_names(logged, known)
        if found is None:
            raise TableStopped(
                f"{self.name}: its columns are numbered (on_unnamed: number), and were ({listed(known)}), where rows "
                f"now have ({listed(logged)}): which of them are the same is not known"
            )
        return found

    def _by_name(
        self, logged: TableDefinition, known: TableDefinition | None, until: Position, *, is_last: bool
    ) -> TableDefinition:
        if not logged.named() and known is not None and known.named():
            return _with_names(logged, self._with_charsets(known, until))
        changes = self.found.about(self.name, self.whole.start)
        if not logged.named() and self.told:
            found = completed_by_history(logged, self.told)
        elif not logged.named() and self.later and self.later.not_before:
            raise NamesUnknown(
                f"{self.name}: the log does not name its columns (binlog_row_metadata is not FULL), and "
                f"{self.later.not_before}; begin behind it (start: {self.later.at}, and load the table), or name a "
                "schema dump of before it (schema_dump: of a source of files)"
            )
        elif not logged.named() and not is_last:
            raise NamesUnknown(
                f"{self.name}: the log does not name its columns (binlog_row_metadata is not FULL), and "
                f"{changes[-1].statement.verb} at {changes[-1].position} changed them since"
            )
        else:
            found = self.rules.complete(logged, changes[-1].position if changes else None)
        is_other = not logged.named() and found.index not in (None, PRIMARY)
        if is_other and (changes or self.found.indexes(self.name, self.whole.start)):
            return replace(found, key=(), index=None)  # whether the index was there before is not known
        return found

    def _with_charsets(self, known: TableDefinition, until: Position) -> TableDefinition:
        """With the character sets that statements leave to the table's default, as the history has them at a place."""
        told = self.rules.by_history(self.name, until) if lacks(known) else None
        there = told.definition if told and told.at == until and not told.why else None
        if there is None or there.column_names() != known.column_names():
            return known
        pairs = zip(known.columns, there.columns, strict=True)
        return replace(
            known, columns=tuple(replace(a, charset=b.charset if a.charset is None else a.charset) for a, b in pairs)
        )

    def _require_same(self, known: TableDefinition, logged: TableDefinition, part: Range) -> None:
        if not same_key(known, logged):
            raise TableStopped(
                f"{self.name}: rows were told apart by ({key_names(known)}) up to {part.start}, and are by "
                f"({key_names(logged)}) behind it; a change of the key is not followed"
            )
        if _shape(known) != _shape(logged):
            raise TableStopped(
                f"{self.name}: its columns differ: up to {part.start} they were ({listed(known)}), and rows behind it "
                f"have ({listed(logged)}); no statement of the log says why"
            )

    def _turn(self, said: Said, logged: TableDefinition | None) -> None:
        verb = "ALTER" if _is_about_index(said) else said.statement.verb.split()[0]
        place = Range(said.position, said.stop)
        was = self._was(said)
        if was is not None and was != self.name:
            self._left_out_by(said)
            self._carry(said, logged, was)
            return
        if self._is_early(said):
            self._early(said, is_gone=was is None)
            return
        if not self._cuts(said):  # it was about a table without rows, as long as others' had not come into it
            return
        left_out_by = self._left_out_by(said)
        if verb == "CREATE":
            self._create(said, logged, left_out_by)
        elif self.standing.is_dropped or (verb == "RENAME" and was is not None):
            return
        elif left_out_by:
            self._leave_out(said, left_out_by)
        elif verb == "TRUNCATE":
            self.standing = replace(self.standing, emptied=said.position, is_complete=True)
            self.done.append(Turn(place, self.standing, said, empties=True))
        elif verb == "DROP" or was is None:
            empties = self.rules.on_drop_empties
            emptied = said.position if empties else self.standing.emptied
            is_complete = self.standing.is_complete or empties
            self.standing = Standing(
                None,
                is_dropped=True,
                emptied=emptied,
                is_complete=is_complete,
                was_numbered=self.standing.is_numbered,
            )
            self.done.append(Turn(place, self.standing, said, empties=empties))
        elif self.standing.definition is not None:
            self._alter(said, logged, self.standing.definition)

    def _pass_over(self, said: Said) -> None:
        """The table stays as it is; rows behind it that have other columns stop it."""
        place = Range(said.position, said.stop)
        self.done.append(Turn(place, self.standing, said, left_out_by=skip_name(said.position)))

    def _judged(self, said: Said) -> tuple[str, Action] | None:
        """The rule that is about a statement, and what it wants."""
        own = self.rules.filters.of(self.name.schema, self.name.table)
        return own.statement(_event(said), said.statement.text)

    def _is_left_out(self, said: Said) -> bool:
        found = self._judged(said)
        return found is not None and found[1] == "ignore"

    def _left_out_by(self, said: Said) -> str | None:
        """The rule that leaves a statement out. Raises TableStopped where one stops the table."""
        found = None if self._is_of_indexes(said) else self._judged(said)
        if found is None:
            return None
        name, action = found
        if action == "stop":
            raise self._refused(said, f"is to stop the table, by {name}")
        if _event(said) in FOLLOWED:
            raise self._refused(said, f"is left out by {name}, and cannot be: the rows behind it have its columns")
        return name

    def _leave_out(self, said: Said, name: str) -> None:
        """The rows stay; of a table that is dropped no definition does."""
        if said.statement.verb.startswith("DROP"):
            self.standing = replace(self.standing, definition=None, is_dropped=True, is_kept=True)
        self.done.append(Turn(Range(said.position, said.stop), self.standing, said, left_out_by=name))

    def _create(self, said: Said, logged: TableDefinition | None, left_out_by: str | None) -> None:
        is_there = not self.standing.is_dropped and (not self.is_new or self.standing.definition is not None)
        is_maybe = "IF NOT EXISTS" in " ".join(said.statement.text.upper().split())
        if is_there and is_maybe:
            return
        try:
            require_plain(said.statement.text, said.session)
            stated = created(self.name, said.statement.plain) or self._like(said)
        except DecodeError:
            stated = None  # its first row tells
        definition = stated
        if logged and (logged.named() or stated):
            definition = self._settled(logged, stated, said.stop, is_last=True, is_new=True)
        if self._is_first():
            self.standing = Standing(definition, is_complete=self.standing.is_complete or not is_maybe)
            return
        if left_out_by or self.standing.is_kept:
            place, is_known = Range(said.position, said.stop), definition is not None
            self.standing = replace(self.standing, definition=definition, is_dropped=False, is_kept=not is_known)
            self.done.append(Turn(place, self.standing, said, left_out_by=left_out_by, keeps=is_known))
            return
        self.standing = Standing(definition, emptied=said.position, is_complete=True)
        self.done.append(Turn(Range(said.position, said.stop), self.standing, said, empties=True))

    def _like(self, said: Said) -> TableDefinition | None:
        """The definition that a table made like another one begins with, where its rows will not tell."""
        other = like(said.statement.plain, said.database)
        told = self.seen.definitions if self.seen else ()
        if other is None or self.rules.contents is None or (told and all(one.named() for _, one in told)):
            return None
        try:
            known = self.rules.contents(other, said.position).standing.definition
        except TableStopped:
            return None  # what stops that table is its own affair; where names are missing, this one stops for them
        return known and replace(known, name=self.name)

    def _alter(self, said: Said, logged: TableDefinition | None, before: TableDefinition) -> None:
        if before.numbered and not self._adds_alone(said):
            return
        try:
            stated = moved(before, self._operations(said), self._moment(said))
        except DecodeError as error:
            raise self._refused(said, f"changes the table, which is not applied: {error}") from error
        after = _or_bag(before, stated.definition)
        if logged is not None:
            after = _or_bag(before, self._settled(logged, stated.definition, said.stop, is_last=True))
            if _shape(after) != _shape(stated.definition):
                raise self._refused(
                    said,
                    f"leads to ({listed(stated.definition)}), but the rows behind it have ({listed(after)})",
                )
        elif self._is_kept_bag(said.stop):
            after = replace(after, key=(), index=None)
        is_kept = _keeps_key(before, after, stated.origins)
        if is_kept and self._is_of_indexes(said):
            self.standing = replace(self.standing, definition=replace(before, index=after.index))
            return
        turn = self._altering(said, before, after, stated)
        if not is_kept and turn.standing.kept:
            names = names_of(turn.standing.kept)
            raise self._refused(said, f"changes the key of a table with kept columns ({names}): not done")
        if not is_kept:
            turn = self._rekeyed(said, turn)
        self.standing = turn.standing
        self.done.append(turn)

    def _altering(self, said: Said, before: TableDefinition, after: TableDefinition, stated: Moved) -> Turn:
        """The turn of a statement that changes columns: where each one comes from. Raises TableStopped."""
        anew = self._begun_anew(said, before, after, stated)
        names, old = after.column_names(), before.column_names()
        came = {name: None if at is None else old[at] for name, at in zip(names, stated.origins, strict=True)}
        kept = self._kept(said, came, {names[at]: before.columns[origin] for at, origin in anew.items()})
        origins: dict[str, str | None] = {name: None if at in anew else came[name] for at, name in enumerate(names)}
        origins |= {one.name: str(came[str(one.of)]) if one.at == said.position else one.name for one in kept}
        fills = {
            names[at]: stated.fills[str(column.name)]
            for at, column in enumerate(stated.definition.columns)
            if column.name in stated.fills
        }
        standing = replace(self.standing, definition=after, kept=kept)
        turn = Turn(Range(said.position, said.stop), standing, said, origins=origins, fills=fills)
        if not anew:
            return turn
        begun = ", ".join(
            f"{names[at]} (as it was: {one.name})" for at, one in zip(anew, kept[-len(anew) :], strict=True)
        )
        return replace(turn, anew=f"{begun}; it was ({listed(before)}) and is ({listed(after)})")

    def _kept(self, said: Said, came: Mapping[str, str | None], anew: Mapping[str, Column]) -> tuple[Kept, ...]:
        """The columns that are kept behind a statement. came: from which column each one comes, by name.

        anew: those of them that begin anew, with what they were.
        """
        went = {old: new for new, old in came.items() if old is not None}
        kept = led_on(self.standing.kept, went)
        taken = {name.casefold() for name in (*came, *went, *types_of(kept))}
        clash = next((one for one in kept if one.name.casefold() in {name.casefold() for name in came}), None)
        if clash:
            raise self._refused(said, f"gives a column the name {clash.name}, under which the lake keeps another one")
        return kept + tuple(
            Kept(name_of(str(came[new]), said.position, taken), silver.spark_type(str(was.arrow)), new, said.position)
            for new, was in anew.items()
        )

    def _adds_alone(self, said: Said) -> bool:
        """Whether a statement adds columns to numbered ones; otherwise it leaves the table as it is.

        A column added is another one than all that are there; IF NOT EXISTS asks for one that may be. Raises
        TableStopped for a statement about columns by names that only the server knows.
        """
        found = [
            operation for operation in self._operations(said) if not isinstance(operation, (*LEAVING_ROWS, RenameTable))
        ]
        if all(isinstance(one, Add) and not one.if_missing for one in found):
            return bool(found)
        raise self._refused(
            said,
            "is about columns or keys by name, and nothing names the columns that the table had before it "
            "(on_unnamed: number); its rows up to there are in the lake. Name a schema dump of before it (schema_dump: "
            f"of a source of files) and begin the table anew (stratalog reset --source SOURCE --table {self.name}), or "
            "begin behind it in a pipeline of its own (start:) and load it",
        )

    def _rekeyed(self, said: Said, turn: Turn) -> Turn:
        """The turn of a statement behind which rows are told apart otherwise: it takes over all that the table held.

        The rows before are net by the old key, those behind it by the new one: no fold over both is right.
        """
        content = self._so_far(said)
        if content is not None and not content.is_empty:
            self._require_no_rules(said, "changes what the table's rows are told apart by", content.name)
        carried = None if content is None or content.is_empty else content
        return replace(turn, standing=replace(turn.standing, emptied=said.position), empties=True, carried=carried)

    def _so_far(self, said: Said) -> Content | None:
        """What the table held before a statement; None where that counts no more, and is not asked for."""
        again = self.rules.again
        if self.before is not None:
            return self.before
        if again is None:
            base, size = self.rules.base(), self.seen.size if self.seen else 0
            size += sum(base.table.files()) if base else 0
            steps, since = tuple(self.done), self.whole.start
            return Content(self.name, base, steps, self.standing, since, size, self.skips, self.found.xa)
        is_last = again.emptied == said.position
        return self.rules.contents(self.name, said.position) if is_last and self.rules.contents else None

    def _begun_anew(self, said: Said, before: TableDefinition, after: TableDefinition, stated: Moved) -> dict[int, int]:
        """The columns that begin anew at a statement, and which they were before: by their places.

        Raises TableStopped for one whose values may be others behind it, where none does, or this one cannot.
        """
        anew = {}
        for at, origin in enumerate(stated.origins):
            if origin is None:
                self._require_null_told(said, after.columns[at], stated)
                continue
            why = _values_may_change(said, before, after, origin, at)
            if why is None:
                continue
            if not self.rules.begins_anew:
                raise self._refused(said, why)
            why_not = self.rules.why_not or _why_not_anew(before, after, origin, at)
            if why_not:
                raise self._refused(said, f"{why}; no new column begins, because {why_not}")
            anew[at] = origin
        return anew

    def _require_null_told(self, said: Said, column: Column, stated: Moved) -> None:
        """Raises TableStopped where a new column may hold something else than NULL in the rows that are there."""
        wanted = next(one for one in stated.definition.columns if one.name == column.name)
        is_told = wanted is not column or said.session.explicit_timestamps or column.name not in stated.is_open
        is_given = column.name in stated.fills  # which older rows have whether or not NULL is a value too
        if (wanted.nullable != column.nullable and not is_given) or not is_told:
            raise self._refused(
                said,
                f"does not say what rows written before column {column.name} have in it: that depends on the server's "
                "explicit_defaults_for_timestamp; add it with NULL or NOT NULL and a DEFAULT",
            )


def _stopped(error: TableStopped | DecodeError, at: Position) -> TableStopped | DecodeError:
    """The error with its place in the log, which a DecodeError's own text names more exactly."""
    if isinstance(error, TableStopped):
        return type(error)(str(error), at)
    return TableStopped(str(error), at)


def _values_may_change(said: Said, before: TableDefinition, after: TableDefinition, origin: int, at: int) -> str | None:
    """Why a column's values may be others behind a statement; None where they are not."""
    old, new = before.columns[origin], after.columns[at]
    if old.nullable and not new.nullable and not said.session.is_strict:
        return f"may have changed NULL in column {new.name}: its session was not strict"
    if old.charset is not None and new.charset is None and not said.session.is_strict:
        return f"may have changed text of column {new.name}: its session was not strict"
    if keeps_values(old, new):
        return None
    both = f"the table was ({listed(before)}) and is ({listed(after)})"
    return f"does not keep every value of column {new.name}: {both}"


def _why_not_anew(before: TableDefinition, after: TableDefinition, origin: int, at: int) -> str | None:
    """Why a column cannot begin anew; None where it can."""
    if not before.key or not after.key:
        return "the table has no key, and all columns together tell its rows apart"
    return "rows are told apart by it" if origin in before.key or at in after.key else None


def _is_about_index(said: Said) -> bool:
    """Whether a statement is CREATE INDEX or DROP INDEX."""
    return said.statement.effect is Effect.INDEXES or "INDEX" in said.statement.verb


def _event(said: Said) -> str:
    """A statement's kind, as rules name it."""
    return DROP_DATABASE if said.statement.schemas else _EVENTS[said.statement.verb.split()[0]]


def _or_bag(before: TableDefinition, after: TableDefinition) -> TableDefinition:
    """A definition of which a key may not be known any more: all columns together tell rows apart in any case."""
    return replace(after, key=(), index=None) if after.key is None and before.key is not None else after


def _keeps_key(before: TableDefinition, after: TableDefinition, origins: Sequence[int | None]) -> bool:
    """Whether rows are told apart by the same columns behind a statement, as far as is known."""
    if before.key is None or after.key is None:
        return True
    return {origins[at] for at in after.key} == set(before.key)


def _shape(definition: TableDefinition) -> list[tuple[str, str]]:
    """Names and types in the lake: what a statement and the rows behind it must agree on."""
    return [
        (name.casefold(), silver.spark_type(str(column.arrow)))
        for name, column in zip(definition.column_names(), definition.columns, strict=True)
    ]


def _with_names(logged: TableDefinition, known: TableDefinition) -> TableDefinition:
    """A definition of a log that tells types alone, with the names and whatever else is known otherwise."""
    found = with_names(logged, known)
    if found is None:
        raise TableStopped(
            f"{logged.name}: the log does not name its columns, and has types ({listed(logged)}) where the table is "
            f"known as ({listed(known)})"
        )
    for column in found.columns:
        if column.charset is None and column.type.is_character:
            raise TableStopped(
                f"{logged.name}: neither the log nor a statement tells the character set of {column.name}"
            )
    return found


def onwards(
    columns: Mapping[str, str],
    turns: Sequence[Turn],
    seen: Callable[[Standing], silver.Columns] = lambda one: one.columns,
) -> dict[str, str]:
    """Rows of an older definition as the present one has them: by present column, SQL over the older ones.

    Beside them ``_raw`` and, of rows that may lack columns, ``_absent``.

    columns: names and types at the rows' time. seen: the columns that a table has in silver.

    Names of all steps are composed first, and applied once: each application is longer than what it is applied to.
    """
    now = {name: identifier(name) for name in columns}
    names: dict[str, str | None] = {name: name for name in columns}
    texts: dict[str, str] = {}
    types = dict(columns)
    for turn in turns:
        if turn.standing.definition is None:
            continue
        after = seen(turn.standing).types
        found = origins_of(turn, types, after)
        origins = {name: origin if (origin := found[name]) in types else None for name in after}
        kept = {origin: name for name, origin in origins.items() if origin is not None}
        names = {old: kept.get(new) if new else None for old, new in names.items()}
        texts = {kept[old]: text for old, text in texts.items() if old in kept}
        texts |= {name: one.exact for name, one in turn.fills.items() if one.exact and name in after}
        now = {name: _carried(now, types, origins, turn.fills, (name, kind)) for name, kind in after.items()}
        types = after
    raw = silver.raw_with(silver.raw_sql("_raw", names), texts)
    return now | {"_raw": raw, silver.ABSENT: partial_rows.renamed(names)}


def origins_of(turn: Turn, before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    """From which column each one comes; in a table made anew, those that are of one type with what was there stay."""
    if turn.origins is not None:
        return turn.origins
    return {name: name if before.get(name) == kind else None for name, kind in after.items()}


def _carried(
    now: Mapping[str, str],
    types: Mapping[str, str],
    origins: Mapping[str, str | None],
    fills: Mapping[str, Fill],
    column: tuple[str, str],
) -> str:
    name, kind = column
    origin = origins[name]
    if origin is None:
        return f"CAST({fills[name].sql if name in fills else 'NULL'} AS {kind})"
    return now[origin] if types[origin] == kind else f"CAST({now[origin]} AS {kind})"
