"""Patterns of table names, the scope of a pipeline, and tables that tools work with.

Put here: rules over table names. Not here: how they are written in pipeline.yaml (model.py), where rows go downstream
(routes.py), or rules over rows.

A pattern is ``schema.table`` where each part may hold ``*`` (any run of characters) and ``?`` (any one). Names compare
case-sensitively, as the servers compare them where files do. A part may stand in back-ticks when it contains a dot.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Self

from spark_jobs.errors import ConfigError

SYSTEM_SCHEMAS = ("mysql", "information_schema", "performance_schema", "sys")

_PART = r"`(?:[^`]|``)+`|[^`.]+"
_PATTERN = re.compile(rf"({_PART})\.({_PART})")


@dataclass(frozen=True)
class Pattern:
    """``shop.orders_*``: one glob for the schema, one for the table."""

    schema: str
    table: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """The pattern that a text like ``shop.orders`` or ``shop.*`` says. Raises ConfigError."""
        match = _PATTERN.fullmatch(text.strip())
        if not match:
            raise ConfigError(f"{text!r} is not a table pattern; write it like shop.orders or shop.*")
        return cls(*(_unquoted(part) for part in match.groups()))

    def matches(self, schema: str, table: str) -> bool:
        return bool(self._compiled.fullmatch(f"{schema}\0{table}"))

    @property
    def is_name(self) -> bool:
        """True if it matches one name alone."""
        return not set(self.schema + self.table) & set("*?")

    def meets(self, other: Self) -> bool:
        """True if some name matches both."""
        return _meet(self.schema, other.schema) and _meet(self.table, other.table)

    def covers(self, other: Self) -> bool:
        """True if every name that matches the other one matches this one."""
        return all(self.matches(_wild(other.schema, run), _wild(other.table, run)) for run in _RUNS)

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile("\0".join(map(_regex, (self.schema, self.table))), re.DOTALL)


TOOLS = {
    "gh-ost": re.compile(r"_(.+?)(?:_\d{14})?_(?:gho|ghc|del)", re.DOTALL),
    "pt-osc": re.compile(r"_{1,10}(.+)_(?:new|old)", re.DOTALL),
}
"""Names of the tables that tools which change tables online work with; the group is the name of the one changed.

Sources: gh-ost, go/base/context.go (``GetGhostTableName``, ``GetOldTableName``, ``GetChangelogTableName``);
percona-toolkit, bin/pt-online-schema-change (``create_new_table``, ``swap_tables``: a _ more where the name is taken).
"""


_COPIES = ("_gho", "_new")
"""Suffixes of the names whose rows are the changed table's in the end."""


@dataclass(frozen=True)
class Helpers:
    """The tables that some ``tools`` work with, by their names, but for those that are ``real``."""

    tools: tuple[str, ...] = ()
    real: tuple[Pattern, ...] = ()

    def of(self, schema: str, table: str) -> tuple[str, str] | None:
        """The tool that the table's name is like, and the table that it would be changing; None for a table's own."""
        if any(pattern.matches(schema, table) for pattern in self.real):
            return None
        matches = ((tool, TOOLS[tool].fullmatch(table)) for tool in self.tools)
        return next(((tool, match[1]) for tool, match in matches if match), None)

    @staticmethod
    def is_copy(table: str) -> bool:
        """True if a table so named, if it is one that a tool works with, is to take the name of the one changed."""
        return table.endswith(_COPIES)


@dataclass(frozen=True)
class Scope:
    """The ordered patterns of ``tables:``; the last one that matches decides.

    helpers: tables that are none of the source's own. One whose very name is among the patterns is.
    """

    rules: tuple[tuple[Pattern, bool], ...] = ()
    helpers: Helpers = Helpers()

    @classmethod
    def parse(cls, texts: Sequence[str]) -> Self:
        """``["shop.*", "!shop.audit_*"]``; an empty list means every table outside the system schemas."""
        return cls(tuple((Pattern.parse(text.removeprefix("!")), not text.startswith("!")) for text in texts))

    def holds(self, schema: str, table: str) -> bool:
        return self._matches(schema, table) and self.why_helper(schema, table) is None

    def may_share(self, other: Self, candidate: Pattern) -> bool:
        """True if a table that matches ``candidate``, a pattern of the other scope, may be in both scopes."""
        patterns = [pattern for pattern, is_wanted in self.rules if is_wanted]
        candidates = patterns or ([] if candidate.schema in SYSTEM_SCHEMAS else [Pattern("*", "*")])
        return any(
            pattern.meets(candidate)
            and not self._excludes(pattern, candidate, behind=pattern)
            and not other._excludes(pattern, candidate, behind=candidate)
            for pattern in candidates
        )

    def _excludes(self, first: Pattern, two: Pattern, behind: Pattern) -> bool:
        """True if a line that excludes, after the last one of a pattern, covers all that two patterns share."""
        indexes = [at for at, (pattern, is_wanted) in enumerate(self.rules) if is_wanted and pattern == behind]
        later = self.rules[indexes[-1] + 1 :] if indexes else self.rules
        return any(not is_wanted and (rule.covers(first) or rule.covers(two)) for rule, is_wanted in later)

    def why_helper(self, schema: str, table: str) -> str | None:
        """Reason why a table that the patterns match is taken for one that a tool works with; None where it is not."""
        helper = self.helpers.of(schema, table)
        if helper is None or not self._matches(schema, table) or not self._matches(schema, helper[1]):
            return None
        if any(is_wanted and pattern.is_name and pattern.matches(schema, table) for pattern, is_wanted in self.rules):
            return None
        return (
            f"taken by its name for a table that {helper[0]} works with to change {schema}.{helper[1]}; if it is one "
            "of your own, list it under online_ddl.real"
        )

    def _matches(self, schema: str, table: str) -> bool:
        only_excludes = not any(is_wanted for _, is_wanted in self.rules)
        verdict = only_excludes and schema not in SYSTEM_SCHEMAS
        for pattern, is_included in self.rules:
            if pattern.matches(schema, table):
                verdict = is_included
        return verdict


def _unquoted(part: str) -> str:
    return part[1:-1].replace("``", "`") if part.startswith("`") else part


def _wild(glob: str, run: int) -> str:
    """A name that stands for those that a glob matches with ``run`` characters for each *: only * and ? spell it."""
    return glob.replace("*", "\x01" * run).replace("?", "\x01")


_RUNS = (0, 1, 2, 65)
"""None, few, and a character more than a server's names have."""


def _regex(glob: str) -> str:
    special = {"*": "[^\0]*", "?": "[^\0]"}
    return "".join(special.get(char) or re.escape(char) for char in glob)


@lru_cache(maxsize=4096)
def _meet(left: str, right: str) -> bool:
    """True if two globs have a name in common."""
    if not left or not right:
        return not (left + right).strip("*")
    if left[0] == "*":
        return _meet(left[1:], right) or _meet(left, right[1:])
    if right[0] == "*":
        return _meet(right, left)
    return (left[0] == right[0] or "?" in (left[0], right[0])) and _meet(left[1:], right[1:])
