"""A range of the log replayed by a form: the steps of the job ``backfill_range``.

Put here: the form, the step that checks it, and the step of each source. Not here: the replay and what it says
(assets/backfill.py), or the job that the steps stand in (dagster_project/jobs.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.backfill import CHOICE, Backfill, choice_of
from assets.failures import failing, retried
from assets.lineage import Lineage
from assets.progress import sessions
from assets.steps import FROM_TAG, SOURCE_TAG, TO_TAG
from dagster_project.ops.forms import source_field
from spark_jobs.config.model import Pipeline
from spark_jobs.log.location import EARLIEST, LATEST

if TYPE_CHECKING:  # these import pyspark
    from spark_jobs.pipeline.backfill.request import BackfillRequest


def check_step(pipeline: Pipeline, lineages: Sequence[Lineage]) -> dg.OpDefinition:
    """The first step of ``backfill_range``: takes the form, says what is wrong with it, hands over to its source's."""
    # The form in the launchpad: a field for each choice, with its description.
    names = [lineage.source for lineage in lineages]
    form = {
        "source": source_field(names, "BackfillSource"),
        "from": dg.Field(
            str,
            default_value=EARLIEST,
            description="Where the range begins: a position like mysql-bin.000042:1337, a GTID set, or a time and its "
            "offset like 2026-11-21T08:00:00+01:00. earliest: where bronze begins. Snapped outward to windows.",
        ),
        "to": dg.Field(str, default_value=LATEST, description="The same, behind the last. latest: where bronze ends."),
        **CHOICE,
    }

    @dg.op(
        name=lineages[0].catalog.name(FORM),
        description="Checks what is asked for, and hands over to the step of its source.",
        config_schema=form,
        out={branch(name): dg.Out(dg.Nothing, is_required=False) for name in names},
    )
    def check(context: dg.OpExecutionContext) -> Iterator[dg.Output[None]]:
        # What is wrong in the form fails this step, before a step of a source waits for its pool.
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


def range_step(pipeline: Pipeline, lineage: Lineage) -> dg.OpDefinition:
    """The step that replays the form's range of one source, in that source's pool."""
    source, catalog = lineage.source, lineage.catalog

    @dg.op(
        name=catalog.name(f"range_of_{source}"),
        description=f"Replays a range of {source} through silver and downstream. Missing log is fetched into bronze "
        "first.",
        ins={"checked": dg.In(dg.Nothing)},
        out=dg.Out(dg.Nothing),
        required_resource_keys={catalog.spark},
        pool=lineage.pool,
    )
    @retried
    def step(context: dg.OpExecutionContext) -> None:
        # The form is read from the run's configuration: a retry of this step alone has no output of the first one.
        request = _request(context.run_config, source)
        with failing():
            log_range = request.range(pipeline)
        replay = Backfill(context, lineage, request, log_range).run(sessions(context, catalog.spark))
        metadata = replay.metadata()
        context.add_output_metadata(metadata)
        context.log_event(dg.AssetObservation(lineage.backfill, metadata=metadata))
        replay.require_all()

    return step


def _request(config: Mapping[str, Any], only: str = "") -> "BackfillRequest":
    from spark_jobs.pipeline.backfill.request import BackfillRequest

    return BackfillRequest(
        config.get("source", only),
        config.get("from", EARLIEST).strip(),
        config.get("to", LATEST).strip(),
        **choice_of(config),
    )
