"""The pipeline.yaml that ``stratalog init`` writes: commented, and valid as it is.

Put here: its text. Not here: what a server answers (start.py), or the keys (config/model.py).
Values that are not plain words are written as JSON strings, which YAML reads as they are; a password is the name of a
variable alone.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from textwrap import wrap

from spark_jobs.text.disclosure import printable


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema that a server shows: how many tables it has, and about how many bytes."""

    name: str
    tables: int
    size: int


@dataclass(frozen=True, slots=True)
class Starter:
    """Content of a new pipeline.yaml. schemas, remarks: by a server that was asked; None and empty without one."""

    source: str
    lake: str
    host: str = "db.internal"
    port: int = 3306
    user: str = "repl"
    variable: str = "SHOP_PASSWORD"
    files: str | None = None
    schemas: Sequence[Schema] | None = None
    remarks: Sequence[str] = field(default_factory=tuple)

    def text(self) -> str:
        """The file."""
        parts = [_HEAD, self._lake(), self._source(), self._tables_section(), _REST]
        return "\n".join(part for part in parts if part)

    def _lake(self) -> str:
        return (
            "# Where the Delta tables are written: a local path, or s3a://bucket/prefix "
            "(stratalog docs object-stores).\n"
            f"lake: {_scalar(self.lake)}\n"
        )

    def _source(self) -> str:
        lines = ["# The logs that are read, by a name of your choice, which becomes a part of paths.", "sources:"]
        lines.append(f"  {_scalar(self.source)}:")
        # A folder is the whole of it; a server has an address, and remarks by what it answered.
        if self.files is not None:
            lines += [
                "    # A folder of binlog files, with or without their .index.",
                f"    files: {_scalar(self.files)}",
                "    # Names columns that the log does not: what mysqldump --no-data writes.",
                "    # schema_dump: schema.sql",
            ]
            return "\n".join([*lines, ""])
        lines += [f"    # {line}" for remark in self.remarks for line in wrap(printable(remark), 110)]
        lines += [
            "    mysql:",
            f"      host: {_scalar(self.host)}",
            f"      port: {self.port}",
            f"      user: {_scalar(self.user)}",
            "      # Read from the environment; never write a password here.",
            f'      password: "${{{self.variable}}}"',
            "      # tls: {verify: true}",
            "    # earliest, latest, a position (mysql-bin.000042:4), a GTID set, or a time.",
            "    start: earliest",
            "",
        ]
        return "\n".join(lines)

    def _tables_section(self) -> str:
        lines = ["# The tables that are replicated, in order; ! excludes, the last match wins. Default: all."]
        if not self.schemas:
            return "\n".join([*lines, '# tables: ["shop.*", "!shop.audit_*"]', ""])
        width = max(len(_pattern(schema.name)) for schema in self.schemas)
        lines.append("tables:")
        for schema in self.schemas:
            count = f"{schema.tables} table{'' if schema.tables == 1 else 's'}, {_megabytes(schema.size)}"
            lines.append(f"  - {_pattern(schema.name):<{width}}  # {count}")
        return "\n".join([*lines, ""])


_PLAIN = re.compile(r"[A-Za-z./][\w./-]*")
_WORDS = ("true", "false", "null", "yes", "no", "on", "off", "y", "n", ".inf", ".nan", ".")


def _scalar(text: str) -> str:
    """A text as YAML reads it back, in quotes where it has to be."""
    is_plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
    return text if is_plain else json.dumps(text, ensure_ascii=False)


def _pattern(schema: str) -> str:
    """A pattern of all tables of a schema; signs that patterns or back-ticks would take otherwise are any one."""
    if not re.search(r"[^\w$-]", schema):
        return json.dumps(f"{schema}.*", ensure_ascii=False)
    readable = re.sub(r"[^\w$ .-]", "?", schema)
    return json.dumps(f"`{readable}`.*", ensure_ascii=False)


def _megabytes(size: int) -> str:
    return f"about {max(size / 1e6, 0.1):,.1f} MB"


_HEAD = """\
# Written by stratalog init. All keys: stratalog docs reference/configuration.
#   stratalog check -c pipeline.yaml --connect    what the server still needs
#   stratalog run -c pipeline.yaml                the log into the lake
#   stratalog load -c pipeline.yaml               rows that are older than the log
"""
_REST = """\
# What follows is optional: take the "# " away from the lines that you need.

# Downstream tables that keep more than the source's current rows (stratalog docs downstream-modes).
# downstream:
#   - {tables: "shop.prices", mode: history}
#   - {tables: "shop.orders", mode: soft_delete}

# A warning, and exit status 1 of stratalog status, where bronze is further behind.
# max_lag: 1h
# The same where a table was not compared with the server (stratalog verify) for so long.
# max_verify_age: 7d

# How long the log is kept in bronze, and a warning where the source has less left before what is to be read.
# retention:
#   bronze: 30d
#   margin: 12h

# Where Spark runs; by default in this process.
# spark:
#   master: local[*]
#   conf: {spark.driver.memory: 4g}
"""
