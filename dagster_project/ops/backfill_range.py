"""A range of the log replayed by a form: the steps of the job ``backfill_range``.

Put here: the form, the step that checks it, and the step of each source. Not here: the replay and what it says
(assets/backfill.py), or the job that the steps stand in (dagster_project/jobs.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.backfill import CHOICE, Backfill, choice_of
from assets.failures import RETRY, failing
from assets.keys import Lineage
from assets.steps import FROM_TAG, SOURCE_TAG, TO_TAG, Sessions
from spark_jobs.config.model import Pipeline

if TYPE_CHECKING:  # these import pyspark
    from spark_jobs.pipeline.backfill.request import BackfillRequest


def check_step(pipeline: Pipeline, lineages: Sequence[Lineage]) -> dg.OpDefinition:
    """The first step of ``backfill_range``: takes the form, says what is wrong with it, hands over to its source's."""
    names = [lineage.source for lineage in lineages]
    sources = dg.Enum("BackfillSource", list(map(dg.EnumValue, names)))
    form = {
        "source": dg.Field(sources, description="The source.")
        if len(names) > 1
        else dg.Field(sources, default_value=names[0], description="The source; there is one."),
        "from": dg.Field(
            str,
            description="Where the range begins: a position like mysql-bin.000042:1337, a GTID set, or a time and its "
            "offset like 2026-11-21T08:00:00+01:00. Snapped outward to windows.",
        ),
        "to": dg.Field(str, description="The same, behind the last."),
        **CHOICE,
    }

    @dg.op(
        name=FORM,
        description="Checks what is asked for, and hands over to the step of its source.",
        config_schema=form,
        out={branch(name): dg.Out(dg.Nothing, is_required=False) for name in names},
    )
    def check(context: dg.OpExecutionContext) -> Iterator[dg.Output[None]]:
        with failing():
            request = _request(context.op_config)
            request.require_valid(pipeline)
        tags = {SOURCE_TAG: request.source, FROM_TAG: str(request.start), TO_TAG: str(request.stop)}
        context.instance.add_run_tags(context.run_id, tags)
        yield dg.Output(None, branch(request.source))

    return check


FORM = "range"
"""Name of the step that takes the form of ``backfill_range``."""


def branch(source: str) -> str:
    """The output by which that step hands over to a source's."""
    return f"of_{source}"


def range_step(pipeline: Pipeline, lineage: Lineage, pool: str) -> dg.OpDefinition:
    """Does what the form says for one source, in that source's pool."""
    source = lineage.source

    @dg.op(
        name=f"backfill_{source}_range",
        description=f"Does a range of {source} again from bronze, which first gets what it lacks, through silver and "
        "downstream.",
        ins={"checked": dg.In(dg.Nothing)},
        out=dg.Out(dg.Nothing),
        retry_policy=RETRY,
        pool=pool,
    )
    def step(context: dg.OpExecutionContext, spark: dg.ResourceParam[Sessions]) -> None:
        ops: Any = context.run_config["ops"]
        request = _request(ops[FORM]["config"], source)
        with failing():
            range_ = request.range(spark.session(), pipeline)
        replay = Backfill(context, pipeline, request, range_).run(spark)
        metadata = replay.metadata()
        context.add_output_metadata(metadata)
        context.log_event(dg.AssetObservation(lineage.backfill, metadata=metadata))
        replay.require_all()

    return step


def _request(config: Mapping[str, Any], only: str = "") -> "BackfillRequest":
    from spark_jobs.pipeline.backfill.request import BackfillRequest

    return BackfillRequest(
        config.get("source", only), config["from"].strip(), config["to"].strip(), **choice_of(config)
    )
