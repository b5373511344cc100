"""Statements of the log: which of them touch rows or columns of tables, and of which.

Put here: telling what a QUERY event's text is about. Not here: carrying it out, its tokens (scanner.py), the grammar
around names (table_names.py).

A statement is read as far as it names the tables that it changes, and never recursively: it may have any length and
depth (docs/adr/0043-one-interpreter-of-ddl.md). What cannot be read so is judged by its words, and counts
as naming every table whose name is among them: rather one table stopped too many than one row guessed.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache

from spark_jobs.binlog import Session
from spark_jobs.ddl.scanner import Token, TokenScanner, VersionedCommentMark, scan
from spark_jobs.ddl.table_names import QualifiedName, names_in, query_of_create
from spark_jobs.errors import Unsupported
from spark_jobs.text import disclosure
from spark_jobs.text.sql import identifier

_CACHED = 1 << 14
"""Letters of the statements of which it is kept what they are about: the others are read in a moment, too."""
_HEADS = 8
"""Tokens at a statement's beginning that say what it does."""
_CONDITIONAL = re.compile(r"/\*M?!\d*(.*?)\*/", re.DOTALL)
_SKIPPED = {
    "OR",
    "REPLACE",
    "ONLINE",
    "OFFLINE",
    "IGNORE",
    "UNIQUE",
    "FULLTEXT",
    "SPATIAL",
    "IF",
    "NOT",
    "EXISTS",
    "WAIT",
}


class Effect(Enum):
    """Effect of a statement on rows and columns."""

    NONE = "none"
    CREATES = "creates a table"
    CHANGES = "changes a table"
    INDEXES = "makes or drops an index"
    ROWS = "changes rows, logged as a statement"
    ROUTINE = "runs a routine, logged as a statement"
    TRANSACTION = "decides about rows that were logged before it"


@dataclass(frozen=True, slots=True)
class Statement:
    """A judged statement. ``tables`` holds (schema, table) in small letters; None: only ``words`` are known.

    plain: the text as a session without a sql_mode would say it, with what is in comments for servers from a
    version on; of statements that change rows it is the text. words: None where any table's name may be among them.
    writes: the tables whose rows the statement itself changes, in the letters that it has them in; None where it
    changes rows of tables that it does not tell.
    """

    text: str
    plain: str
    verb: str
    effect: Effect
    tables: frozenset[tuple[str, str]] | None
    schemas: frozenset[str]
    words: frozenset[str] | None
    writes: tuple[tuple[str, str], ...] | None = ()

    def names(self, schema: str, table: str) -> bool:
        """True if the statement is, or may be, about a table.

        Capital letters do not count: some servers store names in small ones and log statements as they were typed.
        """
        name = (schema.casefold(), table.casefold())
        if self.effect in _ABOUT_ANY or name[0] in self.schemas:
            return True
        if self.tables is None:
            return self.words is None or _spelled(table) <= self.words
        return name in self.tables

    @property
    def exact_names(self) -> frozenset[tuple[str, str]] | None:
        """The tables, in small letters, for which ``names`` is true; None where that is to be asked for each table."""
        return None if self.effect in _ABOUT_ANY or self.schemas else self.tables

    @property
    def writes_rows(self) -> bool:
        """True if rows are changed by it, and not by row events."""
        return self.writes is None or bool(self.writes)

    @property
    def short(self) -> str:
        """The text on one line and without its literals, for messages."""
        return disclosure.statement(self.plain)


