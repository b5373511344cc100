"""Schema dumps by mysqldump, mariadb-dump and their like: the tables that one makes, and its position.

Source: client/mysqldump.cc of MySQL and MariaDB; the MySQL manual, "Comments" and "mysql Client Commands" (delimiter).

Put here: cutting the text into statements, and what the session is that each of them is said in. Not here: what a
statement does to a table (tracker.py), or where in a source's log the dump lies (dump.py).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from spark_jobs.binlog import Session, TableDefinition, TableName
from spark_jobs.ddl.classify import Statement, classify
from spark_jobs.ddl.columns import Word, column_in_charset, words_of
from spark_jobs.ddl.effects import AlterTable, ChangeIndex, ChangeStorage, CreateTable, DropTable, effects
from spark_jobs.ddl.parse_alter import default_charset
from spark_jobs.ddl.unlogged_changes import DdlStatement, UnloggedChanges, unlogged_changes
from spark_jobs.errors import ConfigError, DecodeError, SourceError, StratalogError, Unsupported
from spark_jobs.log.gtid import Gtids, parse_gtids
from spark_jobs.log.position import Position
from spark_jobs.schema.facts import StatementFact, TableVersion
from spark_jobs.schema.tracker import Tracker


@dataclass(frozen=True, slots=True)
class UnreadStatement:
    """A table of which a dump's statement cannot be read: in which line that begins, and why."""

    line: int
    name: TableName
    reason: str


@dataclass(frozen=True, slots=True)
class ParsedDump:
    """Content of a dump: its tables, those that cannot be read, and the positions in logs that it names, each once."""

    definitions: tuple[TableDefinition, ...]
    unread: tuple[UnreadStatement, ...] = ()
    positions: tuple[Position, ...] = ()
    gtids: tuple[Gtids, ...] = ()
    gaps: tuple[UnloggedChanges, ...] = ()
    """Gaps of a log about the tables: foreign keys that cascade, system versioning."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A statement without its plain comments, or a comment. line: where it begins, from 1."""

    line: int
    text: str
    is_comment: bool = False


def read_dump(raw: bytes) -> ParsedDump:
    """The parsed dump. Raises SourceError, with the line, for an incomplete dump or an unreadable table name."""
    text = _decoded_text(raw)
    script = _Script()
    for piece in _text_pieces(text):
        script.take(piece)
    if script.is_dump and not script.is_complete:
        raise SourceError("it is cut: it does not end with the line '-- Dump completed'; make it again")
    return script.dump()


def _decoded_text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise SourceError(
            f"line {line}: it is no text in UTF-8; unpack it, or make it with --default-character-set=utf8mb4"
        ) from error


