"""Redaction of a source: tables whose rows never enter bronze, and what is refused beside that.

Put here: the rule that pipeline.yaml's ``redact:`` means. Not here: how events are blanked
(binlog/events/redaction.py).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from spark_jobs.binlog import NOT_JUDGED
from spark_jobs.config.table_patterns import TOOLS, Helpers, Scope
from spark_jobs.ddl.classify import classify

_EMPTIES = re.compile(
    r"(?:/\*.*?\*/|\s)*DELETE\s+FROM\s+(?:`(?:[^`]|``)+`|[^\s`.]+)(?:\.(?:`(?:[^`]|``)+`|[^\s`.]+))?\s*;?\s*(?:/\*.*?\*/)?\s*",
    re.IGNORECASE,
)
"""Statement that a server logs of a MEMORY table that it finds empty after a start: DELETE of all rows, without a
value."""


@dataclass(frozen=True)
class Redaction:
    """Patterns of tables whose rows are redacted; the helper tables of online migrations of them are among these."""

    tables: Scope

    @classmethod
    def of(cls, patterns: Sequence[str]) -> Self | None:
        """Patterns as pipeline.yaml has them; None where there are none."""
        return cls(Scope.parse(patterns)) if patterns else None

    def holds(self, schema: str, table: str) -> bool:
        """True if rows of a table are redacted."""
        changed = _TOOLS.of(schema, table)
        return self.tables.holds(schema, table) or (changed is not None and self.tables.holds(schema, changed[1]))

    def refusal(self, text: str, database: str) -> str | None:
        """Reason why a statement cannot be kept beside that; None where it holds no rows."""
        statement = classify(text, database)
        if not statement.writes_rows or _EMPTIES.fullmatch(text):
            return None
        return f"{statement.verb.split()[0]} in statement format: {NOT_JUDGED}"


_TOOLS = Helpers(tuple(TOOLS))
