"""Datasets that a run reads and writes, as OpenLineage names them.

Put here: source tables and lake tables as datasets. Not here: the events (telemetry/openlineage.py).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from spark_jobs.binlog import TableName
from spark_jobs.config.model import Pipeline
from spark_jobs.downstream import publication
from spark_jobs.lake.layout import Lake
from spark_jobs.lake.table import Table
from spark_jobs.telemetry.openlineage import Dataset

if TYPE_CHECKING:
    from spark_jobs.pipeline.outcome import Outcome


def datasets_in_scope(pipeline: Pipeline, lake: Lake, source: str) -> tuple[list[Dataset], list[Dataset]]:
    """Datasets that a run of a source may read and write: its tables in scope, as far as they are published."""
    entries = [entry for entry in publication.read(lake, source) if pipeline.scope.holds(*entry.name)]
    names = [TableName(*entry.name) for entry in entries]
    tables = [lake.silver(source, *entry.name) for entry in entries if entry.silver_version is not None]
    tables += [Table(target.path, lake.plain) for entry in entries for target in entry.into]
    bronze = _stored_dataset(lake.bronze(source))
    return _input_datasets(pipeline, source, names), [bronze, *(_stored_dataset(table) for table in tables)]


def datasets_of(
    pipeline: Pipeline, lake: Lake, source: str, outcome: "Outcome | None"
) -> tuple[list[Dataset], list[Dataset]]:
    """Datasets that a run read and wrote: tables with changes alone, with columns and rows of each written one."""
    if outcome is None:
        return [], []
    silver = {job.name: job.rows for job in outcome.compacted}
    outputs = [
        _stored_dataset(lake.silver(source, name.schema, name.table), rows=rows, is_new=True)
        for name, rows in silver.items()
    ]
    rows_into: dict[str, int] = {}
    for merged in outcome.merged:
        rows = merged.inserted + merged.updated + merged.deleted
        rows_into[merged.target] = rows_into.get(merged.target, 0) + rows
    outputs += [_stored_dataset(Table(path, lake.plain), rows=rows, is_new=True) for path, rows in rows_into.items()]
    return _input_datasets(
        pipeline, source, dict.fromkeys([*silver, *(merged.name for merged in outcome.merged)])
    ), outputs


def _input_datasets(pipeline: Pipeline, source: str, names: Iterable[TableName]) -> list[Dataset]:
    """Tables of a server: of the first, where a source has several endpoints. A folder of files is one dataset."""
    settings = pipeline.sources[source]
    if settings.files is not None:
        return [Dataset("file", str(settings.files))]
    server = settings.servers[0]
    return [Dataset(f"mysql://{server.host}:{server.port}", f"{name.schema}.{name.table}") for name in names]


def _stored_dataset(table: Table, *, rows: int | None = None, is_new: bool = False) -> Dataset:
    """A table of the lake: a path of a file system, or a bucket and a key. is_new: with its columns."""
    parts = urlsplit(table.path)
    namespace, name = "file", table.path
    if parts.scheme:
        scheme = {"s3a": "s3"}.get(parts.scheme, parts.scheme)
        namespace, name = f"{scheme}://{parts.netloc}", parts.path.lstrip("/") or "/"
    return Dataset(namespace, name, table.columns() if is_new else None, rows)
