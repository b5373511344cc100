"""Tables as of a position, requested by a form: the step of the job ``table_at``.

Put here: the form, and the step. Not here: what a materialization says (assets/table_at.py), or the work
(spark_jobs/pipeline/as_of/).
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.failures import failing
from assets.lineage import Lineage
from assets.progress import progress
from assets.table_at import materialization
from dagster_project.ops.forms import source_field
from spark_jobs.config.model import Pipeline
from spark_jobs.text.counts import counted

if TYPE_CHECKING:  # these import pyspark
    from spark_jobs.pipeline.as_of.request import TablesRequest
    from spark_jobs.pipeline.as_of.tables_at import SourceAt

STEP = "moment"
"""Name of the step that takes the form; Dagster wants another one than the job's."""
_FORMAT = dg.Enum(
    "TableAtFormat",
    [
        dg.EnumValue("parquet", description="a file a table"),
        dg.EnumValue("delta", description="a Delta table each"),
        dg.EnumValue("csv", description="a file a table"),
        dg.EnumValue("jsonl", description="a file a table"),
    ],
)


def table_at_step(pipeline: Pipeline, lineages: Sequence[Lineage]) -> dg.OpDefinition:
    """Write tables as they were to a folder. It reads the lake alone, so it is in no pool.

    No step of it is tried again: the folder has a part of the tables then, and is refused.
    """
    form = {
        "source": source_field([lineage.source for lineage in lineages], "TableAtSource"),
        "at": dg.Field(
            str,
            description="A position like mysql-bin.000042:1337, a GTID set, or a time and its offset like "
            "2026-11-21T08:00:00+01:00. A place inside a transaction is where that begins.",
        ),
        "tables": dg.Field([str], description="Tables as DB.TABLE, as they were called then; patterns too."),
        "to": dg.Field(
            str, description="A new folder, where the run is, or on a store as s3a://bucket/prefix; not in the lake."
        ),
        "format": dg.Field(_FORMAT, default_value="parquet", description="How rows are written."),
        "keys": dg.Field([str], default_value=[], description="Only the rows of these keys: VALUE or VALUE,VALUE."),
        "where": dg.Field(str, default_value="", description="Only rows for which this condition is TRUE."),
        "raw": dg.Field(bool, default_value=False, description="As the source had them: without masks and filters."),
    }

    @dg.op(
        name=lineages[0].catalog.name(STEP),
        description="Writes tables as they were at a position, GTID set or time. The lake is read, and not changed.",
        config_schema=form,
        out=dg.Out(dg.Nothing),
    )
    def moment(context: dg.OpExecutionContext) -> None:
        request = _request(context.op_config)
        lineage = next(lineage for lineage in lineages if lineage.source == request.source)
        with failing(), progress(context):
            # What is wrong in the form is said before any of the work.
            request.require_valid(pipeline)
            with request.answered(pipeline) as source_at:
                _write_tables(context, lineage, request, source_at)

    return moment


def _write_tables(
    context: dg.OpExecutionContext, lineage: Lineage, request: "TablesRequest", source_at: "SourceAt"
) -> None:
    """Each table, and its materialization as soon as it is written."""
    from spark_jobs.pipeline.as_of.row_files import target_of, write_files

    folder = target_of(request.to, lineage.catalog.pipeline)
    for reason in source_at.absent.values():
        context.log.warning("left out: %s", reason)
    for table in source_at.tables:
        path, rows = write_files(table.selection(), request.form, folder)
        context.log.info("%s at %s: %s in %s", table.name, table.at, counted(rows, "row"), path)
        if table.keys_never_whole:
            context.log.warning(
                "%s lacks %s: no row image had all columns", table.name, counted(table.keys_never_whole, "key")
            )
        context.log_event(materialization(lineage, request, table, path, rows))


def _request(config: Mapping[str, Any]) -> "TablesRequest":
    from spark_jobs.pipeline.as_of.request import TablesRequest

    return TablesRequest(
        config["source"],
        config["at"],
        tuple(config["tables"]),
        config["to"],
        form=config["format"],
        keys=tuple(config["keys"]),
        condition=config["where"],
        is_raw=config["raw"],
    )
