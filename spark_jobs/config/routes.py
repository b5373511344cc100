"""Targets of the rows of a source table: routes with captures, and which tables are of several source tables.

A route leads a table to one downstream table or to several, each by a leg of its own. What several source tables do in
one downstream table is asked of legs, so that it does not matter whether they meet by one route or by two.

Put here: what ``routes:`` means, by names alone. Not here: how it is written in pipeline.yaml (model.py), or how
several source tables are kept in one (downstream/multi_source.py).

A ``to`` may name what ``from`` stood for: ``{1}``, ``{2}``, … its ``*`` and ``?`` in order, counted over both parts,
``{schema}``, ``{table}`` and ``{source}`` the names themselves; ``{{`` and ``}}`` are braces. Each ``*`` takes as much
as it can, from the left. Debezium's ByLogicalTableRouter and canal have regular expressions for it; the patterns of
``tables:`` are globs, and so are these.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from spark_jobs.config.modes import MIRRORS, Mode, Modes
from spark_jobs.config.table_patterns import Pattern
from spark_jobs.errors import ConfigError

Name = tuple[str, str]
"""Schema and table."""

_FIELD = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_WILD = re.compile(r"[*?]")


@dataclass(frozen=True)
class Destination:
    """A downstream table. is_merged: several source tables may meet there, and columns say whose each row is.

    is_shared: of these, equal keys are one row. mode: what it keeps of changes. has_feed: whether Delta's change data
    feed is on.
    """

    schema: str
    table: str
    is_merged: bool = False
    is_shared: bool = False
    mode: Mode = Mode.MIRROR
    has_feed: bool = False

    @property
    def name(self) -> Name:
        return self.schema, self.table

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True)
class Leg:
    """A route's way to one of its targets: rows of the tables that match ``tables`` go to ``to``."""

    tables: Pattern
    to: Pattern
    sources: tuple[str, ...] = ()
    is_shared: bool = False

    def is_about(self, source: str) -> bool:
        return not self.sources or any(Pattern(pattern, "").matches(source, "") for pattern in self.sources)

    def target(self, source: str, schema: str, table: str) -> Name:
        """Target of a table that it takes."""
        match = self._compiled_pattern.fullmatch(f"{schema}\0{table}")
        assert match is not None
        values = {"source": source, "schema": schema, "table": table}
        values |= {str(nth): text for nth, text in enumerate(match.groups(), 1)}
        return _filled_template(self.to.schema, values.__getitem__), _filled_template(self.to.table, values.__getitem__)

    @cached_property
    def targets(self) -> Pattern:
        """A pattern of all the tables that it may lead to."""
        alone = self.sources[0] if len(self.sources) == 1 else "*"
        plain = {"schema": self.tables.schema, "table": self.tables.table, "source": alone}
        schema, table = (
            _filled_template(part, lambda name: plain.get(name, "*")) for part in (self.to.schema, self.to.table)
        )
        return Pattern(schema, table)

    def is_same(self, other: "Leg") -> bool:
        """True if both lead each table to the same one, be it by other words for its name."""
        is_one = not any(map(_WILD.search, (other.targets.schema, other.targets.table)))
        return self.to == other.to or (is_one and self.targets == other.targets)

    @property
    def is_merging(self) -> bool:
        """True if it leads several tables to one: a part of their names, or the source's, is not in the target's."""
        fields, (in_schema, in_table) = self._fields_used, self._wild
        covered = {int(field) for field in fields if field.isdecimal()}
        covered |= set(range(1, in_schema + 1)) if "schema" in fields else set()
        covered |= set(range(in_schema + 1, in_schema + in_table + 1)) if "table" in fields else set()
        of_several = len(self.sources) > 1 or any(map(_WILD.search, self.sources))
        return len(covered) < in_schema + in_table or (of_several and "source" not in fields)

    @property
    def problem(self) -> str | None:
        """Problem of the target; None without one."""
        count = sum(self._wild)
        fields = {"source", "schema", "table", *map(str, range(1, count + 1))}
        wrong = sorted(self._fields_used - fields)
        if not wrong:
            return None
        stars = f"{count} of * and ?" if count else "neither * nor ?"
        if wrong[0] in ("{", "}"):
            return f"a single {wrong[0]}; {{1}} is what the first * or ? of from stands for, and {{{{ is a brace"
        return f"{{{wrong[0]}}} stands for nothing: from has {stars}; there are {{source}}, {{schema}}, {{table}} too"

    @property
    def _fields_used(self) -> set[str]:
        fields = (match for part in (self.to.schema, self.to.table) for match in _FIELD.finditer(part))
        return {match[0] if match[1] is None else match[1] for match in fields} - {"{{", "}}"}

    @property
    def _wild(self) -> tuple[int, int]:
        return len(_WILD.findall(self.tables.schema)), len(_WILD.findall(self.tables.table))

    @cached_property
    def _compiled_pattern(self) -> re.Pattern[str]:
        special = {"*": "([^\0]*)", "?": "([^\0])"}
        parts = (
            "".join(special.get(c) or re.escape(c) for c in part) for part in (self.tables.schema, self.tables.table)
        )
        return re.compile("\0".join(parts), re.DOTALL)