_QUOTED = r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|`[^`]*+`"""
_CONDITIONAL = r"/\*M?!(?!999999\\-)"
"""Comments to servers of a version on, which are part of the statement; MariaDB's line of the sandbox is not."""
_COMMENT = rf"(?P<comment>--(?=\s|$)[^\n]*|\#[^\n]*|(?!{_CONDITIONAL})/\*.*?\*/)"
_OPEN = r"""(?P<open>['"`]|(?!/\*M?!)/\*)"""
_DELIMITER = re.compile(r"\s*DELIMITER[ \t]+(\S+)[ \t]*(?:\n|$)", re.IGNORECASE)


def _text_pieces(text: str) -> Iterator[_Piece]:
    """The text cut as the mysql client cuts it. Raises SourceError for a statement without an end."""
    # DELIMITER is a command of the client: it is no part of a statement, and changes what ends one.
    at, line, delimiter = 0, 1, ";"
    while at < len(text):
        command = _DELIMITER.match(text, at)
        if command:
            delimiter = command[1]
            line += text.count("\n", at, command.end())
            at = command.end()
            continue
        # One statement: texts between tokens, comments as a blank, up to the delimiter outside of quotes.
        pieces, beginning = [], None
        for match in _tokens(delimiter).finditer(text, at):
            before = text[at : match.start()]
            pieces.append(before)
            beginning = beginning or _beginning(line, before)
            line += before.count("\n")
            here, at = line, match.end()
            line += match[0].count("\n")
            # An open quote or comment runs to the end of the file: the dump was cut.
            if match["open"]:
                raise SourceError(
                    f"line {beginning or here}: what begins with {match[0]} in line {here} has no end; it is cut"
                )
            if match["comment"]:
                yield _Piece(here, match[0], is_comment=True)
                pieces.append(" ")
                if beginning is None:
                    break
            elif match["end"]:
                yield _Piece(beginning or here, "".join(pieces))
                break
            else:
                beginning = beginning or here
                pieces.append(match[0])
        # The loop ended without a delimiter.
        else:
            rest = text[at:]
            if rest.strip() or beginning:
                raise SourceError(
                    f"line {beginning or _beginning(line, rest)}: the statement has no end; the dump is cut"
                )
            return


def _tokens(delimiter: str) -> re.Pattern[str]:
    end = rf"(?P<end>{re.escape(delimiter)})"
    return re.compile(f"{end}|{_QUOTED}|{_COMMENT}|{_OPEN}", re.DOTALL)


def _beginning(line: int, text: str) -> int | None:
    """The line of the first word of a text that begins in a line; None where it is blank."""
    bare = text.lstrip()
    return line + text.count("\n", 0, len(text) - len(bare)) if bare else None


_HEADER = re.compile(r"-- (?:MySQL|MariaDB) dump ")
_COMPLETED = "-- Dump completed"
_DATABASE = re.compile(r"-- Host: .*\sDatabase: (\S.*?)\s*$")
_SOURCE = re.compile(r"CHANGE\s+(?:MASTER|REPLICATION\s+SOURCE)\s+(?:'[^']*'\s+)?TO\s.*", re.DOTALL | re.IGNORECASE)
_FILE = re.compile(r"(?:MASTER|SOURCE)_LOG_FILE\s*=\s*'([^']*)'", re.IGNORECASE)
_OFFSET = re.compile(r"(?:MASTER|SOURCE)_LOG_POS\s*=\s*(\d+)", re.IGNORECASE)
_GTIDS = re.compile(r"(?:GTID_PURGED|GTID_SLAVE_POS)\s*=\s*(?:/\*!80000\s*'\+'\s*\*/\s*)?'\+?([^']*)'", re.IGNORECASE)
_OPENED = re.compile(r"/\*M?!\d*(.*?)\*/", re.DOTALL)
_HEAD = re.compile(
    r"\s*(?:/\*M?!\d*)?\s*([A-Za-z]+)\s*(?:\*/)?\s*(?:/\*M?!\d*\s*)?(?:OR\s+REPLACE\s+)?([A-Za-z]*)", re.IGNORECASE
)
_SET = re.compile(r"([@\w.]+)\s*:?=\s*('[^']*'|[@\w.]+)")
_NAMED_IN_QUOTES = re.compile(
    r'\s*(?:CREATE|ALTER|DROP)\s+TABLE\s+(?:IF\s+(?:NOT\s+)?EXISTS\s+)?"|\s*USE\s+"', re.IGNORECASE
)
"""A dump by --compact does not say its sql_mode; no text stands where something is named."""
_OBJECTS = ("TABLE", "INDEX", "UNIQUE", "FULLTEXT", "SPATIAL")

_QUOTES = {"ANSI", "ANSI_QUOTES", "DB2", "MAXDB", "MSSQL", "ORACLE", "POSTGRESQL"}
_WITHOUT_OPTIONS = _QUOTES | {"MYSQL323", "MYSQL40", "NO_FIELD_OPTIONS", "NO_TABLE_OPTIONS"}
"""Modes in which SHOW CREATE TABLE leaves the table's character set out (sql/sql_show.cc, ``store_create_info``)."""
_ANSI_QUOTES, _NO_BACKSLASH_ESCAPES = 1 << 2, 1 << 20
"""Bits of sql_mode (sql/system_variables.h)."""
_UTF8MB4 = 45


