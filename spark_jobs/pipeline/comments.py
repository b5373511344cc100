"""Comments of a server's tables and columns, for downstream tables.

Put here: reading them, and the commit that has them. Not here: when a table is merged (table_merge.py).

Comments are of now: the log has them in statements alone, so a source of files has none. They are put where a merge
brought something; a commit of its own says them, and no row changes.
"""

import logging
import threading
from dataclasses import replace

from spark_jobs.binlog import TableName
from spark_jobs.config.model import Pipeline
from spark_jobs.delta.schema import DeltaColumn, TableSchema
from spark_jobs.delta.snapshot import Metadata, snapshot_of
from spark_jobs.errors import StratalogError
from spark_jobs.lake import driver_commit
from spark_jobs.lake.commit import CommitKind, Head, new_batch
from spark_jobs.lake.table import Table, TableComments
from spark_jobs.source.endpoints import Endpoints, open_endpoints
from spark_jobs.source.information_schema import user_schema_condition
from spark_jobs.source.protocol import Source
from spark_jobs.source.server import Server

log = logging.getLogger(__name__)

COMMENT = "comment"
"""A column's comment in Delta's metadata, and a table's as a property in Spark SQL."""
_DESCRIPTION = "description"
_ASK_TABLES = f"""
SELECT TABLE_SCHEMA `schema`, TABLE_NAME `table`, TABLE_COMMENT comment FROM information_schema.TABLES
WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') AND {user_schema_condition("TABLE_SCHEMA")}
"""
_ASK_COLUMNS = f"""
SELECT TABLE_SCHEMA `schema`, TABLE_NAME `table`, COLUMN_NAME name, COLUMN_COMMENT comment
FROM information_schema.COLUMNS WHERE COLUMN_COMMENT <> '' AND {user_schema_condition("TABLE_SCHEMA")}
"""


class SourceComments:
    """The comments of a source's tables, asked for once a run, by the first table that has something new."""

    def __init__(self, pipeline: Pipeline, source: str) -> None:
        self._pipeline, self._source = pipeline, source
        self._tables: dict[TableName, TableComments] | None = None
        self._lock = threading.Lock()

    def of(self, name: TableName) -> TableComments | None:
        """None where they are not known: the source is no server, does not answer, or has no such table any more."""
        with self._lock:
            if self._tables is None:
                self._tables = self._read_comments()
        return self._tables.get(name)

    def _read_comments(self) -> dict[TableName, TableComments]:
        settings = self._pipeline.sources[self._source]
        if settings.mysql is None:
            return {}
        endpoints: Endpoints = open_endpoints(self._source, settings, self._pipeline.endpoints_file, None)
        try:
            return endpoints.first(_ask, proves=False)
        except StratalogError as error:  # a merge needs no server
            log.debug("%s: comments are left as they are: %s", self._source, error)
            return {}


def _ask(source: Source) -> dict[TableName, TableComments]:
    if not isinstance(source, Server):
        return {}
    with source.connect() as connection:
        tables = {TableName(row["schema"], row["table"]): row for row in source.ask(connection, _ASK_TABLES)}
        columns: dict[TableName, dict[str, str]] = {}
        for row in source.ask(connection, _ASK_COLUMNS):
            columns.setdefault(TableName(row["schema"], row["table"]), {})[row["name"]] = row["comment"]
    return {name: TableComments(row["comment"] or "", columns.get(name, {})) for name, row in tables.items()}


def commented(table: Table, head: Head, comments: TableComments) -> Head:
    """The table's head after its comments are those of the source. Raises LakeError, LostRace."""
    snapshot = snapshot_of(table.path, head.version)
    if snapshot is None or head.checkpoint is None:
        return head
    metadata = _with_comments(snapshot.metadata, comments)
    if metadata == snapshot.metadata:
        return head
    checkpoint = replace(head.checkpoint, batch=new_batch(), kind=CommitKind.MAINTENANCE)
    upon = driver_commit.snapshot_upon(table.path, head)
    return table.land(upon, head, checkpoint, metadata=metadata, operation="SET COMMENTS")


def _with_comments(metadata: Metadata, comments: TableComments) -> Metadata:
    """The metadata with these; columns that are Stratalog's own have none."""
    columns = tuple(_with_comment(column, comments.columns.get(column.name, "")) for column in metadata.schema.columns)
    rest = dict(metadata.rest)
    if (rest.pop(_DESCRIPTION, None) or "") == comments.table:  # Spark SQL leaves an empty text where one is taken away
        rest = dict(metadata.rest)
    elif comments.table:
        rest[_DESCRIPTION] = comments.table
    if columns == metadata.schema.columns:
        return metadata if rest == dict(metadata.rest) else replace(metadata, rest=rest)
    return replace(metadata.with_schema(TableSchema(columns)), rest=rest)


def _with_comment(column: DeltaColumn, text: str) -> DeltaColumn:
    if column.metadata.get(COMMENT, "") == text:
        return column
    rest = {name: value for name, value in column.metadata.items() if name != COMMENT}
    return replace(column, metadata=rest | ({COMMENT: text} if text else {}))
