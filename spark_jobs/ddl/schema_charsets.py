"""The character set that a schema gives to the tables which are created in it without one.

Source: MySQL manual, "CREATE DATABASE Statement", "ALTER DATABASE Statement"; MariaDB has the same options.

Put here: reading it off statements, and columns that take it. Not here: when a table is created (schema/tracker.py).
"""

from dataclasses import dataclass, replace

from spark_jobs.binlog import TableDefinition
from spark_jobs.ddl.classify import Statement
from spark_jobs.ddl.columns import Word, column_in_charset, words_of
from spark_jobs.errors import DecodeError, Unsupported


@dataclass(frozen=True, slots=True)
class SchemaCharset:
    """Character set that a statement gives a schema. charset: None for the server's default, which no statement tells.

    if_missing: IF NOT EXISTS is in it: a schema that is there stays as it is.
    """

    schema: str
    charset: str | None
    if_missing: bool = False


def schema_charset(statement: Statement, database: str) -> SchemaCharset | None:
    """Character set in CREATE DATABASE and ALTER DATABASE; None for others, and for an ALTER of other options alone."""
    if statement.verb.split(" ")[0] not in ("CREATE", "ALTER"):
        return None
    try:
        words = words_of(statement.plain)
    except (DecodeError, IndexError):
        return None
    # CREATE OR REPLACE DATABASE is MariaDB's; an ALTER without a name is of the default schema.
    at = next((at for at, word in enumerate(words[:4]) if word.among("DATABASE", "SCHEMA")), None)
    if at is None or any(not word.among("OR", "REPLACE") for word in words[1:at]):
        return None
    rest = words[at + 1 :]
    if_missing = len(rest) > 2 and rest[0].among("IF") and rest[1].among("NOT")
    rest = rest[3:] if if_missing else rest
    is_named = bool(rest) and not _begins_options(rest)
    charset, is_there = _option_charset(rest[1:] if is_named else rest)
    if words[0].among("ALTER") and not is_there:
        return None
    return SchemaCharset(rest[0].text if is_named else database, charset, if_missing)


def _begins_options(words: list[Word]) -> bool:
    """True if options begin here and no name: names may be words of options where nothing follows them."""
    return words[0].kind == "word" and words[0].among("DEFAULT", "CHARACTER", "CHARSET", "COLLATE") and len(words) > 1


_NOT_OF_TEXT = ("default", "binary")
"""The server's own; and what makes other types of text types."""


def _option_charset(words: list[Word]) -> tuple[str | None, bool]:
    """The character set among options, and whether one of them is about it."""
    charset, is_there = None, False
    for at, word in enumerate(words):
        if word.among("CHARSET") or (word.among("SET") and at and words[at - 1].among("CHARACTER")):
            value = _option_value(words, at)
            charset, is_there = value, True
        elif word.among("COLLATE") and not is_there:
            collation = _option_value(words, at)
            charset, is_there = collation and collation.partition("_")[0], True
    return (None if charset in _NOT_OF_TEXT else charset), is_there


def _option_value(words: list[Word], at: int) -> str | None:
    values = [word.text.lower() for word in words[at + 1 : at + 3] if not word.among("=")]
    return values[0] if values else None


def with_charset(definition: TableDefinition, charset: str | None) -> TableDefinition:
    """The definition with a character set for text that names none; as it is where that is not known."""
    if charset is None:
        return definition
    try:
        columns = tuple(
            column_in_charset(column, charset) if column.charset is None and column.type.is_character else column
            for column in definition.columns
        )
    except Unsupported:  # a character set of a later server
        return definition
    return replace(definition, columns=columns)
