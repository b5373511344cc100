"""The schema dump of a source of files: its file, and where in the log it was taken.

Put here: reading the file that the configuration names, finding its place, and what is wrong with either. Not here:
what its text means (mysqldump.py), or what follows for tables (history.py).
"""

from hashlib import sha256
from pathlib import Path

from spark_jobs.binlog import TableDefinition
from spark_jobs.config.model import SchemaDump
from spark_jobs.ddl.server_facts import ServerFacts
from spark_jobs.errors import SourceError, StratalogError, about
from spark_jobs.log.location import LogLocation, parse_place
from spark_jobs.log.position import Position
from spark_jobs.schema.facts import ServerAnswer
from spark_jobs.schema.mysqldump import ParsedDump, UnreadStatement, read_dump
from spark_jobs.source.files import Files
from spark_jobs.source.protocol import require_boundary
from spark_jobs.source.seek import find_place

MOST = 256 << 20
"""Bytes of a dump: one of tables alone has a thousandth of that."""
_WITHOUT_PLACE = (
    "it does not say at which position of the log it was taken; make it with --source-data=2 (--master-data=2 where "
    "mysqldump does not know that), or say it: schema_dump: {file: …, at: mysql-bin.000042:1337}"
)


def content(source: str, schema_dump: SchemaDump) -> bytes:
    """Raises SourceError where the file cannot be read."""
    with about(_message(source, schema_dump, "")[:-2]):
        return _bytes_of(schema_dump.file)


def _bytes_of(file: Path) -> bytes:
    """Raises SourceError where it cannot be read."""
    try:
        if file.stat().st_size > MOST:
            raise SourceError(f"it has more than {MOST >> 20} MiB; make it with --no-data")
        return file.read_bytes()
    except OSError as error:
        raise SourceError(f"it cannot be read: {error.strerror}") from error


def definitions_of(file: Path) -> tuple[tuple[TableDefinition, ...], list[str]]:
    """The tables of a dump whose place in a log is of no account, and what is wrong with those that cannot be read.

    Raises SourceError, naming the file.
    """
    with about(str(file)):
        dump = read_dump(_bytes_of(file))
        if not dump.definitions and not dump.unread:
            raise SourceError("it makes no table; mysqldump --no-data writes a CREATE TABLE for each of them")
    return dump.definitions, [_unread(file, unread) for unread in dump.unread]


def mark(schema_dump: SchemaDump, raw: bytes) -> str:
    """What tells a dump from another one: its bytes, and the place that it is said to be of."""
    return sha256(f"{schema_dump.at or ''}\n".encode() + raw).hexdigest()


def answer_of(source: Files, schema_dump: SchemaDump, raw: bytes) -> ServerAnswer:
    """What the dump tells, at its place. Raises SourceError, DecodeError where that is not to be found in the log."""
    with about(_message(source.name, schema_dump, "")[:-2]):
        dump = read_dump(raw)
        at = _position(source, _place(schema_dump, dump))
    unread = tuple((unread.name, _unread(schema_dump.file, unread)) for unread in dump.unread)
    keys = tuple((gap.table, gap.key) for gap in dump.gaps if gap.key)
    versioned = tuple(gap.table for gap in dump.gaps if gap.key is None)
    facts = ServerFacts(at, keys, versioned)
    return ServerAnswer(at, dump.definitions, is_whole=False, origin="dump", unread=unread, declared=facts)


def problems(source: str, schema_dump: SchemaDump, listed: Files | None) -> list[str]:
    """All that keeps a dump from telling all of its tables. listed: the log, where it can be read."""
    try:
        dump = read_dump(content(source, schema_dump))
        place = _place(schema_dump, dump)
        if listed and isinstance(place, Position):
            _require_name(listed, place)
    except StratalogError as error:
        problem = str(error).removeprefix(_message(source, schema_dump, ""))
        return [f"{schema_dump.file}: {problem}"]
    if not dump.definitions and not dump.unread:
        return [f"{schema_dump.file}: it makes no table; a dump of tables has a CREATE TABLE for each of them"]
    return [_unread(schema_dump.file, unread) for unread in dump.unread]


def _message(source: str, schema_dump: SchemaDump, text: str) -> str:
    return f"{source}: the schema dump {schema_dump.file}: {text}"


def _unread(file: Path, unread: UnreadStatement) -> str:
    return f"{file}: line {unread.line}: CREATE TABLE of {unread.name} cannot be read: {unread.reason}"


def _place(schema_dump: SchemaDump, dump: ParsedDump) -> LogLocation:
    """Raises SourceError where a dump says none, or several."""
    if schema_dump.at:
        return parse_place(schema_dump.at)
    places: list[LogLocation] = [*(dump.positions or dump.gtids)]
    if not places:
        raise SourceError(_WITHOUT_PLACE)
    if len(places) > 1:
        listed = ", ".join(map(str, places))
        raise SourceError(f"it names several positions ({listed}); say which one is of this log, as schema_dump.at")
    return places[0]


def _position(source: Files, place: LogLocation) -> Position:
    log = source.log()
    if not isinstance(place, Position):
        return find_place(source, log, place)
    _require_name(source, place)
    if place <= log.end and place.stretch == 1 and place.file in [file.name for file in log.files]:
        require_boundary(source, place)
    return place


def _require_name(source: Files, place: Position) -> None:
    """Raises SourceError for a position in files of another name than the log's."""
    first = source.names()[0]
    if place.file.rpartition(".")[0] != first.rpartition(".")[0]:
        raise SourceError(
            f"it was taken at {place}, and the log's files are named like {first}: it is of another server's log; say "
            "where it was taken in this one, as schema_dump.at"
        )
