"""The downstream tables of a lake as sources of dbt: the content of a ``sources.yml``.

Its keys are those of https://docs.getdbt.com/reference/source-properties. From ``meta.dagster.asset_key`` dagster-dbt
takes a source's asset key, and from ``meta.external_location`` dbt-duckdb where it reads a source.

Put here: how a table is named and described. Not here: which tables there are (delivery/lake_table.py).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Any

from spark_jobs.binlog import TableName
from spark_jobs.config.model import Pipeline
from spark_jobs.delivery.lake_table import LakeTable, published
from spark_jobs.delta.schema import DeltaColumn
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.errors import ConfigError, LakeError
from spark_jobs.lake.layout import Lake
from spark_jobs.pipeline.comments import COMMENT
from spark_jobs.text.asset_keys import downstream_key_parts
from spark_jobs.text.sql import standard_literal

_S3A = re.compile(r"^s3a://")
_BRACE = re.compile(r"[{}]")
_MARK = re.compile(r"\{(?=[{%#])")
"""Beginnings of an expression, a statement or a comment of Jinja: dbt takes the values of its YAML for templates."""
_EXPRESSION = "{{{{ '{}' }}}}"


class DbtAdapter(StrEnum):
    """The dbt adapter that reads the tables."""

    DUCKDB = "duckdb"
    """dbt-duckdb, through DuckDB's ``delta_scan``."""
    SPARK = "spark"
    """dbt-spark: by the names of ``catalog:``, or without such by path."""


def dbt_sources(
    pipeline: Pipeline,
    lake: Lake,
    adapter: DbtAdapter,
    *,
    in_scope: Callable[[TableName], bool],
    key_prefix: Sequence[str] = (),
) -> dict[str, Any]:
    """A ``sources.yml`` as a mapping: a source a schema, with its published tables and their columns.

    in_scope: whether a downstream table is listed. key_prefix: ``key_prefix`` of the Dagster component.
    Raises ConfigError where no published table is in scope, and LakeError.
    """
    by_schema: dict[str, list[dict[str, Any]]] = {}
    for table in published(pipeline, lake):
        if in_scope(TableName(table.schema, table.name)):
            by_schema.setdefault(table.schema, []).append(_dbt_table(pipeline, table, adapter, key_prefix))
    if not by_schema:
        raise ConfigError({"--table": "no such downstream table is published; stratalog status lists those that are"})
    sources = [{"name": schema} | _database(pipeline, schema, adapter) for schema in by_schema]
    return {"version": 2, "sources": [source | {"tables": by_schema[source["name"]]} for source in sources]}


def _database(pipeline: Pipeline, schema: str, adapter: DbtAdapter) -> dict[str, Any]:
    """Database in which dbt finds the tables of a schema, beside what each table says."""
    if adapter is DbtAdapter.DUCKDB:
        return {"schema": schema}
    if pipeline.catalog is None:
        return {"schema": "delta", "quoting": {"identifier": True}}
    return {"schema": pipeline.catalog.downstream_database(schema), "quoting": {"schema": True, "identifier": True}}


def _dbt_table(pipeline: Pipeline, table: LakeTable, adapter: DbtAdapter, key_prefix: Sequence[str]) -> dict[str, Any]:
    path = table.table.path
    snapshot = snapshot_of(path, table.version)
    if snapshot is None:
        raise LakeError(f"{path}: version {table.version}, which is published, is gone; restore the table's _delta_log")
    meta: dict[str, Any] = {"dagster": {"asset_key": [*key_prefix, *downstream_key_parts(table.schema, table.name)]}}
    listed: dict[str, Any] = {"name": table.name}
    if adapter is DbtAdapter.DUCKDB:
        location = standard_literal(_S3A.sub("s3://", path))
        # dbt-duckdb formats the location by str.format, so that braces in a path are doubled.
        meta["external_location"] = _BRACE.sub(
            lambda brace: _EXPRESSION.format(brace[0] * 2), f"delta_scan({location})"
        )
    elif pipeline.catalog is None:
        listed["identifier"] = _literal(path)
    description = snapshot.metadata.rest.get("description")
    return (
        listed
        | ({"description": _literal(description)} if description else {})
        | {"config": {"meta": meta}, "columns": list(_column_entries(snapshot.schema.columns))}
    )


def _literal(text: str) -> str:
    """A template of Jinja that gives the text."""
    return _MARK.sub(_EXPRESSION.format("{"), text)


def _column_entries(columns: Sequence[DeltaColumn]) -> Iterator[dict[str, str]]:
    for column in columns:
        comment = column.metadata.get(COMMENT)
        yield {"name": column.name, "data_type": column.ddl} | ({"description": _literal(comment)} if comment else {})
