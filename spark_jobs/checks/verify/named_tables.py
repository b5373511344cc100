"""Tables in scope of a source, and names that a user gives, held against them.

Put here: which tables there are at the server and in the lake. Not here: comparing them (tables.py).
"""

from collections.abc import Collection, Iterable, Sequence

from spark_jobs.binlog import TableName
from spark_jobs.changes.lines import wanted_tables
from spark_jobs.config.model import Pipeline
from spark_jobs.downstream import publication
from spark_jobs.downstream.publication import Entry
from spark_jobs.errors import ConfigError
from spark_jobs.lake.layout import lake_of
from spark_jobs.text.suggestions import did_you_mean


def tables_in_scope(pipeline: Pipeline, at_server: Iterable[TableName], entries: Iterable[Entry]) -> list[TableName]:
    """The tables in scope that the server or the lake has. entries: the lake's."""
    in_lake = {TableName(*entry.name) for entry in entries if entry.state != "ignored"}
    return sorted(name for name in {*at_server, *in_lake} if pipeline.scope.holds(name.schema, name.table))


def known_tables(pipeline: Pipeline, source: str, at_server: Iterable[TableName]) -> list[TableName]:
    """The same by what the lake has now, before a run. Raises LakeError."""
    return tables_in_scope(pipeline, at_server, publication.read(lake_of(pipeline), source))


def named_tables(names: Sequence[TableName], tables: Sequence[str], owner: str) -> list[TableName]:
    """The tables that a user names, of those that there are; all where none is named.

    Args:
        names: the tables that there are.
        tables: ``DB.TABLE`` or patterns, as the user gives them.
        owner: what has the tables besides the lake, for the message.

    Raises:
        ConfigError: for a name that no table has.
    """
    wrong = unknown_tables(names, tables)
    if wrong:
        near = suggested_tables(names, wrong)
        raise ConfigError(
            {"--table": f"neither {owner} nor the lake has a table like {', '.join(wrong)} in scope{near}"}
        )
    return list(filter(wanted_tables(tables), names))


def unknown_tables(names: Collection[TableName], tables: Sequence[str]) -> list[str]:
    """Names or patterns that no table has: what one name finds does not hide that another one finds nothing."""
    return [table for table in tables if not any(map(wanted_tables([table]), names))]


def suggested_tables(names: Collection[TableName], wrong: Sequence[str]) -> str:
    """The end of a message about names that no table has: tables that they are like."""
    return "".join(dict.fromkeys(did_you_mean(table, map(str, names)) for table in wrong))