_SHOWN = 1 << 12
"""Letters that are looked at of a text without tokens."""
_ABOUT_ANY = (Effect.TRANSACTION, Effect.ROUTINE)
_HARMLESS = {
    *("GRANT", "REVOKE", "SET", "FLUSH", "ANALYZE", "OPTIMIZE", "REPAIR", "CHECK", "CHECKSUM", "INSTALL", "UNINSTALL"),
    *("USE", "KILL", "RESET", "SAVEPOINT", "RELEASE", "BEGIN", "COMMIT", "BINLOG", "SIGNAL"),
}
_HARMLESS_OBJECTS = {
    *("USER", "ROLE", "VIEW", "PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "SERVER", "TABLESPACE", "LOGFILE"),
    *(
        "UNDO",
        "RESOURCE",
        "SPATIAL",
        "SEQUENCE",
        "PACKAGE",
        "AGGREGATE",
        "TEMPORARY",
        "INSTANCE",
        "DEFINER",
        "ALGORITHM",
        "SQL",
    ),
}
_ROWS = {"INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "WITH"}
_ROUTINES = {"CALL", "DO", "SELECT"}
"""Logged only where a routine changed something in statement format; what it changed, they do not say."""
_VERBS = (
    dict.fromkeys(_ROWS, Effect.ROWS)
    | dict.fromkeys(_ROUTINES, Effect.ROUTINE)
    | dict.fromkeys(("XA", "ROLLBACK"), Effect.TRANSACTION)
)
_CREATE_OBJECTS = {"TABLE": Effect.CREATES, "DATABASE": Effect.NONE, "SCHEMA": Effect.NONE, "INDEX": Effect.INDEXES}


_NO_MODE = Session()
_EMPTIED = re.compile(r"DELETE FROM ((?:`(?:[^`]|``)+`\.)`(?:[^`]|``)+`)")
"""Statement that some servers log of a MEMORY table that a restart emptied (sql/sql_base.cc,
``open_table_entry_fini``): all rows go, and nobody's condition decides which."""


def classify(text: str, database: str, session: Session = _NO_MODE, *, is_cut: bool = False) -> Statement:
    """Effect of a QUERY event's text; ``database`` is the session's default one.

    is_cut: the text is the beginning of a longer one, of which the head tells the tables. Nothing is raised.
    """
    if emptied := _EMPTIED.fullmatch(text):
        return replace(_cached(f"TRUNCATE TABLE {emptied[1]}", database, session), text=text)
    if len(text) > _CACHED or is_cut:
        return _classify(text, database, session, is_cut=is_cut)
    return _cached(text, database, session)


@lru_cache(maxsize=1024)
def _cached(text: str, database: str, session: Session) -> Statement:
    return _classify(text, database, session, is_cut=False)


def _classify(text: str, database: str, session: Session, *, is_cut: bool) -> Statement:
    """Kind of a statement and the tables that it names.

    A name is folded, None stands for tables that cannot be listed.
    """
    heads, tokens = _first_tokens(text, session)
    # A text that begins with what is no token and has no word either may do anything.
    effect = _effect(heads) if heads or tokens else Effect.CHANGES
    verb = " ".join(head.text for head in heads[:2]).upper()
    plain = text if effect is Effect.ROWS else _normalized_statement(text, session)
    no_tables = frozenset[tuple[str, str]]()
    # Kinds without tables, and bodies of routines, which name tables of another time.
    if effect in (Effect.NONE, Effect.TRANSACTION):
        return Statement(text, plain, verb, effect, no_tables, frozenset(), frozenset())
    if effect is Effect.ROUTINE:
        return Statement(text, plain, verb, effect, None, frozenset(), None, None)
    if verb in ("DROP DATABASE", "DROP SCHEMA"):
        return Statement(text, plain, verb, effect, no_tables, frozenset(_last_name(text, session)), frozenset())
    # Without names of its own the statement keeps its words: a table whose name is among them may be meant.
    names, is_filled = (None, False) if tokens is None else _tables_of(tokens, database)
    if names is None:
        words = None if is_cut else frozenset(_words(text))
        is_known = effect is not Effect.ROWS
        return Statement(text, plain, verb, effect, None, frozenset(), words, () if is_known else None)
    tables = frozenset((schema.casefold(), table.casefold()) for schema, table in names)
    writes = tuple(names) if effect is Effect.ROWS or is_filled else ()
    return Statement(text, plain, verb, effect, tables, frozenset(), frozenset(), writes)


def _tables_of(tokens: TokenScanner, database: str) -> tuple[list[tuple[str, str]] | None, bool]:
    """The tables that a statement names, None where that cannot be told; and whether it is a query that fills them."""
    verb = tokens.peek().text.upper()
    try:
        names = names_in(verb, tokens)
        is_filled = verb == "CREATE" and query_of_create(tokens)
    except Unsupported:
        return None, False
    if any(_ESCAPED.search(part) for name in names for part in name if part):
        return None, False
    return [_full(name, database) for name in names], is_filled


_ESCAPED = re.compile(r"\\x[0-9a-f]{2}")
"""Stand-in for a byte that is not text of the client's character set."""


def _full(name: QualifiedName, database: str) -> tuple[str, str]:
    schema, table = name
    return database if schema is None else schema, table


def _normalized_statement(text: str, session: Session) -> str:
    """A statement as it reads where neither ANSI_QUOTES nor REAL_AS_FLOAT is set, and nothing is in comments."""
    has_modes = session.has_ansi_quotes or session.has_real_as_float
    if not has_modes and "/*!" not in text and "/*M!" not in text:
        return text
    try:
        return "".join(_without_modes(text, session))
    except Unsupported:
        return _CONDITIONAL.sub(r" \1 ", text)


def _without_modes(text: str, session: Session) -> Iterator[str]:
    at = 0
    for token in scan(text, session):
        yield text[at : token.start]
        yield " " if isinstance(token, VersionedCommentMark) else _shape(token, text[token.start : token.stop], session)
        at = token.stop
    yield text[at:]


def _shape(token: Token, spelling: str, session: Session) -> str:
    if token.is_double and token.kind == "name":
        return identifier(token.text)
    return "FLOAT" if session.has_real_as_float and token.kind == "word" and spelling.upper() == "REAL" else spelling


def _first_tokens(text: str, session: Session) -> tuple[list[Token], TokenScanner | None]:
    """The first tokens of the statement that is carried out, and all from there on; None of a text without tokens.

    MariaDB's SET STATEMENT and ANALYZE have another statement inside.
    """
    # SET STATEMENT … FOR, and ANALYZE before a statement that reads or writes rows, are skipped.
    tokens = TokenScanner(text, session)
    try:
        heads = _ahead(tokens)
        while _is(heads, 0, "SET") and _is(heads, 1, "STATEMENT"):
            while not tokens.peek().among("FOR") and tokens.peek().kind != "end":
                tokens.take()
            tokens.take()
            heads = _ahead(tokens)
        if _is(heads, 0, "ANALYZE") and not any(_is(heads, at, "TABLE", "TABLES") for at in (1, 2)):
            at = next((at for at, head in enumerate(heads) if head.among(*_ROWS)), 0)
            for _ in range(at):
                tokens.take()
            heads = _ahead(tokens)
    # A text that the scanner cannot read has its first words all the same, for messages.
    except Unsupported:
        matches = re.finditer(r"[\w$]+", text[:_SHOWN])
        return [Token(match[0], "word", *match.span()) for match, _ in zip(matches, range(_HEADS), strict=False)], None
    return heads, tokens


def _ahead(tokens: TokenScanner) -> list[Token]:
    """The next tokens, as far as the text has them. Raises Unsupported where it has none."""
    ahead = [tokens.peek()]
    with suppress(Unsupported):  # what stands there, whoever needs it reads it again
        for at in range(1, _HEADS):
            ahead.append(tokens.peek(at))  # noqa: PERF401 - those before the one that cannot be read count
    return [token for token in ahead if token.kind != "end"]


def _is(heads: list[Token], at: int, *words: str) -> bool:
    return at < len(heads) and heads[at].among(*words)


def _effect(heads: list[Token]) -> Effect:
    if not heads or heads[0].among(*_HARMLESS) or _switches_keys(heads):
        return Effect.NONE
    verb = heads[0].text.upper()
    return _VERBS.get(verb) or _effect_on_objects(verb, [head.text.upper() for head in heads[1:]])


def _effect_on_objects(verb: str, heads: list[str]) -> Effect:
    rest = [word for word in heads if word not in _SKIPPED]
    kind = rest[0] if rest else ""
    if verb in ("CREATE", "ALTER", "DROP", "RENAME") and kind in _HARMLESS_OBJECTS:
        return Effect.NONE
    if verb == "CREATE":
        return Effect.CHANGES if "REPLACE" in heads[:2] else _CREATE_OBJECTS.get(kind, Effect.CHANGES)
    of_a_schema = verb == "ALTER" and kind in ("DATABASE", "SCHEMA")
    of_an_index = verb == "DROP" and kind == "INDEX" and "PRIMARY" not in rest
    if of_an_index:
        return Effect.INDEXES
    return Effect.NONE if of_a_schema else Effect.CHANGES


def _switches_keys(heads: list[Token]) -> bool:
    """ALTER TABLE name ENABLE (or DISABLE) KEYS and nothing else, as mysqldump has it around every table's rows."""
    is_alone = len(heads) == 5 or (len(heads) == 7 and heads[3].among("."))
    is_alter = _is(heads, 0, "ALTER") and _is(heads, 1, "TABLE")
    return is_alter and is_alone and heads[-1].among("KEYS") and heads[-2].among("ENABLE", "DISABLE")


def _last_name(text: str, session: Session) -> Iterable[str]:
    """The name that a statement ends with; its words where it has no tokens."""
    try:
        texts = [token.text for token in scan(text, session) if isinstance(token, Token) and not token.among(";")]
    except Unsupported:
        return _words(text)
    return [content_text.casefold() for content_text in texts[-1:]]


def _words(text: str) -> Iterator[str]:
    return (match[0] for match in re.finditer(r"[\w$]+", text.casefold()))


def _spelled(name: str) -> set[str]:
    return set(_words(name))
