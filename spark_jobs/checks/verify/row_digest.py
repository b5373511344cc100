"""SQL of a key's text and of a row's digest, which both sides of a comparison compute from a table's columns.

Put here: putting the forms of columns together, and taking a key's text apart. Not here: what a column's form is
(value_text.py), asking the two sides (server_rows.py, lake_rows.py).

A row's text is its columns' texts one after the other, its digest 60 bits of that text's SHA-256, which all servers and
Spark have (MySQL has no MD5 as of 9.6). Only rows that are suspected to differ are asked for it; which these are is
found by hashes (bucket_sums.py).
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_jobs.binlog import TableName
from spark_jobs.checks.verify.value_text import Form, form_of
from spark_jobs.downstream.merge_job import ADDED
from spark_jobs.errors import TableStopped, Unsupported
from spark_jobs.text.sql import identifier, literal

_LONG = 65_536
"""Bytes of a value up to which it is read as a whole when its row differs: thousands of rows may."""
_BRIEF = " bytes, SHA-256 "
_BRIEFLY = re.compile(rb"\d+ bytes, SHA-256 [0-9a-f]{64}")
DIGITS = 15
"""Hexadecimal digits of a SHA-256 that make a digest: what fits a BIGINT with its sign."""


@dataclass(frozen=True, slots=True)
class DigestColumn:
    """A column of the server's table, and how its values become text."""

    name: str
    form: Form
    lake_type: str
    """Spark's type in the lake."""

    @property
    def server(self) -> str:
        """MySQL's SQL of the text; NULL where the value is."""
        return _filled(self.form.server, self.name)

    @property
    def extra_value(self) -> str | None:
        return self.form.extra_value and _filled(self.form.extra_value, self.name)

    @property
    def lake(self) -> str:
        """Spark's SQL of the text, a STRING or BINARY."""
        return _filled(self.form.lake, self.name)

    @property
    def server_value(self) -> str:
        """MySQL's SQL of the text as it is read of single rows, a BINARY: of a very long one length and SHA-256."""
        text = self.server
        if self.form.long:
            brief = f"CONCAT(OCTET_LENGTH({text}), '{_BRIEF}', SHA2({text}, 256))"
            text = f"IF(OCTET_LENGTH({text}) > {_LONG}, {brief}, {text})"
        return f"CAST({text} AS BINARY)"

    @property
    def lake_value(self) -> str:
        """The same in Spark's SQL."""
        text = f"cast({self.lake} AS BINARY)"
        if not self.form.long:
            return text
        brief = f"cast(concat(cast(octet_length({text}) AS STRING), '{_BRIEF}', sha2({text}, 256)) AS BINARY)"
        return f"if(octet_length({text}) > {_LONG}, {brief}, {text})"

    def display(self, text: bytes | None) -> str | None:
        """A value for people."""
        if text is None:
            return None
        return text.decode() if self.form.long and _BRIEFLY.fullmatch(text) else self.form.display(text)

    def server_part(self, *, in_full: bool) -> str:
        """Argument of CONCAT for it; ``in_full``: a long value too, and not its SHA-256."""
        if self.form.counted and (in_full or not self.form.long):
            return f"COALESCE(CONCAT(OCTET_LENGTH({self.server}), ':', {self.server}), '-')"
        return f"COALESCE({self._short(self.server)}, ''), ','"

    def lake_part(self, *, in_full: bool) -> str:
        """The same, a BINARY."""
        if self.form.counted and (in_full or not self.form.long):
            head = f"cast(concat(cast(octet_length({self.lake}) AS STRING), ':') AS BINARY)"
            return f"coalesce(concat({head}, {self.lake}), cast('-' AS BINARY))"
        return f"cast(concat(coalesce({self._short(self.lake)}, ''), ',') AS BINARY)"

    def _short(self, sql: str) -> str:
        return f"SHA2({sql}, 256)" if self.form.long else sql


def _filled(form: str, name: str) -> str:
    """The SQL of a form over a column, whose name may look like a field of it."""
    fields = {"c": identifier(name), "raw": f"try_element_at(_raw, {literal(name)})"}
    return re.sub(r"\{(c|raw)\}", lambda match: fields[match[1]], form)


