"""Choice of a source's tables by a request: which ones runs have seen, and names that match none.

Put here: names and patterns of a request beside the tables that there are. Not here: the grammar of patterns
(config/table_patterns.py), or requests.
"""

from collections.abc import Sequence

from spark_jobs.binlog import TableName
from spark_jobs.config.model import Pipeline
from spark_jobs.config.table_patterns import Pattern
from spark_jobs.downstream import publication
from spark_jobs.errors import ConfigError
from spark_jobs.lake.layout import lake_of
from spark_jobs.text.suggestions import did_you_mean

_LISTED = 20
"""Tables that a message names."""


def tables_in_scope(pipeline: Pipeline, source: str) -> list[TableName]:
    """Tables of a source that a run has seen."""
    entries = publication.read(lake_of(pipeline), source)
    return [TableName(*entry.name) for entry in entries if pipeline.scope.holds(*entry.name)]


def wrong_tables(source: str, texts: Sequence[str], tables: Sequence[TableName]) -> dict[str, str]:
    """Problems of names and patterns, by their position in the request; empty where each names a table."""
    problems = {}
    for at, text in enumerate(texts):
        try:
            pattern = Pattern.parse(text)
        except ConfigError as error:
            problems[f"tables[{at}]"] = str(error)
            continue
        if not any(pattern.matches(table.schema, table.table) for table in tables):
            listed = ", ".join(map(str, sorted(tables)[:_LISTED])) or "none"
            rest = f" and {len(tables) - _LISTED} more" if len(tables) > _LISTED else ""
            near = did_you_mean(text, map(str, tables))
            problems[f"tables[{at}]"] = f"{text} is no table of {source} that a run has seen: {listed}{rest}{near}"
    return problems
