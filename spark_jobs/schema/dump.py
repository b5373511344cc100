"""The schema dump of a source of files: its file, and where in the log it was taken.

Put here: reading the file that the configuration names, finding its position, and what is wrong with either. Not here:
what its text means (mysqldump.py), or what follows for tables (history.py).
"""

from hashlib import sha256
from pathlib import Path

from spark_jobs.binlog import TableDefinition
from spark_jobs.config.model import SchemaDump
from spark_jobs.ddl.server_facts import ServerFacts
from spark_jobs.errors import SourceError, StratalogError, about
from spark_jobs.log.location import LogLocation, parse_location
from spark_jobs.log.position import Position
from spark_jobs.schema.facts import ServerAnswer
from spark_jobs.schema.mysqldump import ParsedDump, UnreadStatement, read_dump
from spark_jobs.source.files import Files
from spark_jobs.source.protocol import require_boundary
from spark_jobs.source.seek import resolve_location

MOST = 256 << 20
"""Bytes of a dump: one of tables alone has a thousandth of that."""
_WITHOUT_POSITION = (
    "it does not say at which position of the log it was taken; make it with --source-data=2 (--master-data=2 where "
    "mysqldump does not know that), or say it: schema_dump: {file: …, at: mysql-bin.000042:1337}"
)


def dump_bytes(source: str, schema_dump: SchemaDump) -> bytes:
    """The bytes of a source's schema dump. Raises SourceError if the file cannot be read."""
    with about(_message(source, schema_dump, "")[:-2]):
        return _bytes_of(schema_dump.file)


def _bytes_of(file: Path) -> bytes:
    """The bytes of a file, at most MOST. Raises SourceError if it cannot be read."""
    try:
        if file.stat().st_size > MOST:
            raise SourceError(f"it has more than {MOST >> 20} MiB; make it with --no-data")
        return file.read_bytes()
    except OSError as error:
        raise SourceError(f"it cannot be read: {error.strerror}") from error


def definitions_of(file: Path) -> tuple[tuple[TableDefinition, ...], list[str]]:
    """The tables of a dump whose position in a log is of no account, and what is wrong with those that cannot be read.

    Raises SourceError, naming the file.
    """
    with about(str(file)):
        dump = read_dump(_bytes_of(file))
        if not dump.definitions and not dump.unread:
            raise SourceError("it makes no table; mysqldump --no-data writes a CREATE TABLE for each of them")
    return dump.definitions, [_unread(file, unread) for unread in dump.unread]


def mark(schema_dump: SchemaDump, raw: bytes) -> str:
    """Mark that tells a dump from another one: its bytes, and the position that it is said to be of."""
    return sha256(f"{schema_dump.at or ''}\n".encode() + raw).hexdigest()


def answer_of(source: Files, schema_dump: SchemaDump, raw: bytes) -> ServerAnswer:
    """Answer of the dump, at its position. Raises SourceError, DecodeError where that is not to be found in the log."""
    with about(_message(source.name, schema_dump, "")[:-2]):
        dump = read_dump(raw)
        at = _resolved_position(source, _dump_location(schema_dump, dump))
    unread = tuple((unread.name, _unread(schema_dump.file, unread)) for unread in dump.unread)
    keys = tuple((gap.table, gap.key) for gap in dump.gaps if gap.key)
    versioned = tuple(gap.table for gap in dump.gaps if gap.key is None)
    facts = ServerFacts(at, keys, versioned)
    return ServerAnswer(at, dump.definitions, is_whole=False, origin="dump", unread=unread, declared=facts)


def problems(source: str, schema_dump: SchemaDump, listed: Files | None) -> list[str]:
    """All that keeps a dump from telling all of its tables. listed: the log, where it can be read."""
    try:
        dump = read_dump(dump_bytes(source, schema_dump))
        location = _dump_location(schema_dump, dump)
        if listed and isinstance(location, Position):
            _require_name(listed, location)
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


def _dump_location(schema_dump: SchemaDump, dump: ParsedDump) -> LogLocation:
    """The location in the log that a dump is of. Raises SourceError if it names none, or several."""
    if schema_dump.at:
        return parse_location(schema_dump.at)
    locations: list[LogLocation] = [*(dump.positions or dump.gtids)]
    if not locations:
        raise SourceError(_WITHOUT_POSITION)
    if len(locations) > 1:
        listed = ", ".join(map(str, locations))
        raise SourceError(f"it names several positions ({listed}); say which one is of this log, as schema_dump.at")
    return locations[0]


def _resolved_position(source: Files, position: LogLocation) -> Position:
    log = source.log()
    if not isinstance(position, Position):
        return resolve_location(source, log, position)
    _require_name(source, position)
    if position <= log.end and position.stretch == 1 and position.file in [file.name for file in log.files]:
        require_boundary(source, position)
    return position


def _require_name(source: Files, position: Position) -> None:
    """Check that a position is in a file named as the log's files are. Raises SourceError."""
    first = source.names()[0]
    if position.file.rpartition(".")[0] != first.rpartition(".")[0]:
        raise SourceError(
            f"it was taken at {position}, and the log's files are named like {first}: it is of another server's log; "
            "say where it was taken in this one, as schema_dump.at"
        )
