"""Names and texts as SQL: the only place where either is quoted.

What comes from a source (names, defaults, labels, values) or from a configuration (masks, filters) reaches Spark as
data wherever that is possible. Where it has to stand in a statement, it is written by these functions, so that it means
itself whatever characters it has: quotes, backslashes, backticks, braces, comments, line ends, ``${…}``.

Spark's sessions are set to read these texts as they are meant (``session.AS_WRITTEN``). Put here: quoting. Not here:
statements.
"""

import re
from collections.abc import Mapping

LITERAL = r"'(?:[^'\\]|\\[\s\S])*'"
"""A regular expression of a string literal as ``literal`` writes it, without groups."""
_ESCAPED = re.compile(r"\\(u0024|[\s\S])")


def identifier(name: str) -> str:
    """A name as Spark and servers read it in any statement: in backticks, those of its own doubled."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A text as a string literal of Spark.

    ``${`` is written so that a session that replaces variables, as a program of somebody else may have, finds none.
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{")
    return f"'{escaped}'"


def standard_literal(text: str) -> str:
    """A text as a string literal of standard SQL, which DuckDB reads: no character but the quote is special."""
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def text_of_literal(sql: str) -> str:
    """The text of a string literal that ``literal`` wrote: its inverse."""
    return _ESCAPED.sub(lambda match: "$" if match[1] == "u0024" else match[1], sql[1:-1])


def delta(path: str) -> str:
    """A Delta table by its path, as a table's name in Spark."""
    return f"delta.{identifier(path)}"


def columns(types: Mapping[str, str]) -> str:
    """Names and Spark types, as a schema or as the columns of a statement."""
    return ", ".join(f"{identifier(name)} {kind}" for name, kind in types.items())


def with_rows(before: str, after: str) -> str:
    """A statement for ``session.sql(…, source=rows)`` with the rows between two texts.

    Braces in these, as names may have them, are no fields of it.
    """
    return "{source}".join(text.replace("{", "{{").replace("}", "}}") for text in (before, after))


def server_text(text: str) -> str:
    """A text as a literal of MySQL and MariaDB in UTF-8, whatever the session's character set and ``sql_mode`` are."""
    return f"_utf8mb4 x'{text.encode().hex()}'" if text else "''"


def account(name: str) -> str:
    """An account of CURRENT_USER(), user@host, as statements of a server name it: ``'repl'@'%'``."""
    user, _, host = name.rpartition("@")
    return "@".join("'{}'".format(part.replace("'", "''")) for part in (user, host))


def is_table(schema: str, table: str) -> str:
    """A condition on information_schema of MySQL and MariaDB: rows of exactly this table.

    By bytes, since servers compare names there by a collation to which `ta` and `tä` may be one; by that too, as
    servers open by it no more tables than they must.
    """
    condition = f"TABLE_SCHEMA = {server_text(schema)} AND TABLE_NAME = {server_text(table)}"
    exact = ((column, text.encode().hex()) for column, text in (("TABLE_SCHEMA", schema), ("TABLE_NAME", table)))
    return " AND ".join([condition, *(f"CAST({column} AS BINARY) = x'{digits}'" for column, digits in exact)])
