"""Mending of tables whose rows differ from the server's, as a step of a job of its own.

Put here: the step, and what it says of each table. Not here: what is done (spark_jobs/mending/mend_source.py).
"""

from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from assets import checkpoint
from assets.downstream import merged_tables
from assets.failures import failing, retried
from assets.lineage import Lineage
from assets.materialize import report_step
from assets.progress import progress, sessions
from spark_jobs.config.model import Pipeline
from spark_jobs.runtime.lazy_session import lazy_session
from spark_jobs.text.counts import counted

if TYPE_CHECKING:  # these import pyspark
    from spark_jobs.mending.mend_source import MendedTable

STATE = "mend/state"
APPLIED = "mend/applied"
AT = "mend/as_of"
KEYS = "mend/keys"
_SHOWN = 20
"""Keys in the metadata of a table."""


class MendConfig(dg.Config):
    """Tables to mend, as ``DB.TABLE``, patterns too; none means all whose rows differ.

    keys: of one table, as ``stratalog mend --key`` takes them. apply: whether anything is changed.
    """

    tables: list[str] = Field(default=[], description="DB.TABLE or patterns; none: all tables whose rows differ.")
    keys: list[str] = Field(default=[], description="COLUMN=VALUE,… of one table; none: those that a comparison finds.")
    apply: bool = Field(default=False, description="Mend them; otherwise the step only says what it would do.")


def mend_step(pipeline: Pipeline, lineage: Lineage) -> dg.OpDefinition:
    """The step that replaces differing rows by the server's.

    It waits in the source's pool, since it begins with a run.
    """
    source, catalog = lineage.source, lineage.catalog

    @dg.op(
        name=catalog.name(f"replace_rows_of_{source}"),
        description=f"Compares tables of {source} with the server's, and reads the rows that differ from there.",
        required_resource_keys={catalog.spark},
        out=dg.Out(dg.Nothing),
        pool=lineage.pool,
    )
    @retried
    def mend(context: dg.OpExecutionContext, config: MendConfig) -> None:
        from spark_jobs.mending.mend_source import mend_source

        with failing(), progress(context):
            mended = mend_source(
                lazy_session(sessions(context, catalog.spark).session),
                pipeline,
                source,
                tables=config.tables,
                keys=config.keys,
                is_applied=config.apply,
            )
        # Silver says what was found; downstream tables are materialized where rows came.
        for table in mended.tables:
            key = catalog.silver(source, (table.table.schema, table.table.table))
            context.log_event(dg.AssetObservation(key, metadata=mend_metadata(table, is_applied=config.apply)))
            for remark in table.remarks(is_applied=config.apply):
                context.log.warning("%s", remark)
        merged = merged_tables(catalog, source, mended.outcome, is_live=False) if mended.outcome else {}
        for key, step in merged.items():
            report_step(context, key, step)
        # The step fails for tables that were not mended, after all others are reported.
        if mended.stopped:
            reasons = "\n".join(table.reason or "" for table in mended.stopped)
            raise dg.Failure(f"not mended: {counted(len(mended.stopped), 'table')}:\n{reasons}", allow_retries=False)

    return mend


def mend_metadata(table: "MendedTable", *, is_applied: bool) -> dict[str, Any]:
    """Metadata of a mended table, in rows."""
    lines = list(table.lines())[:_SHOWN]
    return {
        STATE: table.state,
        APPLIED: is_applied,
        **({AT: str(table.at)} if table.at else {}),
        **{f"mend/{name}": checkpoint.number(getattr(table.counts, name)) for name in type(table.counts).__slots__},
        **({KEYS: "\n".join(lines)} if lines else {}),
    }
