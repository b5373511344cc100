"""Privileges of a user by SHOW GRANTS.

Put here: asking for it, and reading its lines. Not here: which privileges are needed (server.py).
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from spark_jobs.config.table_patterns import Pattern
from spark_jobs.text.sql import account

_PART = r"`(?:[^`]|``)*`|\*"
_GRANT = re.compile(rf"GRANT (.+?) ON (?:TABLE )?({_PART})\.({_PART}) TO ", re.IGNORECASE | re.DOTALL)
_COLUMNS = re.compile(r"\([^)]*\)")
_EVERYTHING = ("ALL", "ALL PRIVILEGES")
_WILD = {r"\_": "_", r"\%": "%", "%": "*", "_": "?"}


@dataclass(frozen=True, slots=True)
class Grants:
    """Privileges, and the tables that each is about."""

    lines: tuple[tuple[frozenset[str], Pattern], ...]

    @classmethod
    def parse(cls, lines: Iterable[str]) -> Self:
        """Parse the lines of SHOW GRANTS; those about routines, proxies and roles are ignored."""
        matched = (match for match in map(_GRANT.match, lines) if match)
        return cls(
            tuple((_privileges(match[1]), Pattern(_schema(match[2]), _grant_table(match[3]))) for match in matched)
        )

    def on_server(self, *names: str) -> bool:
        """True if one of these privileges is held on everything."""
        return Pattern("*", "*") in self.of(*names)

    def of(self, *names: str) -> list[Pattern]:
        """The tables on which one of these privileges is held."""
        sufficient = {*names, *_EVERYTHING}
        return [pattern for privileges, pattern in self.lines if privileges & sufficient]


def _privileges(listed: str) -> frozenset[str]:
    return frozenset(" ".join(name.upper().split()) for name in _COLUMNS.sub("", listed).split(","))


def _schema(part: str) -> str:
    """A schema in a grant is a pattern of LIKE."""
    if part == "*":
        return part
    return re.sub(r"\\_|\\%|%|_", lambda match: _WILD[match[0]], _grant_table(part))


def _grant_table(part: str) -> str:
    return part if part == "*" else part[1:-1].replace("``", "`")


Ask = Callable[[str], Sequence[Mapping[str, Any]]]
"""Query function: a statement to its rows, by column."""


def current_grants(ask: Ask, *, has_roles: bool) -> Grants:
    """The privileges of the connection's user, with those of its active roles. Raises what ``ask`` raises."""
    rows = ask("SHOW GRANTS")
    if has_roles and (roles := _single_value(ask("SELECT CURRENT_ROLE()")[0])) != "NONE":
        rows = ask(f"SHOW GRANTS FOR CURRENT_USER() USING {roles}")
    return Grants.parse(map(_single_value, rows))


def current_account(ask: Ask) -> str:
    """The connection's user as statements name it: ``'repl'@'%'``. Raises what ``ask`` raises."""
    return account(_single_value(ask("SELECT CURRENT_USER()")[0]))


def _single_value(row: Mapping[str, Any]) -> str:
    """A row's only one."""
    return str(next(iter(row.values())))
