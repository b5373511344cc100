"""Timelines of one table for tests: statements and table maps at offsets of a log, and how their steps are shown."""

import re
from collections.abc import Sequence
from dataclasses import replace

from spark_jobs.binlog import Column, Session, TableDefinition, TableName
from spark_jobs.bronze.scan import LoggedStatement, RangeScan, TableExtent
from spark_jobs.config.filters import Action, EventFilter, Filters
from spark_jobs.config.table_patterns import Scope
from spark_jobs.ddl.classify import classify
from spark_jobs.ddl.definitions import with_numbered_columns
from spark_jobs.errors import NamesUnknown
from spark_jobs.log.position import Position, Range
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.table_timeline import DataRange, TableContents, TableState, TimelineStep
from spark_jobs.silver.timeline.build import steps_of
from spark_jobs.silver.timeline.inputs import TimelineInputs

NAME = TableName("shop", "t")


ID, V, NOTE = Column("id", 3, nullable=False), Column("v", 3), Column("note", 15, 80, charset=255)


def at(offset: int) -> Position:
    return Position("b.000001", offset)


def definition(*columns: Column) -> TableDefinition:
    return TableDefinition(NAME, columns, (0,))


OLD = definition(ID, V)


def as_logged(logged: TableDefinition, _: Position | None) -> TableDefinition:
    return logged


def nowhere(_: TableName, parts: Sequence[Range]) -> dict[int, TableDefinition]:
    return {}


def everywhere(_: TableName, parts: Sequence[Range]) -> dict[int, TableDefinition]:
    """Rows of the old definition in every part that is asked for."""
    return dict.fromkeys(range(len(parts)), OLD)


def unknown(name: TableName, until: Position) -> TableContents:
    """A table that the log knows nothing of."""
    return TableContents(name, None, (), TableState(None), until)


RULES = TimelineInputs(as_logged, nowhere, contents=unknown)


OFTEN = TimelineInputs(as_logged, everywhere)


def steps(
    *statements: tuple[int, str],
    maps: tuple[tuple[int, TableDefinition], ...] = ((100, OLD),),
    state: TableState | None = None,
    last: int = 900,
    rules: TimelineInputs = RULES,
    session: Session | None = None,
) -> list[TimelineStep]:
    """The course of shop.t from 10 to 1000; every statement is 10 bytes long."""
    occurrence = (
        TableExtent(at(maps[0][0]), at(last), tuple((at(offset), definition) for offset, definition in maps))
        if maps
        else None
    )
    logged_statements = tuple(
        LoggedStatement(at(offset), classify(text, "shop"), at(offset + 10), "shop", session=session or Session())
        for offset, text in statements
    )
    survey = RangeScan({NAME: occurrence} if occurrence else {}, logged_statements)
    return steps_of(survey, NAME, Range(at(10), at(1000)), state, rules)


def listing(timeline: list[TimelineStep]) -> list[str]:
    """Each step in a few characters: rows by their columns, turns by what they do."""
    texts = []
    for step in timeline:
        definition = step.state.definition
        names = ",".join(definition.column_names()) if definition else "?"
        if isinstance(step, DataRange):
            texts.append(f"{step.range.start.offset}-{step.range.stop.offset} {names}")
        else:
            effect = "empties " * step.empties + "dropped " * step.state.is_dropped
            origin = f" from {step.inherited.name.table}" if step.inherited else ""
            texts.append(f"at {step.range.start.offset} {effect}{names}{origin}")
    return texts


GHOST = TableDefinition(TableName("shop", "_t_gho"), (ID, V, NOTE), (0,))


CUT_OVER = "RENAME TABLE t TO _t_del, _t_gho TO t"


def filled(name: TableName, until: Position) -> TableContents:
    """A table of which the log has all rows."""
    state = TableState(replace(GHOST, name=name), is_complete=True)
    return TableContents(name, None, [DataRange(Range(at(20), until), state)], state, at(20))


FILLED = TimelineInputs(as_logged, nowhere, contents=filled)


def stored(state: TableState) -> TableState:
    """How a table stands by the commit that says so."""
    commit = SilverCommit.from_json(state.in_commit(SilverCommit(at(900), "b")).to_json())
    assert commit is not None
    return TableState.of(commit)


def keyed(*key: int, index: str | None = None, has_more: bool = False) -> TableDefinition:
    """id, v, told apart by the columns with these ordinals. has_more: there is x besides."""
    return TableDefinition(NAME, (ID, V, Column("x", 3)) if has_more else (ID, V), key, index)


BARE = TableDefinition(NAME, (Column(None, 3), Column(None, 3)), None)


UNNAMED = definition(replace(ID, name=None), replace(V, name=None))


KEYLESS = keyed()


def everywhere_unnamed(_: TableName, parts: Sequence[Range]) -> dict[int, TableDefinition]:
    """Rows whose log names no columns in every part that is asked for."""
    return dict.fromkeys(range(len(parts)), UNNAMED)


OFTEN_UNNAMED = TimelineInputs(as_logged, everywhere_unnamed)


def keys(timeline: list[TimelineStep]) -> list[tuple[int, ...] | None]:
    return [step.definition.key for step in timeline if isinstance(step, DataRange)]


STRICT = Session(sql_mode=1 << 22)


def ruled(*events: str, action: Action = "ignore", empties: bool = False) -> TimelineInputs:
    rule = EventFilter("r", Scope.parse(["shop.*"]), events, (re.compile("nightly"),), action)
    return TimelineInputs(as_logged, nowhere, on_drop_empties=empties, filters=Filters((rule,)))


def unknown_names(logged: TableDefinition, _: Position | None) -> TableDefinition:
    if logged.has_names():
        return logged
    raise NamesUnknown("nothing names them")


NUMBERED = TimelineInputs(unknown_names, nowhere, contents=unknown, numbers=True)


OF_NUMBERS = with_numbered_columns(BARE)


BEGINNING = TimelineInputs(as_logged, nowhere, contents=unknown, begins_anew=True)


CHANGE = (500, "ALTER TABLE t MODIFY v SMALLINT")
