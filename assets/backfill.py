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
from assets.steps import FROM_TAG, RETRY, SOURCE_TAG, TO_TAG, Done, Sessions, failing
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
    "layers": dg.Field([_LAYER], default_value=["silver", "downstream"], description="What is done again."),
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
    known = _files(keys)
    if head is None or head.checkpoint is None:
        _register(instance, name, keys, [])
        return
    oldest = _oldest(head.checkpoint)
    own = [one for one in known if one >= oldest]
    before = _archived(pipeline, source, oldest, [one for one in known if one < oldest])
    if not own or known != sorted(known):
        own = held_files(table, head)
    elif not _reaches(own, head.checkpoint):
        own = sorted({*held_files(table, head, (own[0], own[-1])), *own})
    _register(instance, name, keys, [str(one) for one in (*before, *own)])


def _archived(
    pipeline: Pipeline, source: str, oldest: "BinlogFile", known: "Sequence[BinlogFile]" = ()
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
        return list(known)


def _files(keys: Sequence[str]) -> "list[BinlogFile]":
    """The files that partitions stand for; none where somebody added one by hand that is no file."""
    with suppress(ConfigError):
        return _parsed(keys)
    return []


def register_again(instance: dg.DagsterInstance, source: str, held: "Sequence[BinlogFile]") -> None:
    """Has Dagster know these files and no others, in this order."""
    name = file_partitions(source).name
    assert name is not None
    _register(instance, name, list(instance.get_dynamic_partitions(name)), list(map(str, held)))


def _reaches(known: "list[BinlogFile]", at: Any) -> bool:
    """Whether the known files are those from bronze's oldest to the one that it ends in."""
    from spark_jobs.bronze.files import BinlogFile

    return (known[0], known[-1]) == (_oldest(at), BinlogFile.of(at.position))


def _oldest(at: Any) -> "BinlogFile":
    from spark_jobs.bronze import table as bronze
    from spark_jobs.bronze.files import BinlogFile

    return BinlogFile.of(bronze.oldest(at))


def _parsed(keys: Sequence[str]) -> "list[BinlogFile]":
    """Raises ConfigError for a partition that is no file."""
    from spark_jobs.bronze.files import BinlogFile

    return [BinlogFile.parse(key) for key in keys]


def _register(instance: dg.DagsterInstance, name: str, known: list[str], held: list[str]) -> None:
    if held[: len(known)] != known:
        for key in known:
            instance.delete_dynamic_partition(name, key)
        known = []
    for at in range(len(known), len(held), _AT_ONCE):
        instance.add_dynamic_partitions(name, held[at : at + _AT_ONCE])


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
            files, wanted = _chosen(context, pipeline, source)
            request = BackfillRequest(
                source, wanted.start, wanted.stop, **_choice(context.op_execution_context.op_config)
            )
        done = _Backfill(context.op_execution_context, pipeline, request, wanted).run(spark)
        yield dg.MaterializeResult(asset_key=key, metadata={FILES: files, **done.metadata()})
        done.require_all()

    return backfill


def _chosen(context: dg.AssetExecutionContext, pipeline: Pipeline, source: str) -> tuple[int, Range]:
    """How many files were chosen, and the range that they make.

    Raises LakeError for an empty bronze, ConfigError for files that are not there, or with others between them; then
    they are registered anew, since nothing but an old list makes a hole.
    """
    from spark_jobs.bronze.files import end_of, held_files, range_of, require_whole
    from spark_jobs.bronze.table import Held
    from spark_jobs.lake.layout import lake_of

    held = Held.of(lake_of(pipeline), source)
    oldest = _oldest(held.checkpoint)
    there = [*_archived(pipeline, source, oldest), *held_files(held.table, held.head)]
    ends = context.partition_key_range
    files = sorted({*_parsed(context.partition_keys), *_parsed([ends.start, ends.end])})
    try:
        require_whole(files, there)
    except ConfigError as error:
        register_again(context.instance, source, there)
        raise ConfigError(f"{source}: {error}. The files are listed anew now: load the page again and choose") from None
    if files[-1] < oldest:
        behind = there[there.index(files[-1]) + 1]
        stop = Position(behind.name, FIRST_EVENT, behind.stretch)
        wanted = Range(Position(files[0].name, FIRST_EVENT, files[0].stretch), stop)
    else:
        wanted = range_of(files[0], files[-1], end_of(held.table, held.head, files[-1]), held.checkpoint)
    context.log.info("%s: %s to %s, files: %d, range %s", source, files[0], files[-1], len(files), wanted)
    return len(files), wanted


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
            wanted = request.range(spark.session(), pipeline)
        done = _Backfill(context, pipeline, request, wanted).run(spark)
        metadata = done.metadata()
        context.add_output_metadata(metadata)
        context.log_event(dg.AssetObservation(lineage.backfill, metadata=metadata))
        done.require_all()

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
        self, context: dg.OpExecutionContext, pipeline: Pipeline, request: "BackfillRequest", wanted: Range
    ) -> None:
        self._context, self._pipeline, self._request, self._wanted = context, pipeline, request, wanted
        self._began = time.monotonic()
        self._redone: list[ReplayedTable] = []
        self._brought: list[Fetched] = []
        self._outcome: Outcome | None = None

    def run(self, spark: Sessions) -> "_Backfill":
        """Logs every table as it is done, then publishes the materializations of those that changed."""
        from spark_jobs.pipeline.backfill.run import backfill_source

        request = self._request
        tags = {SOURCE_TAG: request.source, FROM_TAG: str(self._wanted.start), TO_TAG: str(self._wanted.stop)}
        self._context.instance.add_run_tags(self._context.run_id, tags)
        options = request.options(self._said, self._heard)
        with failing():
            request.require_valid(self._pipeline)
            self._outcome = backfill_source(
                spark.session(), self._pipeline, request.source, self._wanted, request.wants, options=options
            )
        self._publish(self._outcome)
        if self._brought:
            register_files(self._context.instance, self._pipeline, request.source)
        return self

    def _heard(self, one: "Fetched") -> None:
        self._brought.append(one)
        self._context.log.info("%s: brought %s", one.source, one)

    def _said(self, one: "ReplayedTable", at: int, of: int) -> None:
        self._redone.append(one)
        self._context.log.info("%d/%d %s", at, of, one)

    def metadata(self) -> Metadata:
        """What was touched, and what of it really differed."""
        outcome = self._outcome
        assert outcome is not None
        touched = [one for one in self._redone if one.windows]
        found = [one.difference for one in touched if one.difference]
        rows = {
            TOUCHED: sum(one.rows for one in found),
            NEW: sum(one.new for one in found),
            GONE: sum(one.gone for one in found),
            checkpoint.INSERTED: sum(one.inserted for one in outcome.merged),
            checkpoint.UPDATED: sum(one.updated for one in outcome.merged),
            checkpoint.DELETED: sum(one.deleted for one in outcome.merged),
        }
        changed = [one for one in touched if one.compacted]
        return {
            **checkpoint.of_range(self._wanted),
            TABLES: len(touched),
            WINDOWS: sum(len(one.windows) for one in touched),
            CHANGED: len(changed),
            **{key: checkpoint.number(value) for key, value in rows.items()},
            checkpoint.SECONDS: round(time.monotonic() - self._began, 3),
            **self._of_brought(),
            **({LISTED: "\n".join(map(str, changed[:_SHOWN]))} if changed else {}),
        }

    def _of_brought(self) -> Metadata:
        if not self._brought:
            return {}
        brought = Range(self._brought[-1].range.start, self._brought[0].range.stop)
        return {
            BROUGHT: str(brought),
            BROUGHT_FILES: sum(one.files for one in self._brought),
            BROUGHT_BYTES: checkpoint.number(sum(one.bytes for one in self._brought)),
            BROUGHT_FROM: ", ".join(dict.fromkeys(one.origin for one in self._brought)),
        }

    def require_all(self) -> None:
        """Fails the step, after all else is done, where a table could not be done again."""
        stopped = self._outcome.stopped if self._outcome else {}
        if stopped:
            listed = "\n".join(stopped.values())
            raise dg.Failure(f"{len(stopped)} tables were not done again:\n{listed}", allow_retries=False)

    def _publish(self, outcome: "Outcome") -> None:
        """The materializations of tables whose rows changed; their positions are what they were."""
        from spark_jobs.lake.layout import lake_of

        lake, source = lake_of(self._pipeline), self._request.source
        particulars = particulars_of(self._pipeline, source)
        for one in outcome.compacted:
            name = (one.name.schema, one.name.table)
            metadata = checkpoint.of_compacted(one, lake.silver(source, *name)) | particulars(one.name, one.range)
            self._log(silver_key(source, name), Done(one.head.position or one.range.stop, metadata), one.head.version)
        for key, done in merged_tables(self._pipeline, source, outcome, is_live=False).items():
            self._log(key, done, done.metadata[checkpoint.VERSION])

    def _log(self, key: dg.AssetKey, done: Done, version: int) -> None:
        """The position alone would say that nothing changed, so the data version names Delta's too."""
        said = {FROM: str(self._wanted.start), TO: str(self._wanted.stop)}
        tags = checkpoint.version_tag(f"{done.position} version {version}")
        self._context.log_event(dg.AssetMaterialization(key, metadata=done.metadata | said, tags=tags))
