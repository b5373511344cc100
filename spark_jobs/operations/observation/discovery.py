"""Tables that servers have now, for a graph before any run has seen them in the log.

Put here: asking the servers for names. Not here: tables that runs have seen (config/known_tables.py).
"""

import logging

from spark_jobs.bronze.source_endpoints import endpoints_of
from spark_jobs.config.known_tables import SeenTable
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import StratalogError
from spark_jobs.source.information_schema import table_names
from spark_jobs.source.protocol import Source
from spark_jobs.source.server import Server

log = logging.getLogger(__name__)


def tables_in_scope(pipeline: Pipeline) -> set[SeenTable]:
    """The tables in scope of all servers; a server that does not answer has none, with a warning."""
    tables: set[SeenTable] = set()
    for source in pipeline.sources:
        try:
            names = endpoints_of(pipeline, source).first(_server_tables, proves=False)
        except StratalogError as error:
            log.warning("%s; the graph shows the tables that runs have seen", error)
            continue
        tables |= {(source, schema, table) for schema, table in names if pipeline.scope.holds(schema, table)}
    return tables


def _server_tables(source: Source) -> list[tuple[str, str]]:
    """Tables of a server; a folder of binlog files has no list of tables."""
    if not isinstance(source, Server):
        return []
    with source.connect() as connection:
        return [(name.schema, name.table) for name in table_names(source, connection)]
