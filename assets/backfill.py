"""A range of the log replayed from the UI: chosen files of a source as an asset.

Put here: the asset, and what a replay says in its run. Not here: which files are partitions (partitions.py), the replay
(spark_jobs/pipeline/backfill/run.py), or a range by a form (dagster_project/ops/backfill_range.py).

The live assets have no partitions. Those of ``backfill/<source>`` are the binlog files that bronze holds, and before
them those of the source's archive that follow each other up to there; one counts as made since it was replayed.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets import checkpoint
from assets.catalog import AssetOf
from assets.checkpoint import Metadata
from assets.downstream import merged_tables
from assets.failures import failing, retried
from assets.lineage import Lineage
from assets.materialize import StepResult
from assets.particulars import particulars_of
from assets.partitions import (
    archived_files,
    file_partitions,
    files_of_keys,
    oldest_file,
    register_again,
    register_files,
)
from assets.progress import progress, sessions
from assets.steps import FROM_TAG, SOURCE_TAG, TO_TAG, Sessions
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import ConfigError
from spark_jobs.log.position import FIRST_EVENT, Position, Range
from spark_jobs.text.counts import counted

if TYPE_CHECKING:  # these import pyspark
    from spark_jobs.pipeline.backfill.request import BackfillRequest, ReplayedTable
    from spark_jobs.pipeline.outcome import Outcome
    from spark_jobs.pipeline.restore import Fetched

log = logging.getLogger(__name__)

FILES = "backfill/files"
FROM = "backfill/from"
TO = "backfill/to"
TABLES = "backfill/tables"
WINDOWS = "backfill/windows"
CHANGED = "backfill/tables_changed"
LISTED = "backfill/changes"
FETCHED = "brought/range"
"""The part of the log that bronze lacked, and that was put before its oldest byte."""
FETCHED_FILES = "brought/files"
FETCHED_BYTES = "brought/bytes"
FETCHED_FROM = "brought/from"
TOUCHED = "rows/touched"
NEW = "rows/new"
GONE = "rows/gone"
_SHOWN = 20
"""Tables in a run's list of changes."""
_LAYER = dg.Enum(
    "BackfillLayer",
    [
        dg.EnumValue("silver", description="decode the windows again, and replace those that differ"),
        dg.EnumValue("downstream", description="merge what was replaced; alone: the range's keys as silver has them"),
    ],
)
CHOICE = {
    "tables": dg.Field(
        [str], default_value=[], description="Tables as DB.TABLE, patterns too; none means all in scope."
    ),
    "layers": dg.Field([_LAYER], default_value=["silver", "downstream"], description="The layers to replay."),
    "archive": dg.Field(
        str,
        default_value="",
        description="A folder of copies of binlog files, where the run is, for what bronze lacks of the range; without "
        "it the one that pipeline.yaml names. What is not there is read from the source itself.",
    ),
}


def backfill_asset(pipeline: Pipeline, lineage: Lineage) -> dg.AssetsDefinition:
    """``backfill/<source>``: materializing a range of its files replays that range, in one run."""
    source, key, catalog = lineage.source, lineage.backfill, lineage.catalog
    spec = catalog.spec(AssetOf("backfill", source))

    @dg.multi_asset(
        name=catalog.name(f"replay_{source}"),  # backfill_range is a job
        specs=[spec.replace_attributes(deps=[lineage.bronze])],
        partitions_def=file_partitions(lineage),
        backfill_policy=dg.BackfillPolicy.single_run(),
        config_schema=CHOICE,
        required_resource_keys={catalog.spark},
        pool=lineage.pool,
    )
    @retried
    def backfill(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[None]]:
        from spark_jobs.pipeline.backfill.request import BackfillRequest

        # The partitions of the page are files of bronze or of its archive: together they must be a range.
        with failing():
            files, log_range = _chosen_range(context, pipeline, lineage)
            request = BackfillRequest(
                source, log_range.start, log_range.stop, **choice_of(context.op_execution_context.op_config)
            )
        replay = Backfill(context.op_execution_context, lineage, request, log_range).run(
            sessions(context, catalog.spark)
        )
        yield dg.MaterializeResult(asset_key=key, metadata={FILES: files, **replay.metadata()})
        replay.require_all()

    return backfill


