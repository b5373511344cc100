"""Statements of the log: which of them touch rows or columns of tables, and of which.

Put here: telling what a QUERY event's text is about. Not here: carrying it out.

The text is read by sqlglot. What it cannot parse is judged by its words, and counts as naming every table whose name is
among them: rather one table stopped too many than one row guessed.
"""

import logging
import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import ClassVar

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.dialects.mysql import MySQL
from sqlglot.errors import SqlglotError

from spark_jobs.binlog import Session

logging.getLogger("sqlglot").setLevel(logging.ERROR)  # it warns of every statement that it leaves unparsed

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
    """What a statement does to rows and columns."""

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

    plain: the text as a session without a sql_mode would say it, with what stands in comments for servers from a
    version on.
    """

    text: str
    plain: str
    verb: str
    effect: Effect
    tables: frozenset[tuple[str, str]] | None
    schemas: frozenset[str]
    words: frozenset[str]

    def names(self, schema: str, table: str) -> bool:
        """Whether the statement is, or may be, about a table.

        Capital letters do not count: some servers store names in small ones and log statements as they were typed.
        """
        name = (schema.casefold(), table.casefold())
        if self.effect in _ABOUT_ANY or name[0] in self.schemas:
            return True
        return _spelled(table) <= self.words if self.tables is None else name in self.tables

    @property
    def short(self) -> str:
        """The text on one line, for messages."""
        line = " ".join(self.text.split())
        return line if len(line) <= 120 else f"{line[:117]}..."


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
_MODIFIERS = {"LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "QUICK", "IGNORE"}
"""Words behind a verb that the parser takes for a table's name."""
_CREATE_OBJECTS = {"TABLE": Effect.CREATES, "DATABASE": Effect.NONE, "SCHEMA": Effect.NONE, "INDEX": Effect.INDEXES}


_NO_MODE = Session()


@lru_cache(maxsize=1024)
def judge(text: str, database: str, session: Session = _NO_MODE) -> Statement:
    """What a QUERY event's text does; ``database`` is the session's default one."""
    plain = _as_default(_opened(text), session)
    words = _carried_out(_words(plain))
    effect = _effect(words)
    verb = " ".join(words[:2]).upper()
    known = frozenset(part for word in words for part in _spelled(word))
    if effect in (Effect.NONE, Effect.TRANSACTION):
        return Statement(text, plain, verb, effect, frozenset(), frozenset(), known)
    if verb in ("DROP DATABASE", "DROP SCHEMA"):
        return Statement(text, plain, verb, effect, frozenset(), frozenset(_last_name(words)), known)
    tables = None if _MODIFIERS & {word.upper() for word in words[1:4]} else _tables(plain, database)
    return Statement(text, plain, verb, effect, tables, frozenset(), known)


def _opened(text: str) -> str:
    return _CONDITIONAL.sub(r" \1 ", text)


class _Ansi(MySQL):
    """MySQL's words where sql_mode has ANSI_QUOTES; no statement is swallowed whole."""

    class Tokenizer(MySQL.Tokenizer):
        QUOTES = ["'"]  # noqa: RUF012 - as sqlglot has it
        STRING_ESCAPES = ["'", "\\"]  # noqa: RUF012
        IDENTIFIERS = ["`", '"']  # noqa: RUF012
        COMMANDS: ClassVar[set[TokenType]] = set()


def _as_default(text: str, session: Session) -> str:
    """A statement as it reads where neither ANSI_QUOTES nor REAL_AS_FLOAT is set; as it is where it has no words."""
    if not (session.has_ansi_quotes or session.has_real_as_float):
        return text
    try:
        tokens = _Ansi().tokenize(text) if session.has_ansi_quotes else sqlglot.tokenize(text, read="mysql")
    except SqlglotError:
        return text
    parts, at = [], 0
    for token in tokens:
        parts += [text[at : token.start], _without_modes(token, text[token.start : token.end + 1], session)]
        at = token.end + 1
    return "".join([*parts, text[at:]])


def _without_modes(token: Token, written: str, session: Session) -> str:
    if written.startswith('"') and session.has_ansi_quotes:
        return "`" + token.text.replace("`", "``") + "`"
    return "FLOAT" if session.has_real_as_float and written.upper() == "REAL" else written


def _effect(words: list[str]) -> Effect:
    heads = [word.upper() for word in words[:8]]
    if not heads or heads[0] in _HARMLESS or _switches_keys(words):
        return Effect.NONE
    return _VERBS.get(heads[0]) or _effect_on_objects(heads[0], heads[1:])


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


def _switches_keys(words: list[str]) -> bool:
    """ALTER TABLE name ENABLE (or DISABLE) KEYS and nothing else, as mysqldump has it around every table's rows."""
    heads = [word.upper() for word in words]
    named_alone = len(words) == 5 or (len(words) == 7 and words[3] == ".")
    return (
        heads[:2] == ["ALTER", "TABLE"] and named_alone and heads[-1] == "KEYS" and heads[-2] in ("ENABLE", "DISABLE")
    )


def _carried_out(words: list[str]) -> list[str]:
    """The words of the statement that is carried out: MariaDB's SET STATEMENT and ANALYZE have one inside."""
    heads = [word.upper() for word in words]
    if heads[:2] == ["SET", "STATEMENT"] and "FOR" in heads:
        return _carried_out(words[heads.index("FOR") + 1 :])
    if heads[:1] == ["ANALYZE"] and not set(heads[1:3]) & {"TABLE", "TABLES"}:
        return next((words[at:] for at, head in enumerate(heads) if head in _ROWS), words)
    return words


def _last_name(words: list[str]) -> list[str]:
    return [word.casefold() for word in words if word != ";"][-1:]


def _words(text: str) -> list[str]:
    """The statement's tokens without quotes; what the tokenizer swallows whole is cut again."""
    try:
        tokens = [token.text for token in sqlglot.tokenize(text, read="mysql")]
    except SqlglotError:
        return re.findall(r"[\w$]+", text)
    swallowed = tokens[1:] if len(tokens) == 2 and " " in tokens[-1] else []
    return tokens if not swallowed else [tokens[0], *_words(swallowed[0])]


def _spelled(name: str) -> set[str]:
    return set(re.findall(r"[\w$]+", name.casefold()))


def _tables(text: str, database: str) -> frozenset[tuple[str, str]] | None:
    """The tables that a statement names; None where it cannot be parsed whole."""
    try:
        parsed = sqlglot.parse_one(text, read="mysql")
    except SqlglotError:
        return None
    if isinstance(parsed, exp.Command):
        return None
    named = parsed.this if isinstance(parsed, exp.Insert) else parsed  # an INSERT reads the other tables it names
    found = ((table.db or database, table.name) for table in named.find_all(exp.Table))
    return frozenset((schema.casefold(), table.casefold()) for schema, table in found)
