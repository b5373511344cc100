"""Folding: old windows of a silver table become one, below a floor under which nothing can be replayed.

Put here: which windows may be folded, and the fold. Not here: when that is looked for (maintenance.py), or refusing a
range that lies below the floor (pipeline/backfill/run.py).

The windows that end before bronze begins become one: a row per key, or an image with its copies, as all of them
leave it. What they leave deleted has no row any more, since no older row is left that it has to outdo. That is one
commit under the table's counter, which says up to where (``folded``), and it changes nothing downstream: so it is done
only where downstream has all that silver has. Why it is sound: docs/adr/0009-retention.md.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.binlog import TableName
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.commit import stretches
from spark_jobs.bronze.log_index import Stretch
from spark_jobs.config.modes import Mode
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.multi_source import SharedPart, view
from spark_jobs.downstream.publication import Entry
from spark_jobs.lake.commit import CommitKind, Head, new_batch
from spark_jobs.lake.layout import Lake
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.pipeline.initial_load.commit import progress
from spark_jobs.runtime.spark_session import session_over
from spark_jobs.silver import partial_rows
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.text.sql import identifier

log = logging.getLogger(__name__)

_WORTH = 4
"""So many times the rows that are to be folded is what may be folded already: a row is written again, all in all, a
number of times that grows with the logarithm of what the table has seen, not with its age."""


_START, _STOP, _FIRST, _LEFT = (f"{silver.IDENTITY}{name}" for name in ("start", "stop", "first", "left"))
"""Columns that rows have besides while they are folded, by names that no source column may have."""


@dataclass(frozen=True, slots=True)
class Folded:
    """What a fold did: the windows up to ``floor`` are one since."""

    name: TableName
    floor: Position
    rows_before: int
    rows_after: int
    """Both of the windows below the floor."""


@dataclass(frozen=True, slots=True)
class _OldWindows:
    """What a table has below the place where bronze begins, and up to where it is to be folded."""

    floor: Position
    rows: int
    emptied: str | None
    """SQL: the place of the last statement there that emptied the table."""


def why_not(lake: Lake, entry: Entry, head: Head) -> str | None:
    """Why a silver table at this head is not folded now; None where it may be."""
    load = progress(lake, entry.source, TableName(*entry.name))
    if entry.is_reset:
        return "it is reset, and the next run rebuilds it"
    if load and load.is_open:
        return "it is being loaded"
    if head.checkpoint is None or head.checkpoint.kind == CommitKind.ALTERING:
        return "it is between two sets of columns, where a run ended"
    merged = [view(Table(target.path, lake.plain), (entry.source, *entry.name)) for target in entry.into]
    if any(isinstance(target, SharedPart) for target in merged):
        return "it has keys in common with other sources' tables, whose older changes its deletes have to outdo"
    keeping = next((target.mode for target in entry.into if target.mode != Mode.MIRROR), None)
    if keeping:
        return f"a downstream table of it keeps what was deleted (mode: {keeping})"
    is_merged = bool(merged) and all(_is_merged(lake, entry, head, target) for target in merged)
    return None if is_merged else "downstream has not got all of it yet"


def _is_merged(lake: Lake, entry: Entry, head: Head, table: Table) -> bool:
    """Whether downstream has all of silver: no window, and no replayed window, is still to be merged."""
    merged = DownstreamCommit.of_head(table.head())
    if merged is None:
        return False
    since = lake.silver(entry.source, *entry.name).since(merged.silver_version)
    return all(checkpoint.kind == CommitKind.MAINTENANCE for version, checkpoint in since if version <= head.version)


def fold(spark: SparkSession, lake: Lake, entry: Entry) -> Folded | None:
    """Folds the windows that bronze does not go back to; None where there is too little to fold.

    Raises LostRace where another writer of the table came first, LakeError.
    """
    # Only windows before bronze's oldest byte are folded: those after it can be replayed.
    table, bronze_head = lake.silver(entry.source, *entry.name), lake.bronze(entry.source).head()
    head = table.head()
    if bronze_head is None or bronze_head.checkpoint is None or head is None or head.checkpoint is None:
        return None
    oldest = bronze.oldest(bronze_head.checkpoint)
    if oldest == bronze.begin(bronze_head.checkpoint):
        return None
    session = session_over(spark, 0)
    old_rows = _old(session, table, head, oldest, stretches(bronze_head.checkpoint))
    if old_rows is None:
        return None
    # One row a key, or one an image with its copies, replaces the windows below the floor in one commit.
    session = session_over(spark, sum(table.files()))
    rows = folded(_below(session, table, head, old_rows.floor), silver.stored_columns(table, head), old_rows.emptied)
    commit = replace(
        SilverCommit.of(head.checkpoint), batch=new_batch(), kind=CommitKind.MAINTENANCE, folded_to=old_rows.floor
    )
    landed = table.replace(rows, _condition(old_rows.floor), head, commit)
    # Counted at the table, not at the plan: what was written is what is reported.
    after = _below(session, table, landed, old_rows.floor).count()
    name = TableName(*entry.name)
    log.info("%s: %s: folded up to %s, %d rows to %d", entry.source, name, old_rows.floor, old_rows.rows, after)
    return Folded(name, old_rows.floor, old_rows.rows, after)


def _condition(floor: Position) -> str:
    return f"_window_stop <= {silver.place_sql(floor)}"


def _below(spark: SparkSession, table: Table, head: Head, floor: Position) -> DataFrame:
    return table.read(spark, head.version).where(_condition(floor))


def _old(
    spark: SparkSession, table: Table, head: Head, oldest: Position, generations: Sequence[Stretch]
) -> _OldWindows | None:
    """None where no two windows are to be folded, or so few rows that it is not worth writing those folded before."""
    assert head.checkpoint is not None
    # Counts of the windows below bronze's oldest byte, and of the rows that an earlier fold left.
    before = silver.folded(head)
    is_before = _condition(before) if before else "FALSE"
    markers = f"_op = '{silver.Op.TRUNCATE}'"
    (row,) = table.collect(
        _below(spark, table, head, oldest).selectExpr(
            "max(_window_stop) AS floor",
            "count(DISTINCT struct(_window_start, _window_stop)) AS windows",
            "count(*) AS held",
            f"count_if({is_before}) AS done",
            f"max(IF({markers}, _position, NULL)) AS emptied",
        )
    )
    # A second fold writes the first one's rows again, so it has to be worth it.
    if row["windows"] < 2 or (row["held"] - row["done"]) * _WORTH < row["done"]:
        return None
    # Rows before the last statement that emptied the table are not part of what is folded.
    floor = _position(row["floor"], generations)
    emptied = SilverCommit.of(head.checkpoint).emptied_at
    places = [_change_sql(row["emptied"])] if row["emptied"] else []
    places += [silver.before_sql(emptied)] if emptied and emptied <= floor else []
    last = f"greatest({', '.join(places)})" if len(places) > 1 else next(iter(places), None)
    return _OldWindows(floor, row["held"], last)


def _change_sql(place: Sequence[int]) -> str:
    stretch, number, offset, row = place
    return f"named_struct('stretch', {stretch}, 'number', {number}L, 'offset', {offset}L, 'row', {row})"


def _position(place: Sequence[int], generations: Sequence[Stretch]) -> Position:
    """A stored place as a position; the files of a stretch share their base name."""
    stretch, number, offset = place
    (generation,) = (generation_ for generation_ in generations if generation_.number == stretch)
    return Position(generation.file(number), offset, stretch)


def folded(rows: DataFrame, columns: silver.Columns, emptied: str | None = None) -> DataFrame:
    """All rows of a silver table below a floor as those of one window, which begins and ends where they do.

    emptied: SQL, a place as that of changes; what stands at or before it counts no more.
    """
    ends = rows.selectExpr(f"min(_window_start) AS {_START}", f"max(_window_stop) AS {_STOP}")
    alive = rows.where(f"_op <> '{silver.Op.TRUNCATE}'")
    alive = alive.where(f"_position > {emptied}") if emptied else alive
    keys = [f"{silver.IDENTITY}{at}" for at in range(len(columns.identity()))]
    identity = {key: F.expr(cell) for key, cell in zip(keys, columns.identity(), strict=True)}
    alive = alive.withColumns(identity | {"_gone": F.expr(f"_op = '{silver.Op.DELETE}'")})
    if columns.is_bag:
        surviving = _copies(alive, columns, keys)
    else:
        surviving = (_laid_over if columns.has_partial else _last)(alive, columns, keys)
    positions = {"_window_start": _START, "_window_stop": _STOP}
    names = {name: positions.get(name, identifier(name)) for name in columns.stored}
    return surviving.crossJoin(ends).selectExpr(
        *(f"CAST({names[name]} AS {kind}) AS {identifier(name)}" for name, kind in columns.stored.items())
    )


def _existed() -> Column:
    """Whether the key was there before its first row, of which a load does not tell."""
    return F.min_by("_existed", "_position").alias(_FIRST)


def _surviving(summed: DataFrame) -> DataFrame:
    """Without the keys that are gone; the others with what all of their rows are together."""
    operation = {
        "_op": f"IF({_FIRST}, '{silver.Op.UPDATE}', '{silver.Op.INSERT}')",
        "_existed": f"coalesce({_FIRST}, false)",
    }
    return summed.where("NOT _gone").withColumns({name: F.expr(text) for name, text in operation.items()})


def _last(rows: DataFrame, columns: silver.Columns, keys: Sequence[str]) -> DataFrame:
    """Of each key its last row, where that does not say that the key is gone."""
    cells = F.struct(*map(identifier, [*columns.types, "_position", "_committed_at", "_raw", "_gone"]))
    last = rows.groupBy(*keys).agg(F.max_by(cells, "_position").alias("last"), _existed())
    return _surviving(last.select("last.*", _FIRST))


def _laid_over(rows: DataFrame, columns: silver.Columns, keys: Sequence[str]) -> DataFrame:
    """The same of rows that may lack columns; what a key lacks after all stays absent."""
    return _surviving(partial_rows.folded(rows, keys, columns.types, _existed()))


def _copies(rows: DataFrame, columns: silver.Columns, keys: Sequence[str]) -> DataFrame:
    """Of each image of a bag how many copies are left; fewer than none where it was there before the log."""
    cells_ = [*columns.types, "_position", "_committed_at", "_raw", *([silver.ABSENT] if columns.has_partial else [])]
    cells = F.struct(*map(identifier, cells_))
    counted = rows.groupBy(*keys).agg(F.max_by(cells, "_position").alias("last"), F.sum(silver.COPIES).alias(_LEFT))
    operation = {
        "_op": F.expr(f"IF({_LEFT} > 0, '{silver.Op.INSERT}', '{silver.Op.DELETE}')"),
        "_existed": F.lit(None).cast("boolean"),
    }
    surviving = counted.where(f"{_LEFT} <> 0").select("last.*", F.col(_LEFT).alias(silver.COPIES), _LEFT)
    return surviving.withColumns(operation)