def _chosen_range(context: dg.AssetExecutionContext, pipeline: Pipeline, lineage: Lineage) -> tuple[int, Range]:
    """Number of files that were chosen, and the range that they make.

    Raises LakeError for an empty bronze, ConfigError for files that are not there, or with others between them; then
    they are registered again, since nothing but an old list makes a hole.
    """
    from spark_jobs.bronze.files import end_of, held_files, range_of, require_whole
    from spark_jobs.bronze.table import BronzeSnapshot
    from spark_jobs.lake.layout import lake_of

    # Files that can be replayed: those of the archive before bronze's first, and those of bronze.
    source = lineage.source
    snapshot = BronzeSnapshot.of(lake_of(pipeline), source)
    oldest = oldest_file(snapshot.checkpoint)
    existing = [*archived_files(pipeline, source, oldest), *held_files(snapshot.table, snapshot.head)]
    ends = context.partition_key_range
    files = sorted({*files_of_keys(context.partition_keys), *files_of_keys([ends.start, ends.end])})
    try:
        require_whole(files, existing)
    except ConfigError as error:
        register_again(context.instance, lineage, existing)
        raise ConfigError(
            f"{source}: {error}. The list of files is up to date now: reload the page and choose"
        ) from None
    # A range that ends before bronze ends where the next file begins.
    if files[-1] < oldest:
        behind = existing[existing.index(files[-1]) + 1]
        stop = Position(behind.name, FIRST_EVENT, behind.stretch)
        log_range = Range(Position(files[0].name, FIRST_EVENT, files[0].stretch), stop)
    else:
        log_range = range_of(files[0], files[-1], end_of(snapshot.table, snapshot.head, files[-1]), snapshot.checkpoint)
    context.log.info("%s: %s to %s, files: %d, range %s", source, files[0], files[-1], len(files), log_range)
    return len(files), log_range


def choice_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Common part of both forms; a run's configuration leaves out what it takes as it is."""
    from spark_jobs.pipeline.backfill.request import LAYERS

    archive = config.get("archive", "").strip()
    return {
        "tables": tuple(config.get("tables", ())),
        "layers": tuple(config.get("layers", LAYERS)),
        "archive": Path(archive) if archive else None,
    }


