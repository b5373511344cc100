"""Definitions of tables where the log lacks a part: by statements, a schema dump, the schema history.

Put here: which definition completes that of a TABLE_MAP, and what is missing after that. Not here: what statements do
(ddl/, schema/tracker.py), or how a dump is read (schema/mysqldump.py).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from spark_jobs.binlog import Column, Session, TableDefinition, TableName
from spark_jobs.binlog.types.numeric import Integer
from spark_jobs.ddl.classify import Statement, classify
from spark_jobs.ddl.definitions import column_list, declared_as_logged, to_json, with_names
from spark_jobs.ddl.labels import with_labels
from spark_jobs.log.position import Position
from spark_jobs.schema.facts import StatementFact, TableVersion
from spark_jobs.schema.tracker import Tracker, as_of

_MOST_WIDTH = 4
"""Bytes of the longest character."""
_TIMESTAMPS = (7, 17)
_ASKED = ("server", "dump", "inverted")
"""Origins that tell what a table was before them, too."""
Order = tuple[int, int, int]
VersionsByTable = Mapping[TableName, Sequence[TableVersion]]
"""The versions of a schema history in order, by table."""


class FollowedDefinitions:
    """Definitions by the statements of files that are read in order, and by a schema dump.

    A dump may be of before the files, and then their statements change its tables, or of after them: what fits the
    rows is taken, the first of these first.
    """

    def __init__(self, dump: Iterable[TableDefinition] = ()) -> None:
        self._dump = {definition.name: definition for definition in dump}
        self._statements = 0
        versions = [TableVersion(name, self._position(), "dump", table) for name, table in self._dump.items()]
        self._tracker = Tracker(versions)
        self._completed: dict[TableDefinition, TableDefinition] = {}

    def read(self, text: str, database: str, session: Session) -> None:
        """Take the next statement of the log by its text, as ``follow`` does."""
        self.follow(classify(text, database, session), database, session)

    def follow(self, statement: Statement, database: str, session: Session) -> None:
        """Take the next statement of the log; what it does to no table changes nothing."""
        self._statements += 1
        if self._tracker.follow([StatementFact(self._position(), statement, database, session)]):
            self._completed.clear()

    def complete(self, logged: TableDefinition, _: Position | None = None) -> TableDefinition:
        """A logged definition with what is known of its table here."""
        if logged not in self._completed:
            sources = (self._tracker.definition(logged.name), self._dump.get(logged.name))
            completed = (completed_by(logged, source) for source in sources if source)
            self._completed[logged] = next((table for table in completed if table), logged)
        return self._completed[logged]

    def columns(self, logged: TableDefinition) -> str:
        """The names and types of a logged table's columns, for those who read."""
        return column_list(self.complete(logged))

    def _position(self) -> Position:
        """Orders statements as they are read: files may have any name."""
        return Position("statements.1", self._statements)


class HistoryDefinitions:
    """Definitions by the versions of a source's schema history."""

    def __init__(self, load: Callable[[], VersionsByTable]) -> None:
        """load: gets the versions, when they are first needed."""
        self._load = load

    @cached_property
    def _versions(self) -> VersionsByTable:
        return self._load()

    def complete(self, logged: TableDefinition, position: Position) -> TableDefinition:
        """A logged definition with what is known of its table at a position. Raises LakeError."""
        for source in _definitions_at(self._versions.get(logged.name, ()), position):
            if completed := completed_by(logged, source):
                return completed
        return logged

    def facts(self, name: TableName, start: Order, stop: Order) -> list[str]:
        """All that completes definitions of a table in a part of the log, as texts: equal where they are completed so.

        start, stop: orders of positions. Raises LakeError.
        """
        versions = [version for version in self._versions.get(name, ()) if version.holds]
        before = [version for version in versions if version.at.order < start]
        inside = [version for version in versions if start <= version.at.order <= stop]
        behind = next((version for version in versions if version.at.order > stop), None)
        return [
            *(_text(version.definition) for version in before[-1:]),
            *(f"{version.at} {version.origin} {_text(version.definition)}" for version in inside),
            *([f"later {_text(behind.definition)}"] if behind and behind.origin in _ASKED else []),
        ]


def _text(definition: TableDefinition | None) -> str:
    return "" if definition is None else to_json(definition)


def _definitions_at(versions: Sequence[TableVersion], position: Position) -> list[TableDefinition]:
    """Candidates for a table's definition at a position: the one followed up to it, and the next that was asked for.

    What a server or a dump told later holds here too where no statement stands between.
    """
    now = next(iter(as_of(versions, position).values()), None)
    later = next((version for version in versions if version.holds and not version.is_before(position)), None)
    is_asked = later is not None and later.origin in _ASKED
    definitions = [now.definition if now else None, later.definition if later and is_asked else None]
    return [definition for definition in definitions if definition]


def completed_by(logged: TableDefinition, source: TableDefinition) -> TableDefinition | None:
    """A logged definition with what it lacks, by another one of the table; None where their columns are others."""
    if len(logged.columns) != len(source.columns):
        return None
    source = replace(source, columns=tuple(map(_aligned, logged.columns, source.columns)))
    fits = declared_as_logged(logged, source)
    if fits is None or (logged.has_names() and logged.column_names() != fits.column_names()):
        return None
    completed = with_names(with_labels(logged, fits), fits)
    return completed and replace(completed, key=source.key if logged.key is None else logged.key)


def _aligned(logged: Column, column: Column) -> Column:
    """A declared column with what its declaration leaves open as the log has it.

    Text whose character set nothing tells counts characters and not bytes, and whether a bare TIMESTAMP may be NULL is
    a setting of the server (explicit_defaults_for_timestamp).
    """
    if column.type_code in _TIMESTAMPS:
        return replace(column, nullable=logged.nullable)
    is_open = column.charset is None and logged.charset is None and column.type.is_character
    widths = range(column.meta, _MOST_WIDTH * column.meta + 1, max(column.meta, 1))
    return replace(column, meta=logged.meta) if is_open and logged.meta in widths else column


def open_signs(definition: TableDefinition) -> tuple[int, ...]:
    """The ordinals of integer columns of which nothing tells whether they are UNSIGNED."""
    columns = enumerate(definition.columns)
    return tuple(at for at, column in columns if column.unsigned is None and isinstance(column.type, Integer))


def read_as_signed(definition: TableDefinition, ordinals: Iterable[int]) -> TableDefinition:
    """The definition with these columns as signed integers."""
    columns = list(definition.columns)
    for at in ordinals:
        columns[at] = replace(columns[at], unsigned=False)
    return replace(definition, columns=tuple(columns))


def lacking(definition: TableDefinition) -> list[str]:
    """Facts that nothing tells of a table's columns, and how they are written therefore."""
    columns = definition.columns
    tests = {
        "names (columns are @1, @2, …)": not definition.has_names(),
        "the signs of integers (a value with its highest bit set has both readings)": bool(open_signs(definition)),
        "the labels of ENUM and SET (they are numbers)": any(
            column.type.has_labels and column.labels is None for column in columns
        ),
        "character sets (text that is no UTF-8 is base64)": any(
            column.type.is_character and column.charset is None for column in columns
        ),
    }
    return [name for name, is_lacking in tests.items() if is_lacking]
