"""Reverse replay: table definitions of a server or a schema dump, taken back through the log to earlier positions.

The facts are gone through from the last to the first: each statement about a table is inverted (ddl/inverse.py), each
TABLE_MAP between two statements must be that of the definition that was found, and decides where several are left. A
table's way ends where the log makes it, and at the statement that cannot be inverted; what it was before that stays
unknown, with the reason.

Put here: the way back. Not here: inverting one statement (ddl/inverse.py), and what counts where both directions tell
something (tracker.py).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.ddl.effects import (
    AlterTable,
    ChangeIndex,
    ChangeStorage,
    CreateTable,
    DropSchema,
    DropTable,
    FreeName,
    Rename,
    TruncateTable,
    UnknownChange,
    effects,
)
from spark_jobs.ddl.inverse import EarlierDefinition, inverted, known_definition, matching_definition
from spark_jobs.ddl.operations import Operation
from spark_jobs.errors import DecodeError, Unsupported
from spark_jobs.log.position import Position
from spark_jobs.schema.facts import (
    Fact,
    InvertedDefinition,
    LoggedTable,
    ServerAnswer,
    StatementFact,
    TableVersion,
    in_order,
)
from spark_jobs.schema.tracker import ABOUT_TABLES, lacks_names


@dataclass(frozen=True, slots=True)
class ReversedHistory:
    """Result of the search.

    Reached: the tables, by the names that they have there, whose path goes back to the beginning.
    """

    facts: tuple[InvertedDefinition, ...] = ()
    reached: frozenset[TableName] = frozenset()


def replay_backwards(
    facts: Iterable[Fact], versions: Sequence[TableVersion], begin: Position, stored: Iterable[TableVersion] = ()
) -> ReversedHistory:
    """Project the definitions of servers and dumps among some facts backwards, to ``begin``.

    versions: those that the facts lead to going forward; stored: what is known of the tables at ``begin``. Where they
    lack nothing, nothing is looked for.
    """
    if not any(_is_lacking(version) for version in (*versions, *stored)):
        return ReversedHistory()
    path = _ReverseReplay(versions)
    for fact in reversed(in_order(facts)):
        match fact:
            case ServerAnswer():
                path.take_answer(fact)
            case LoggedTable():
                path.take_table(fact)
            case StatementFact() if fact.statement.effect in ABOUT_TABLES:
                path.take_statement(fact)
    return path.ended(begin)


def _is_lacking(version: TableVersion) -> bool:
    return version.holds and not version.is_dropped and lacks_names(version.definition)


@dataclass(slots=True)
class _InversePath:
    """A table on its way. last: the ordinal of what was found last of it. is_maybe_made: by the last statement."""

    candidates: list[EarlierDefinition]
    last: int | None = None
    is_maybe_made: bool = False
    since: StatementFact | None = None
    """The statement that was inverted last."""

    @property
    def definition(self) -> TableDefinition | None:
        """The one that it has here; None where rows have yet to tell."""
        return self.candidates[0].definition if len(self.candidates) == 1 and self.candidates[0].is_named else None


@dataclass(slots=True)
class _ReverseReplay:
    versions: Sequence[TableVersion]
    paths: dict[TableName, _InversePath] = field(default_factory=dict)
    facts: list[InvertedDefinition] = field(default_factory=list)

    def take_answer(self, fact: ServerAnswer) -> None:
        for version in self.versions:
            is_it = version.at == fact.at and version.origin == fact.origin and version.holds
            if is_it and version.definition and not lacks_names(version.definition):
                self.paths[version.name] = _InversePath([known_definition(version.definition)])

    def take_table(self, fact: LoggedTable) -> None:
        name = fact.definition.name
        path = self.paths.get(name)
        if path is None:
            return
        if fact.definition.has_names():
            del self.paths[name]  # the log tells it all by itself
            return
        path.is_maybe_made = False
        try:
            path.candidates = [matching_definition(path.candidates, fact.definition)]
        except DecodeError as error:
            self._end_path(name, _not_before(path.since, f"by its rows at {fact.at}, {error}") if path.since else None)

    def take_statement(self, fact: StatementFact) -> None:
        try:
            touched = self._before_statement(fact)
        except (DecodeError, IndexError, StopIteration):
            about = [name for name in self.paths if fact.statement.names(name.schema, name.table)]
            for name in about:
                self._add_definition(name, fact)
                self._end_path(name, _not_before(fact, "it cannot be read"))
            return
        self._end_alike(fact, touched)

    def ended(self, begin: Position) -> ReversedHistory:
        reached = [(name, path.definition) for name, path in self.paths.items() if path.last is not None]
        self.facts += [
            InvertedDefinition(begin, definition)
            for name, definition in reached
            if definition and not self.paths[name].is_maybe_made
        ]
        return ReversedHistory(
            tuple(self.facts), frozenset(name for name, path in self.paths.items() if not path.is_maybe_made)
        )

    def _before_statement(self, fact: StatementFact) -> list[TableName]:
        """The tables that a statement is about. Raises Unsupported where it cannot be read."""
        table_effects = effects(fact.statement, fact.database, fact.session)
        self._rename(fact, [effect for effect in table_effects if isinstance(effect, Rename | FreeName)])
        names = list[TableName]()
        for effect in table_effects:
            match effect:
                case DropSchema(schema):
                    dropped = [name for name in self.paths if name.schema.casefold() == schema.casefold()]
                    names += self._ended_by(dropped)
                case DropTable(name):
                    names += self._ended_by([name])
                case CreateTable():
                    self._created(fact, effect)
                case AlterTable() | ChangeIndex() | ChangeStorage() | TruncateTable():
                    self._altered_table(fact, effect)
                case UnknownChange():
                    raise Unsupported("it is not known what it does")
                case _:
                    pass  # names, which are reversed before the statement's other effects
            names += effect.tables
        return names

    def _ended_by(self, names: Sequence[TableName]) -> Sequence[TableName]:
        """The tables that a statement removes; their paths are forgotten."""
        for name in names:
            self.paths.pop(name, None)
        return names

    def _created(self, fact: StatementFact, effect: CreateTable) -> None:
        """One that is made if it is not there may have been as it is: rows before it tell."""
        if effect.table in self.paths:
            self._add_definition(effect.table, fact)
            self.paths[effect.table].is_maybe_made = effect.if_missing
        if not effect.if_missing:
            self.paths.pop(effect.table, None)

    def _altered_table(
        self, fact: StatementFact, effect: AlterTable | ChangeIndex | ChangeStorage | TruncateTable
    ) -> None:
        """A table by the name that it has before the statement."""
        name = effect.table
        if name in self.paths:
            if self.paths[name].since is not fact:  # otherwise its new name was reversed already
                self._add_definition(name, fact)
            try:
                self._invert(name, fact, effect.operations)
            except DecodeError as error:
                self._end_path(name, _not_before(fact, str(error)))

    def _rename(self, fact: StatementFact, changes: Sequence[Rename | FreeName]) -> None:
        """Give tables the names that they have before a statement."""
        renames = [effect for effect in changes if isinstance(effect, Rename) and effect.table in self.paths]
        for effect in renames:
            self._add_definition(effect.table, fact)
            self.paths[effect.table].since = fact
        paths = {effect.was: self.paths[effect.table] for effect in renames}
        for change in changes:
            self.paths.pop(change.table, None)
        self.paths |= {was: _under_name(path, was) for was, path in paths.items()}

    def _invert(self, name: TableName, fact: StatementFact, operations: Sequence[Operation]) -> None:
        """Replace a table's candidates by those before a statement. Raises DecodeError."""
        path = self.paths[name]
        path.candidates = inverted(path.candidates, operations)
        path.since = fact

    def _add_definition(self, name: TableName, fact: StatementFact) -> None:
        """Settle a table after a statement; where rows have yet to tell, there are none there."""
        definition = self.paths[name].definition
        if definition:
            self.paths[name].last = len(self.facts)
            self.facts.append(InvertedDefinition(fact.behind, definition))

    def _end_path(self, name: TableName, reason: str | None) -> None:
        last = self.paths.pop(name).last
        if last is not None and reason:
            self.facts[last] = replace(self.facts[last], note=reason)

    def _end_alike(self, fact: StatementFact, touched: Sequence[TableName]) -> None:
        """Tables that may be meant by other letters: some servers store small ones, and log what was typed."""
        typed = {str(name).casefold(): name for name in touched if not str(name).islower()}
        for name in [path for path in self.paths if typed and str(path) in typed and path not in touched]:
            self._add_definition(name, fact)
            note = f"it names {typed[str(name)]}; whether that is {name} is not in the log"
            self._end_path(name, _not_before(fact, note))


def _under_name(path: _InversePath, name: TableName) -> _InversePath:
    path.candidates = [
        replace(candidate, definition=replace(candidate.definition, name=name)) for candidate in path.candidates
    ]
    return path


def _not_before(fact: StatementFact, reason: str) -> str:
    return f"what it was before {fact.statement.verb} at {fact.at} is not known: {reason} ({fact.statement.short})"