class Backfill:
    """One backfill of a run: doing it, and what is said of it while and after it is done."""

    def __init__(
        self, context: dg.OpExecutionContext, lineage: Lineage, request: "BackfillRequest", log_range: Range
    ) -> None:
        self._context, self._lineage, self._request, self._range = context, lineage, request, log_range
        self._pipeline = lineage.catalog.pipeline
        self._began = time.monotonic()
        self._redone: list[ReplayedTable] = []
        self._fetched: list[Fetched] = []
        self._outcome: Outcome | None = None

    def run(self, spark: Sessions) -> "Backfill":
        """Log every table as it is done, then publish the materializations of those that changed."""
        from spark_jobs.pipeline.backfill.run import backfill_source

        request = self._request
        tags = {SOURCE_TAG: request.source, FROM_TAG: str(self._range.start), TO_TAG: str(self._range.stop)}
        self._context.instance.add_run_tags(self._context.run_id, tags)
        options = request.options(self._log_replayed, self._log_fetched)
        with failing(), progress(self._context):
            request.require_valid(self._pipeline)
            self._outcome = backfill_source(
                spark.session(), self._pipeline, request.source, self._range, request.wants, options=options
            )
        self._publish_tables(self._outcome)
        if self._fetched:
            register_files(self._context.instance, self._lineage)
        return self

    def _log_fetched(self, fetched: "Fetched") -> None:
        self._fetched.append(fetched)
        self._context.log.info("%s: fetched %s", fetched.source, fetched)

    def _log_replayed(self, replayed: "ReplayedTable", at: int, of: int) -> None:
        self._redone.append(replayed)
        self._context.log.info("%d/%d %s", at, of, replayed)

    def metadata(self) -> Metadata:
        """Metadata of the touched rows, and of those that really differed."""
        outcome = self._outcome
        # Tables whose windows were decoded again, and of these the ones in which rows differed.
        assert outcome is not None
        touched = [replayed for replayed in self._redone if replayed.windows]
        differences = [replayed.difference for replayed in touched if replayed.difference]
        rows = {
            TOUCHED: sum(difference.rows for difference in differences),
            NEW: sum(difference.new for difference in differences),
            GONE: sum(difference.removed for difference in differences),
            checkpoint.INSERTED: sum(merged.inserted for merged in outcome.merged),
            checkpoint.UPDATED: sum(merged.updated for merged in outcome.merged),
            checkpoint.DELETED: sum(merged.deleted for merged in outcome.merged),
        }
        changed = [replayed for replayed in touched if replayed.compacted]
        return {
            **checkpoint.range_metadata(self._range),
            TABLES: len(touched),
            WINDOWS: sum(len(replayed.windows) for replayed in touched),
            CHANGED: len(changed),
            **{key: checkpoint.number(value) for key, value in rows.items()},
            checkpoint.SECONDS: round(time.monotonic() - self._began, 3),
            **self._fetched_metadata(),
            **({LISTED: "\n".join(map(str, changed[:_SHOWN]))} if changed else {}),
        }

    def _fetched_metadata(self) -> Metadata:
        if not self._fetched:
            return {}
        fetched_range = Range(self._fetched[-1].range.start, self._fetched[0].range.stop)
        return {
            FETCHED: str(fetched_range),
            FETCHED_FILES: sum(fetched.files for fetched in self._fetched),
            FETCHED_BYTES: checkpoint.number(sum(fetched.bytes for fetched in self._fetched)),
            FETCHED_FROM: ", ".join(dict.fromkeys(fetched.origin for fetched in self._fetched)),
        }

    def require_all(self) -> None:
        """Fails the step, after all else is done, where a table could not be replayed."""
        stopped = self._outcome.stopped if self._outcome else {}
        if stopped:
            listed = "\n".join(stopped.values())
            raise dg.Failure(f"not replayed: {counted(len(stopped), 'table')}:\n{listed}", allow_retries=False)

    def _publish_tables(self, outcome: "Outcome") -> None:
        """The materializations of tables whose rows changed; their positions are what they were."""
        from spark_jobs.lake.layout import lake_of

        # Materializations of the tables' own assets, so that their history shows the replay too.
        lake, source = lake_of(self._pipeline), self._request.source
        particulars = particulars_of(self._pipeline, source)
        for compacted in outcome.compacted:
            name = (compacted.name.schema, compacted.name.table)
            metadata = checkpoint.compaction_metadata(compacted, lake.silver(source, *name)) | particulars(
                compacted.name, compacted.range
            )
            self._log(
                self._lineage.catalog.silver(source, name),
                StepResult(compacted.head.position or compacted.range.stop, metadata),
                compacted.head.version,
            )
        for key, step in merged_tables(self._lineage.catalog, source, outcome, is_live=False).items():
            self._log(key, step, step.metadata[checkpoint.VERSION])

    def _log(self, key: dg.AssetKey, step: StepResult, version: int) -> None:
        """The position alone would say that nothing changed, so the data version names Delta's too."""
        ends = {FROM: str(self._range.start), TO: str(self._range.stop)}
        tags = checkpoint.version_tag(f"{step.position} version {version}")
        self._context.log_event(dg.AssetMaterialization(key, metadata=step.metadata | ends, tags=tags))