@dataclass(frozen=True, slots=True)
class DigestLayout:
    """A source table's columns in their order, and which of them are the key by which its rows are identified."""

    schema: str
    table: str
    columns: tuple[DigestColumn, ...]
    key: tuple[DigestColumn, ...]

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"

    @property
    def server_name(self) -> str:
        return f"{identifier(self.schema)}.{identifier(self.table)}"

    @property
    def server_key(self) -> str:
        return f"CAST(CONCAT({', '.join(column.server_part(in_full=True) for column in self.key)}) AS BINARY)"

    @property
    def lake_key(self) -> str:
        return f"concat({', '.join(column.lake_part(in_full=True) for column in self.key)})"

    @property
    def server_digest(self) -> str:
        text = f"CONCAT({', '.join(column.server_part(in_full=False) for column in self.columns)})"
        return f"CAST(CONV(SUBSTR(SHA2({text}, 256), 1, {DIGITS}), 16, 10) AS UNSIGNED)"

    @property
    def lake_digest(self) -> str:
        text = f"concat({', '.join(column.lake_part(in_full=False) for column in self.columns)})"
        return f"cast(conv(substring(sha2({text}, 256), 1, {DIGITS}), 16, 10) AS BIGINT)"

    def key_values(self, key: bytes) -> list[bytes]:
        """The texts of a key's columns, out of the text of the key."""
        return list(_taken_apart(key, [column.form.counted for column in self.key]))

    def shown_key(self, key: bytes) -> dict[str, str]:
        """A key for people: the values by column."""
        pairs = zip(self.key, self.key_values(key), strict=True)
        return {column.name: column.form.display(text) for column, text in pairs}

    def condition_for(self, keys: Sequence[bytes]) -> str:
        """MySQL's SQL that finds rows of keys by the index: as the collation compares, so it may find more."""
        conditions = []
        for key in keys:
            pairs = zip(self.key, self.key_values(key), strict=True)
            conditions.append(
                " AND ".join(f"{identifier(column.name)} = {column.form.literal(text)}" for column, text in pairs)
            )
        return " OR ".join(f"({condition})" for condition in conditions)


def _taken_apart(text: bytes, counted: Sequence[bool]) -> Iterator[bytes]:
    at = 0
    for is_counted in counted:
        if is_counted:
            colon = text.index(b":", at)
            at, stop = colon + 1, colon + 1 + int(text[at:colon])
            yield text[at:stop]
            at = stop
        else:
            stop = text.index(b",", at)
            yield text[at:stop]
            at = stop + 1


def layout(
    name: TableName,
    listed: Sequence[Mapping[str, Any]],
    lake: Mapping[str, str],
    key: Sequence[str],
    unknown: Collection[str] = (),
) -> DigestLayout:
    """The layout of a server's table, of its rows of information_schema.COLUMNS in order.

    lake: names and types of the downstream table's columns. key: names of the columns that tell rows apart, as the lake
    has them; none where rows have no key. unknown: columns that are not compared. Raises TableStopped where the columns
    differ, and for a type that is not compared.
    """
    table_columns = [name for name in lake if name not in ADDED]
    names = [row["name"] for row in listed]
    if names != table_columns:
        raise TableStopped(f"the server's columns are {', '.join(names)}, the lake's {', '.join(table_columns)}")
    columns = tuple(_digest_column(row, lake[row["name"]]) for row in listed if row["name"] not in unknown)
    by_name = {column.name: column for column in columns}
    return DigestLayout(
        name.schema, name.table, columns, tuple(by_name[name] for name in key) if set(key) <= by_name.keys() else ()
    )


def _digest_column(row: Mapping[str, Any], lake_type: str) -> DigestColumn:
    name = row["name"]
    try:
        form = form_of(row)
    except Unsupported as error:
        raise TableStopped(f"column {name}: {error}") from error
    if not re.fullmatch(form.types, lake_type):
        raise TableStopped(f"column {name} is {row['declared']} at the server and {lake_type} in the lake")
    return DigestColumn(name, form, lake_type)
