"""The character set, or collation, that a schema gives to the tables which are created in it without one.

Source: MySQL manual, "CREATE DATABASE Statement", "ALTER DATABASE Statement"; MariaDB has the same options.

Put here: reading it off statements, and columns that take it. Not here: when a table is created (schema/tracker.py).
"""

import re
from dataclasses import dataclass, replace

from spark_jobs.binlog import TableDefinition
from spark_jobs.ddl.classify import Statement
from spark_jobs.ddl.columns import Word, column_in_charset, words_of
from spark_jobs.ddl.parse_alter import default_charset
from spark_jobs.errors import DecodeError, Unsupported


@dataclass(frozen=True, slots=True)
class SchemaCharset:
    """Character set that a statement gives a schema, or a collation of one.

    charset: None for the server's default, which no statement tells.
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
    options = rest[1:] if is_named else rest
    if words[0].among("ALTER") and not any(word.among("CHARACTER", "CHARSET", "COLLATE") for word in options):
        return None
    charset = default_charset(options)
    charset = None if charset in _NOT_OF_TEXT else charset
    return SchemaCharset(rest[0].text if is_named else database, charset, if_missing)


def _begins_options(words: list[Word]) -> bool:
    """True if options begin here and no name: names may be words of options where nothing follows them."""
    return words[0].kind == "word" and words[0].among("DEFAULT", "CHARACTER", "CHARSET", "COLLATE") and len(words) > 1


_NOT_OF_TEXT = ("binary",)
"""Character sets that make other types of text types."""
_OWN_COLLATION = re.compile(r"\b(BINARY|uca1400_\w+)\b", re.IGNORECASE)


def with_charset(definition: TableDefinition, charset: str | None, text: str) -> TableDefinition:
    """The definition with a character set for text that names none; as it is where that is not known.

    text: the statement that makes it. Where it may give a column another collation of the schema's character set, as
    BINARY does, the character set alone counts.
    """
    if charset is None:
        return definition
    charset = charset.partition("_")[0] if _OWN_COLLATION.search(text) else charset
    try:
        columns = tuple(
            column_in_charset(column, charset) if column.charset is None and column.type.is_character else column
            for column in definition.columns
        )
    except Unsupported:  # a character set of a later server
        return definition
    return replace(definition, columns=columns)
