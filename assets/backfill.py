"""Doing a range of the log again, from the UI: chosen files of a source as an asset, or places as steps of a job.

Put here: the files that are partitions and when they are registered, both steps, and what they say. Not here: what is
done (spark_jobs/pipeline/backfill/run.py), or the job that the steps stand in (dagster_project/jobs.py).

The live assets have no partitions. Those of ``backfill/<source>`` are the binlog files that bronze holds, and before
them those of the source's archive that follow each other up to there; one counts as made since it was done again.
Dagster orders them by when they were registered, so nothing but the two ends chosen is taken from it.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets import checkpoint
from assets.checkpoint import Metadata
from assets.downstream import merged_tables
from assets.keys import Lineage, silver_key
from assets.particulars import particulars_of
from assets.steps import FROM_TAG, RETRY, SOURCE_TAG, TO_TAG, Sessions, StepResult, failing
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import ConfigError, SourceError
from spark_jobs.log.position import FIRST_EVENT, Position, Range

if TYPE_CHECKING:  # these import pyspark
    from spark_jobs.bronze.files import BinlogFile
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
BROUGHT = "brought/range"
"""The part of the log that bronze lacked, and that was put before its oldest byte."""
BROUGHT_FILES = "brought/files"
BROUGHT_BYTES = "brought/bytes"
BROUGHT_FROM = "brought/from"
TOUCHED = "rows/touched"
NEW = "rows/new"
GONE = "rows/gone"

_SHOWN = 20
"""Tables in a run's list of changes."""
_AT_ONCE = 10_000
"""Partitions registered by one statement: SQLite takes no more than 32,000 variables."""
_LAYER = dg.Enum(
    "BackfillLayer",
    [
        dg.EnumValue("silver", description="decode the windows again, and replace those that differ"),
        dg.EnumValue("downstream", description="merge what was replaced; alone: the range's keys as silver has them"),
    ],
)
_CHOICE = {
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


def file_partitions(source: str) -> dg.DynamicPartitionsDefinition:
    """The binlog files of a source that can be done again."""
    return dg.DynamicPartitionsDefinition(name=f"binlog_files_{source}")


def register_files(instance: dg.DagsterInstance, pipeline: Pipeline, source: str) -> None:
    """Has Dagster know the files that bronze holds now, and those of the archive before them, in the log's order.

    New ones at the end are added; where older ones came or some went, all are registered again, because the order of
    partitions is that of their registration. Reads of bronze no more than what lies outside the known files.
    """
    from spark_jobs.bronze.files import held_files
    from spark_jobs.lake.layout import lake_of

    table = lake_of(pipeline).bronze(source)
    head = table.head()
    name = file_partitions(source).name
    assert name is not None
    keys = list(instance.get_dynamic_partitions(name))
    files = _files(keys)
    if head is None or head.checkpoint is None:
        _register(instance, name, keys, [])
        return
    oldest = _oldest(head.checkpoint)
    own_files = [file for file in files if file >= oldest]
    before = _archived(pipeline, source, oldest, [file for file in files if file < oldest])
    if not own_files or files != sorted(files):
        own_files = held_files(table, head)
    elif not _reaches(own_files, head.checkpoint):
        own_files = sorted({*held_files(table, head, (own_files[0], own_files[-1])), *own_files})
    _register(instance, name, keys, [str(file) for file in (*before, *own_files)])


def _archived(
    pipeline: Pipeline, source: str, oldest: "BinlogFile", files: "Sequence[BinlogFile]" = ()
) -> "list[BinlogFile]":
    """The files that the archive has of the log before bronze; those known where it cannot be listed just now."""
    from spark_jobs.bronze.files import archived_before
    from spark_jobs.source.files import Files

    folder = pipeline.sources[source].archive
    if folder is None:
        return []
    try:
        return archived_before(oldest, Files(source, folder).names())
    except SourceError as error:
        log.warning("%s; its files stay listed as they are", error)
        return list(files)


def _files(keys: Sequence[str]) -> "list[BinlogFile]":
    """The files that partitions stand for; none where somebody added one by hand that is no file."""
    with suppress(ConfigError):
        return _parsed(keys)
    return []


def register_again(instance: dg.DagsterInstance, source: str, files: "Sequence[BinlogFile]") -> None:
    """Has Dagster know these files and no others, in this order."""
    name = file_partitions(source).name
    assert name is not None
    _register(instance, name, list(instance.get_dynamic_partitions(name)), list(map(str, files)))


def _reaches(files: "list[BinlogFile]", at: Any) -> bool:
    """Whether the known files are those from bronze's oldest to the one that it ends in."""
    from spark_jobs.bronze.files import BinlogFile

    return (files[0], files[-1]) == (_oldest(at), BinlogFile.of(at.position))


def _oldest(at: Any) -> "BinlogFile":
    from spark_jobs.bronze import table as bronze
    from spark_jobs.bronze.files import BinlogFile

    return BinlogFile.of(bronze.oldest(at))


def _parsed(keys: Sequence[str]) -> "list[BinlogFile]":
    """Raises ConfigError for a partition that is no file."""
    from spark_jobs.bronze.files import BinlogFile

    return [BinlogFile.parse(key) for key in keys]


def _register(instance: dg.DagsterInstance, name: str, registered: list[str], files: list[str]) -> None:
    if files[: len(registered)] != registered:
        for key in registered:
            instance.delete_dynamic_partition(name, key)
        registered = []
    for at in range(len(registered), len(files), _AT_ONCE):
        instance.add_dynamic_partitions(name, files[at : at + _AT_ONCE])


def backfill_asset(pipeline: Pipeline, lineage: Lineage, pool: str) -> dg.AssetsDefinition:
    """``backfill/<source>``: materializing a range of its files does that range again, in one run."""
    source, key = lineage.source, lineage.backfill
    origin = "mysql" if pipeline.sources[source].mysql else "file"

    @dg.multi_asset(
        name=f"backfill_{source}",
        specs=[
            dg.AssetSpec(
                key,
                deps=[lineage.bronze],
                group_name=lineage.group("bronze"),
                description=f"The binlog files of {source} that bronze holds, or its archive. Materializing a range of "
                "them does it again from bronze, which first gets what it lacks, through silver and downstream, in one "
                "run; what decodes to the rows that are there already is not written.",
                kinds={"bronze", origin, "deltalake"},
                owners=pipeline.owners,
            )
        ],
        partitions_def=file_partitions(source),
        backfill_policy=dg.BackfillPolicy.single_run(),
        config_schema=_CHOICE,
        retry_policy=RETRY,
        pool=pool,
    )
    def backfill(
        context: dg.AssetExecutionContext, spark: dg.ResourceParam[Sessions]
    ) -> Iterator[dg.MaterializeResult[None]]:
        from spark_jobs.pipeline.backfill.request import BackfillRequest

        with failing():
            files, range_ = _chosen_range(context, pipeline, source)
            request = BackfillRequest(
                source, range_.start, range_.stop, **_choice(context.op_execution_context.op_config)
            )
        replay = _Backfill(context.op_execution_context, pipeline, request, range_).run(spark)
        yield dg.MaterializeResult(asset_key=key, metadata={FILES: files, **replay.metadata()})
        replay.require_all()

    return backfill


def _chosen_range(context: dg.AssetExecutionContext, pipeline: Pipeline, source: str) -> tuple[int, Range]:
    """How many files were chosen, and the range that they make.

    Raises LakeError for an empty bronze, ConfigError for files that are not there, or with others between them; then
    they are registered anew, since nothing but an old list makes a hole.
    """
    from spark_jobs.bronze.files import end_of, held_files, range_of, require_whole
    from spark_jobs.bronze.table import BronzeSnapshot
    from spark_jobs.lake.layout import lake_of

    snapshot = BronzeSnapshot.of(lake_of(pipeline), source)
    oldest = _oldest(snapshot.checkpoint)
    existing = [*_archived(pipeline, source, oldest), *held_files(snapshot.table, snapshot.head)]
    ends = context.partition_key_range
    files = sorted({*_parsed(context.partition_keys), *_parsed([ends.start, ends.end])})
    try:
        require_whole(files, existing)
    except ConfigError as error:
        register_again(context.instance, source, existing)
        raise ConfigError(
            f"{source}: {error}. The list of files is up to date now: reload the page and choose"
        ) from None
    if files[-1] < oldest:
        behind = existing[existing.index(files[-1]) + 1]
        stop = Position(behind.name, FIRST_EVENT, behind.stretch)
        range_ = Range(Position(files[0].name, FIRST_EVENT, files[0].stretch), stop)
    else:
        range_ = range_of(files[0], files[-1], end_of(snapshot.table, snapshot.head, files[-1]), snapshot.checkpoint)
    context.log.info("%s: %s to %s, files: %d, range %s", source, files[0], files[-1], len(files), range_)
    return len(files), range_


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
        **_CHOICE,
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
        replay = _Backfill(context, pipeline, request, range_).run(spark)
        metadata = replay.metadata()
        context.add_output_metadata(metadata)
        context.log_event(dg.AssetObservation(lineage.backfill, metadata=metadata))
        replay.require_all()

    return step


def _request(config: Mapping[str, Any], only: str = "") -> "BackfillRequest":
    from spark_jobs.pipeline.backfill.request import BackfillRequest

    return BackfillRequest(config.get("source", only), config["from"].strip(), config["to"].strip(), **_choice(config))


def _choice(config: Mapping[str, Any]) -> dict[str, Any]:
    """What both forms have in common; a run's configuration leaves out what it takes as it is."""
    from spark_jobs.pipeline.backfill.request import LAYERS

    archive = config.get("archive", "").strip()
    return {
        "tables": tuple(config.get("tables", ())),
        "layers": tuple(config.get("layers", LAYERS)),
        "archive": Path(archive) if archive else None,
    }


class _Backfill:
    """One backfill of a run: doing it, and what is said of it while and after it is done."""

    def __init__(
        self, context: dg.OpExecutionContext, pipeline: Pipeline, request: "BackfillRequest", range_: Range
    ) -> None:
        self._context, self._pipeline, self._request, self._range = context, pipeline, request, range_
        self._began = time.monotonic()
        self._redone: list[ReplayedTable] = []
        self._fetched: list[Fetched] = []
        self._outcome: Outcome | None = None

    def run(self, spark: Sessions) -> "_Backfill":
        """Logs every table as it is done, then publishes the materializations of those that changed."""
        from spark_jobs.pipeline.backfill.run import backfill_source

        request = self._request
        tags = {SOURCE_TAG: request.source, FROM_TAG: str(self._range.start), TO_TAG: str(self._range.stop)}
        self._context.instance.add_run_tags(self._context.run_id, tags)
        options = request.options(self._log_replayed, self._log_fetched)
        with failing():
            request.require_valid(self._pipeline)
            self._outcome = backfill_source(
                spark.session(), self._pipeline, request.source, self._range, request.wants, options=options
            )
        self._publish(self._outcome)
        if self._fetched:
            register_files(self._context.instance, self._pipeline, request.source)
        return self

    def _log_fetched(self, fetched: "Fetched") -> None:
        self._fetched.append(fetched)
        self._context.log.info("%s: brought %s", fetched.source, fetched)

    def _log_replayed(self, replayed: "ReplayedTable", at: int, of: int) -> None:
        self._redone.append(replayed)
        self._context.log.info("%d/%d %s", at, of, replayed)

    def metadata(self) -> Metadata:
        """What was touched, and what of it really differed."""
        outcome = self._outcome
        assert outcome is not None
        touched = [replayed for replayed in self._redone if replayed.windows]
        differences = [replayed.difference for replayed in touched if replayed.difference]
        rows = {
            TOUCHED: sum(difference.rows for difference in differences),
            NEW: sum(difference.new for difference in differences),
            GONE: sum(difference.gone for difference in differences),
            checkpoint.INSERTED: sum(merged.inserted for merged in outcome.merged),
            checkpoint.UPDATED: sum(merged.updated for merged in outcome.merged),
            checkpoint.DELETED: sum(merged.deleted for merged in outcome.merged),
        }
        changed = [replayed for replayed in touched if replayed.compacted]
        return {
            **checkpoint.of_range(self._range),
            TABLES: len(touched),
            WINDOWS: sum(len(replayed.windows) for replayed in touched),
            CHANGED: len(changed),
            **{key: checkpoint.number(value) for key, value in rows.items()},
            checkpoint.SECONDS: round(time.monotonic() - self._began, 3),
            **self._of_brought(),
            **({LISTED: "\n".join(map(str, changed[:_SHOWN]))} if changed else {}),
        }

    def _of_brought(self) -> Metadata:
        if not self._fetched:
            return {}
        fetched_range = Range(self._fetched[-1].range.start, self._fetched[0].range.stop)
        return {
            BROUGHT: str(fetched_range),
            BROUGHT_FILES: sum(fetched.files for fetched in self._fetched),
            BROUGHT_BYTES: checkpoint.number(sum(fetched.bytes for fetched in self._fetched)),
            BROUGHT_FROM: ", ".join(dict.fromkeys(fetched.origin for fetched in self._fetched)),
        }

    def require_all(self) -> None:
        """Fails the step, after all else is done, where a table could not be done again."""
        stopped = self._outcome.stopped if self._outcome else {}
        if stopped:
            listed = "\n".join(stopped.values())
            raise dg.Failure(f"{len(stopped)} tables were not replayed:\n{listed}", allow_retries=False)

    def _publish(self, outcome: "Outcome") -> None:
        """The materializations of tables whose rows changed; their positions are what they were."""
        from spark_jobs.lake.layout import lake_of

        lake, source = lake_of(self._pipeline), self._request.source
        particulars = particulars_of(self._pipeline, source)
        for compacted in outcome.compacted:
            name = (compacted.name.schema, compacted.name.table)
            metadata = checkpoint.of_compacted(compacted, lake.silver(source, *name)) | particulars(
                compacted.name, compacted.range
            )
            self._log(
                silver_key(source, name),
                StepResult(compacted.head.position or compacted.range.stop, metadata),
                compacted.head.version,
            )
        for key, step in merged_tables(self._pipeline, source, outcome, is_live=False).items():
            self._log(key, step, step.metadata[checkpoint.VERSION])

    def _log(self, key: dg.AssetKey, step: StepResult, version: int) -> None:
        """The position alone would say that nothing changed, so the data version names Delta's too."""
        ends = {FROM: str(self._range.start), TO: str(self._range.stop)}
        tags = checkpoint.version_tag(f"{step.position} version {version}")
        self._context.log_event(dg.AssetMaterialization(key, metadata=step.metadata | ends, tags=tags))