class _Script:
    """The session that carries a dump's statements out one after the other, and what it has made."""

    def __init__(self) -> None:
        self.database: str | None = None
        self.modes: frozenset[str] = frozenset()
        self.saved: dict[str, frozenset[str]] = {}
        self.charsets: dict[str, str] = {}
        self.tables: dict[TableName, TableVersion] = {}
        self.without_charset: set[TableName] = set()
        self.positions: dict[Position, None] = {}
        self.gtids: dict[str, Gtids] = {}
        self.statements: list[DdlStatement] = []
        self.is_dump = self.is_complete = False

    def take(self, piece: _Piece) -> None:
        """Read one comment or statement of the dump. Raises SourceError."""
        try:
            if piece.is_comment:
                self._comment(piece.text)
            else:
                self._read_statement(piece)
        except (ConfigError, DecodeError, IndexError) as error:
            problem = str(error) if isinstance(error, StratalogError) else "it ends too early"
            raise SourceError(
                f"line {piece.line}: the statement that begins there cannot be read: {problem}"
            ) from error

    def _comment(self, text: str) -> None:
        self.is_dump = self.is_dump or bool(_HEADER.match(text))
        self.is_complete = self.is_complete or text.startswith(_COMPLETED)
        match = _DATABASE.match(text)
        if match and self.database is None:
            self.database = match[1]
        self._note_location(text)

    def _read_statement(self, piece: _Piece) -> None:
        head = _HEAD.match(piece.text)
        match (head[1].upper(), head[2].upper()) if head else ("", ""):
            case ("SET" | "CHANGE", _):
                self._note_location(piece.text)
                self._set(_OPENED.sub(r" \1 ", piece.text))
            case ("USE", _):
                self.database = words_of(self._judged(piece).plain)[1].text
            case ("CREATE", "DATABASE" | "SCHEMA"):
                self._schema(words_of(self._judged(piece).plain))
            case ("CREATE" | "ALTER" | "DROP", kind) if kind in _OBJECTS:
                self._read_table_statement(piece)
            case _:
                pass  # rows, views, routines: nothing about tables

    def _note_location(self, text: str) -> None:
        """Store the position and the GTIDs that a statement or comment names. Raises ConfigError."""
        for assignment in _SOURCE.findall(text):
            file, offset = _FILE.search(assignment), _OFFSET.search(assignment)
            if file and offset:
                self.positions[Position.parse(f"{file[1]}:{offset[1]}")] = None
        for gtids in _GTIDS.findall(text):
            if gtids.strip():
                self.gtids["".join(gtids.split())] = parse_gtids(gtids)

    def _set(self, text: str) -> None:
        """SET sql_mode, to a text or to what was kept of it in a variable."""
        for name, value in _SET.findall(text):
            if name.startswith("@") and not name.startswith("@@"):
                if _is_mode(value):
                    self.saved[name.casefold()] = self.modes
            elif _is_mode(name):
                modes = frozenset(value.strip("'").upper().split(","))
                self.modes = modes if value.startswith("'") else self.saved.get(value.casefold(), frozenset())

    def _schema(self, words: list[Word]) -> None:
        at = next(k for k, word in enumerate(words) if k > 1 and not word.among("IF", "NOT", "EXISTS"))
        charset = default_charset(words[at + 1 :])
        if charset:
            self.charsets[words[at].text] = charset

    def _session(self, text: str) -> Session:
        has_quotes = bool(self.modes & _QUOTES) or bool(_NAMED_IN_QUOTES.match(text))
        bits = _ANSI_QUOTES * has_quotes | _NO_BACKSLASH_ESCAPES * ("NO_BACKSLASH_ESCAPES" in self.modes)
        return Session(bits, _UTF8MB4)

    def _judged(self, piece: _Piece) -> Statement:
        return classify(piece.text.strip(), self.database or "", self._session(piece.text))

    def _read_table_statement(self, piece: _Piece) -> None:
        """A statement about a table."""
        judged, database = self._judged(piece), self.database or ""
        statement_effects = effects(judged, database, self._session(piece.text))
        if any(isinstance(effect, DropTable) for effect in statement_effects):
            self.statements.append(DdlStatement(_line(piece), judged.plain, database))
        for effect in statement_effects:
            match effect:
                case CreateTable():
                    self._create_table(piece, effect)
                case DropTable(name):
                    self.tables.pop(name, None)
                case AlterTable(name) | ChangeIndex(name) | ChangeStorage(name):
                    self._change(piece, name)

    def _create_table(self, piece: _Piece, effect: CreateTable) -> None:
        name = effect.table
        if not name.schema:
            raise Unsupported(
                f"CREATE TABLE {name.table} names no database, and no USE precedes it; make the dump with --databases"
            )
        self._change(piece, name, effect.like)
        if self._session(piece.text).has_ansi_quotes or self.modes & _WITHOUT_OPTIONS:
            self.without_charset.add(name)

    def _change(self, piece: _Piece, name: TableName, second: TableName | None = None) -> None:
        """Let a statement make or change a table, of which another one may tell the columns."""
        versions = [self.tables[table] for table in (name, second) if table in self.tables]
        statement = StatementFact(_line(piece), self._judged(piece), self.database or "", self._session(piece.text))
        self.statements.append(DdlStatement(statement.at, statement.statement.plain, statement.database))
        for version in Tracker(versions).follow([statement]):
            if version.name == name:
                self.tables[name] = version

    def dump(self) -> ParsedDump:
        tables = [version for _, version in sorted(self.tables.items()) if not version.is_dropped]
        return ParsedDump(
            tuple(self._with_charset(table.definition) for table in tables if table.definition),
            tuple(
                UnreadStatement(table.at.offset, table.name, str(table.note))
                for table in tables
                if not table.definition
            ),
            tuple(self.positions),
            tuple(self.gtids.values()),
            tuple(gap for gap in unlogged_changes(self.statements) if gap.until is None),
        )

    def _with_charset(self, definition: TableDefinition) -> TableDefinition:
        """Definition with its database's default where it has no character set, and the dump leaves none out."""
        charset = self.charsets.get(definition.name.schema)
        if charset is None or definition.name in self.without_charset:
            return definition
        columns = (
            column_in_charset(column, charset) if column.charset is None else column for column in definition.columns
        )
        return replace(definition, columns=tuple(columns))


def _line(piece: _Piece) -> Position:
    """A position that orders statements as they stand in the dump."""
    return Position("dump.1", piece.line)


def _is_mode(name: str) -> bool:
    return name.upper().rpartition(".")[2].lstrip("@") == "SQL_MODE"
