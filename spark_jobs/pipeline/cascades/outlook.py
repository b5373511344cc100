"""Foreign keys and tables of a live server that its log will not tell, and what a run will do about each.

Put here: the outcome of each foreign key that cascades, and why, by the configuration and the server's definitions.
Not here: what the lake lacks of a table (step.py), or how it is printed (spark_jobs/checks).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.cascades.key_columns import KeyColumns
from spark_jobs.config.cascades import CascadeActions
from spark_jobs.config.model import Pipeline
from spark_jobs.ddl.foreign_keys import ForeignKey
from spark_jobs.ddl.unlogged_changes import UnloggedChanges, unlogged_changes
from spark_jobs.errors import TableStopped
from spark_jobs.lake.layout import lake_of
from spark_jobs.pipeline.cascades.refusals import cascade_actions, refusals
from spark_jobs.pipeline.cascades.unlogged_changes import LIMITS, remedy_of_cascade
from spark_jobs.source.information_schema import read_definitions
from spark_jobs.source.server import Server
from spark_jobs.source.server_facts import ask_facts

_STOP = "stop: the table stops before the first change of the parent that may change its rows"


@dataclass(frozen=True, slots=True)
class Outlook:
    """Effect of one declaration, and what to do: None where the lake has the server's rows, or may lack them."""

    text: str
    remedy: str | None = None


def outlooks(pipeline: Pipeline, server: Server) -> list[Outlook]:
    """The outlooks of tables in scope, by table and constraint. Raises SourceError."""
    with server.connect() as connection:
        facts = ask_facts(server, connection, server.variables(connection), pipeline.scope.holds)
        gaps = unlogged_changes([], facts)
        definitions = {}
        if any(gap.key for gap in gaps):
            definitions = {definition.name: definition for definition in read_definitions(server, connection)}
    versioned = [
        Outlook(f"{gap.table}: {gap}; it will stop", f"leave it out ({LIMITS})") for gap in gaps if gap.key is None
    ]
    keys = [gap for gap in gaps if gap.key]
    if facts.logs_cascades:
        return [*versioned, *(_logged_outlook(gap) for gap in _in_order(pipeline, keys))]
    # Of the others too it is said whether apply would be possible.
    actions = cascade_actions(pipeline, lake_of(pipeline), server.name)
    refused = refusals(pipeline, CascadeActions.parse("apply"), server.name, keys)
    refused |= refusals(pipeline, actions, server.name, keys)
    return [*versioned, *(_outlook(actions, gap, refused, definitions) for gap in _in_order(pipeline, keys))]


def _in_order(pipeline: Pipeline, keys: list[UnloggedChanges]) -> list[UnloggedChanges]:
    in_scope = (gap for gap in keys if pipeline.scope.holds(gap.table.schema, gap.table.table))
    return sorted(in_scope, key=lambda gap: (gap.table, gap.key.name if gap.key else ""))


def _logged_outlook(gap: UnloggedChanges) -> Outlook:
    assert gap.key
    key = gap.key
    return Outlook(f"{gap.table}: the foreign key {key.name} -> {key.parent} {key.rules} is logged by the server")


def _outlook(
    actions: CascadeActions,
    gap: UnloggedChanges,
    refused: Mapping[TableName, str],
    definitions: Mapping[TableName, TableDefinition],
) -> Outlook:
    assert gap.key
    # What decides, and what would be in the way of deriving the changes.
    action, chosen = actions.chosen(gap.table.schema, gap.table.table)
    origin = chosen or ("default" if action == "apply_known" else "default of a lake that an earlier version began")
    reason = refused.get(gap.table) or next(_declared_reasons(gap.table, gap.key, definitions), None)
    text = f"{gap.table}: {gap}"
    if action in ("apply", "apply_known") and reason is None:
        return Outlook(f"{text}; apply: what it does is derived ({origin})")
    if action == "apply":
        return Outlook(f"{text}; {_STOP} ({origin} is not possible: {reason})", remedy_of_cascade(can_derive=False))
    if action == "ignore":
        return Outlook(f"{text}; ignored: its rows may be wrong, and nothing says so ({origin})")
    possible = f"apply is not possible: {reason}" if reason else "apply is possible"
    outcome = _STOP if action == "stop" else "warn: the table continues, and its rows may be wrong"
    return Outlook(f"{text}; {outcome} ({origin}; {possible})", remedy_of_cascade(can_derive=reason is None))


def _declared_reasons(
    child: TableName, key: ForeignKey, definitions: Mapping[TableName, TableDefinition]
) -> Iterator[str]:
    """Reasons why changes by a foreign key cannot be derived from tables as the server declares them."""
    for name, columns in ((child, key.columns), (key.parent, key.parent_columns)):
        definition = definitions.get(name)
        if definition is None:
            yield f"the server does not show {name}"
            continue
        try:
            KeyColumns.of(definition, columns)
        except TableStopped as error:
            yield str(error)