@dataclass(frozen=True)
class Route:
    """Rows of the tables that match ``tables``, of the sources that match ``sources``, go to each table of ``to``.

    sources: patterns; none means all, and does not mean that tables of several are to meet. is_shared: equal keys of
    the tables that meet are one row.
    """

    tables: Pattern
    to: tuple[Pattern, ...]
    sources: tuple[str, ...] = ()
    is_shared: bool = False

    @cached_property
    def legs(self) -> tuple[Leg, ...]:
        """Legs in the order of ``to``."""
        return tuple(Leg(self.tables, pattern, self.sources, self.is_shared) for pattern in self.to)

    def takes(self, source: str, schema: str, table: str) -> bool:
        return self.tables.matches(schema, table) and self.legs[0].is_about(source)

    def overlaps(self, other: "Route") -> bool:
        """True if some table of some source matches both."""
        is_same = not self.sources or not other.sources
        pairs = ((Pattern(source, ""), Pattern(two, "")) for source in self.sources for two in other.sources)
        return (is_same or any(pattern.meets(two) for pattern, two in pairs)) and self.tables.meets(other.tables)


@dataclass(frozen=True)
class Routes:
    """All routes of a pipeline, and the modes of the tables that they lead to."""

    routes: tuple[Route, ...] = ()
    modes: Modes = MIRRORS

    def of(self, source: str, schema: str, table: str) -> tuple[Destination, ...]:
        """The downstream tables of a source table, each once: its route's in order, or that of its own name.

        Raises ConfigError where two routes are about it.
        """
        routes = [route for route in self.routes if route.takes(source, schema, table)]
        if len(routes) > 1:
            raise ConfigError(f"{schema}.{table} matches {len(routes)} routes; {_AT_MOST_ONE}")
        legs = routes[0].legs if routes else ()
        names = dict.fromkeys(leg.target(source, schema, table) for leg in legs) or {(schema, table): None}
        return tuple(self._destination(into, is_shared=any(route.is_shared for route in routes)) for into in names)

    def _destination(self, into: Name, *, is_shared: bool) -> Destination:
        is_merged = any(leg.targets.matches(*into) for leg in self._merging)
        return Destination(*into, is_merged, is_merged and is_shared, self.modes.of(*into), self.modes.has_feed(*into))

    def shares(self, source: str) -> bool:
        """True if tables of a source may have keys in common with others."""
        return any(leg.is_shared and leg.is_about(source) for leg in self._legs)

    def is_shared_by(self, source: str, into: Name) -> bool:
        """True if tables of a source may go to a downstream table, where equal keys are one row."""
        return any(leg.is_shared and leg.is_about(source) and leg.targets.matches(*into) for leg in self._legs)

    def leads_alone(self, leg: Leg) -> bool:
        """True if no two source tables can meet where a leg leads."""
        return leg not in self._merging

    @property
    def merged(self) -> list[Pattern]:
        """Patterns of the tables in which several source tables may meet."""
        return [leg.targets for leg in self._merging if not leg.problem]

    @cached_property
    def _legs(self) -> tuple[Leg, ...]:
        return tuple(leg for route in self.routes for leg in route.legs)

    @cached_property
    def _merging(self) -> tuple[Leg, ...]:
        """The legs to tables of several: by themselves, or because another one's tables may go there too."""
        meeting = {
            leg for pair in combinations(self._legs, 2) if pair[0].targets.meets(pair[1].targets) for leg in pair
        }
        return tuple(leg for leg in self._legs if leg.is_merging or leg in meeting)


_AT_MOST_ONE = "a table has at most one route, which may list several targets: to: [a.t, b.t]"


def problems_of_routes(routes: Mapping[str, Route], sources: Sequence[str]) -> dict[str, str]:
    """Problems of routes, of which each is valid by itself, by the path of their key. sources: all names."""
    # Each route by itself, then against those before it: a table may match one route only.
    problems: dict[str, str] = {}
    together = Routes(tuple(routes.values()))
    for at, (key, route) in enumerate(routes.items()):
        problems |= dict(_problems_of_targets(key, route))
        for nth, pattern in enumerate(route.sources):
            if not any(Pattern(pattern, "").matches(name, "") for name in sources):
                problems[f"{key}.sources[{nth}]"] = f"no source is called {pattern}"
        for earlier, route_before in list(routes.items())[:at]:
            if route.overlaps(route_before):
                problems[f"{key}.from"] = f"a table can match {earlier}.from too; {_AT_MOST_ONE}"
            if route.is_shared != route_before.is_shared and _meet(route, route_before):
                problems[f"{key}.keys"] = f"{earlier} may lead to the same table, and says otherwise of its keys"
        if route.is_shared and any(not leg.problem and together.leads_alone(leg) for leg in route.legs):
            problems[f"{key}.keys"] = (
                "shared is about tables of several, and by routes: each of these is of one source table; say which "
                'sources: meet there, as ["*"], or leave a * of from out of to'
            )
    return problems


def _problems_of_targets(key: str, route: Route) -> Iterator[tuple[str, str]]:
    for nth, leg in enumerate(route.legs):
        path = f"{key}.to[{nth}]" if len(route.to) > 1 else f"{key}.to"
        if leg.problem:
            yield path, leg.problem
            continue
        first = next(at for at, leg_before in enumerate(route.legs) if leg_before.is_same(leg))
        if first < nth:
            yield path, f"is {key}.to[{first}] once more; a table goes to another once"


def _meet(route: Route, route_before: Route) -> bool:
    return any(leg.targets.meets(further.targets) for leg in route.legs for further in route_before.legs)


def _filled_template(template: str, value: Callable[[str], str]) -> str:
    def fill(match: re.Match[str]) -> str:
        return match[0][0] if match[1] is None else value(match[1])

    return _FIELD.sub(fill, template)
