"""Tables as of a position, written outside of the lake: the asset, and the metadata of its materializations.

Put here: the asset of a source, and the metadata of a table that was written. Not here: the form and the step
(dagster_project/ops/table_at.py), or the work (spark_jobs/pipeline/as_of/).
"""

from typing import TYPE_CHECKING

import dagster as dg

from assets import checkpoint
from assets.catalog import AssetOf
from assets.checkpoint import Metadata
from assets.lineage import Lineage

if TYPE_CHECKING:  # these import pyspark
    from spark_jobs.pipeline.as_of.request import TablesRequest
    from spark_jobs.pipeline.as_of.table_rows import TableAt
    from spark_jobs.storage.files import StoredPath

TABLE = "table_at/table"
ASKED = "table_at/asked"
"""The position, GTID set or time that was asked for."""
TARGET = "table_at/to"
FORM = "table_at/format"
KEYS = "table_at/keys"
WHERE = "table_at/where"
RAW = "table_at/raw"


def table_at_asset(lineage: Lineage) -> dg.AssetSpec:
    """``table_at/<source>``. A job makes it, by a form, and no materialization of the graph does."""
    spec = lineage.catalog.spec(AssetOf("table_at", lineage.source))
    return spec.replace_attributes(deps=[lineage.bronze])


def materialization(
    lineage: Lineage, request: "TablesRequest", table: "TableAt", path: "StoredPath", rows: int
) -> dg.AssetMaterialization:
    """Materialization of a table that was written: table, position, rows and target, and the rows asked for."""
    # Rows that were chosen are counted and described; keys are values of rows, so they are not.
    columns = [dg.TableColumn(name, kind.lower()) for name, kind in table.selection().spark_types.items()]
    metadata: Metadata = {
        TABLE: str(table.name),
        ASKED: request.at.strip(),
        **checkpoint.position_metadata(table.at),
        checkpoint.ROW_COUNT: checkpoint.number(rows),
        TARGET: dg.MetadataValue.path(str(path)),
        FORM: request.form,
        **({KEYS: len(request.keys)} if request.keys else {}),
        **({WHERE: request.condition.strip()} if request.condition.strip() else {}),
        **({RAW: True} if request.is_raw else {}),
        checkpoint.COLUMNS: dg.TableSchema(columns=columns),
    }
    if table.keys_never_whole:
        metadata[checkpoint.NEVER_WHOLE] = checkpoint.number(table.keys_never_whole)
    description = f"{table.name} at {table.at}: {rows:,} rows in {path}"
    tags = checkpoint.version_tag(f"{table.name} at {table.at} in {path}")
    return dg.AssetMaterialization(lineage.table_at, description=description, metadata=metadata, tags=tags)
