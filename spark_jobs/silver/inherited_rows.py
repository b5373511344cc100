"""The rows that a table inherits from the one whose name it takes, as rows of silver.

Put here: the rows of the other table, of its silver and of log that is not there yet, projected to its newest columns.
Not here: which table that was (rename_lineage.py), or the commit (compact.py).
"""

from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.config.filters import TableFilters
from spark_jobs.lake.ranges import union
from spark_jobs.silver import partial_rows
from spark_jobs.silver import table as silver
from spark_jobs.silver.compaction_job import CompactionJob
from spark_jobs.silver.partial_rows import ABSENT_TYPE
from spark_jobs.silver.projection import projection_of
from spark_jobs.silver.statement_commits import definition_after
from spark_jobs.silver.table_timeline import (
    DataRange,
    SchemaChange,
    SilverSnapshot,
    TableContents,
)
from spark_jobs.silver.window_rows import counted_images, last_of_each, overlaid, window_rows
from spark_jobs.text.sql import identifier, literal


def inherited_rows(spark: SparkSession, work: CompactionJob, turn: SchemaChange) -> DataFrame:
    """What a table held that took the name of the work's, as silver rows of the statement that gave it the name."""
    assert turn.inherited
    columns = silver.columns(definition_after(turn), has_partial=work.has_partial)
    inherited = _inherited(spark, work, turn.inherited)
    inherited = inherited if turn.origins is None else _rekeyed(inherited, str(work), turn)
    cells_ = {
        "_op": literal(silver.Op.RENAME),
        "_existed": "NULL" if columns.is_bag else "false",
        "_position": silver.at_sql(turn.range.start),
        "_window_start": silver.place_sql(turn.range.start),
        "_window_stop": silver.place_sql(turn.range.stop),
    }
    return inherited.selectExpr(
        *silver.cells_sql(columns.stored, {name: identifier(name) for name in inherited.columns} | cells_)
    )


def _rekeyed(inherited: DataFrame, name: str, turn: SchemaChange) -> DataFrame:
    """The rows that a table held, a row each, as it has them behind a statement that changed what tells them apart."""
    assert turn.inherited
    assert turn.inherited.standing.definition
    before, after = silver.columns(turn.inherited.standing.definition), silver.columns(definition_after(turn))
    if before.is_bag:
        reason = (
            f"spark_jobs.errors.TableStopped: {name}: its rows are counted, and get a key at {turn.range.start}, by "
            "which two would be one; what the lake has of it is not what the server had (stratalog verify)\n\n"
        )
        alone = f"IF({silver.COPIES} = 1, true, CAST(raise_error({literal(reason)}) AS BOOLEAN))"
        inherited = inherited.where(alone).drop(silver.COPIES)
    now = projection_of(before.types, [turn]).sql()
    names = [*after.types, "_raw", "_committed_at"]
    cells = [f"{now.get(name, identifier(name))} AS {identifier(name)}" for name in names]
    return inherited.selectExpr(*cells, *([f"1L AS {silver.COPIES}"] if after.is_bag else []))


def _inherited(spark: SparkSession, work: CompactionJob, content: TableContents) -> DataFrame:
    """What a table held: a row per key, or an image with its copies, and ``_committed_at`` and ``_raw``."""
    definition = content.standing.definition
    assert definition
    # The columns of the result: the definition that the table had last.
    content = content.alive
    bases = [] if content.base is None else [content.base.table.columns()]
    has_partial = work.has_partial or any(silver.ABSENT in base for base in bases)
    columns = silver.columns(definition, has_partial=has_partial)
    source_job = replace(work, name=content.name, size=content.size, filters=TableFilters(skips=content.skips))
    # Rows by their columns, from the oldest: silver's own rows, then each window after them, then what it inherited.
    parts = []
    if content.base:
        parts.append((_alive(spark, content.base), content.base.columns, 0))
    for at, step in enumerate(content.steps):
        if isinstance(step, DataRange):
            window = replace(source_job.part(step.range), xa=content.xa, cuts=frozenset([step.range.start]))
            net = window_rows(spark, source_job, window, step.standing)
            parts.append((net.rows, step.standing.columns, at + 1))
        elif step.inherited:
            parts.append((inherited_rows(spark, source_job, step), silver.columns(definition_after(step)), at + 1))
    # Each part as the present columns have it, by the statements that came after it.
    names = [*columns.types, "_op", "_position", "_committed_at", "_raw", *([silver.COPIES] if columns.is_bag else [])]
    names += [silver.ABSENT] if has_partial else []
    projections = []
    for part, before, at in parts:
        rows = part if silver.ABSENT in part.columns else part.withColumn(silver.ABSENT, F.lit(None).cast(ABSENT_TYPE))
        now = projection_of(before.types, [step for step in content.steps[at:] if isinstance(step, SchemaChange)]).sql()
        projections.append(
            rows.selectExpr(*(f"{now.get(name, identifier(name))} AS {identifier(name)}" for name in names))
        )
    standing = content.standing
    lacks_older = standing.is_numbered and not standing.is_complete
    name = f"{work.source}: {content.name}"
    return _settled(union(projections), columns, name, lacks_older=lacks_older)


def _alive(spark: SparkSession, base: SilverSnapshot) -> DataFrame:
    """Silver's rows at a version, without what stands before the last statement that emptied the table."""
    rows = base.table.read(spark, base.version).where(f"_op <> '{silver.Op.TRUNCATE}'")
    return rows.where(f"_position > {silver.before_sql(base.emptied)}") if base.emptied else rows


def _settled(rows: DataFrame, columns: silver.Columns, name: str, *, lacks_older: bool) -> DataFrame:
    """Of rows of several windows what is there in the end: the last of each key, or the copies of each image.

    lacks_older: as ``silver.copies_sql`` has it.
    """
    rows = rows.withColumn("_window", F.lit(0))
    # Partial rows are laid over each other; one that is never whole raises in the task that meets it.
    if columns.has_partial and not columns.is_bag:
        overlaid_rows = overlaid(rows.withColumn("_gone", F.expr(f"_op = '{silver.Op.DELETE}'")), columns)
        reason = (
            f"spark_jobs.errors.TableStopped: {name}: it was renamed, or its key changed, and its row images left "
            "columns out of rows that the log never held whole; load it first\n\n"
        )
        checked = F.expr(f"IF({silver.ABSENT} IS NULL, _gone, CAST(raise_error({literal(reason)}) AS BOOLEAN))")
        return (
            overlaid_rows.withColumn("_gone", checked)
            .where("NOT _gone")
            .drop("_gone", silver.ABSENT, partial_rows.ENDED)
        )
    # Whole rows: the last of each key, or the sum of each image's copies.
    if not columns.is_bag:
        names = [*columns.types, "_op", "_position", "_committed_at", "_raw"]
        return last_of_each(rows, columns, names, F.count("*").alias("_changes")).where(f"_op <> '{silver.Op.DELETE}'")
    overlaid_rows = counted_images(rows, columns)
    copies = silver.copies_sql(silver.COPIES, name, lacks_older=lacks_older)
    return overlaid_rows.withColumn(silver.COPIES, F.expr(copies)).where(f"{silver.COPIES} > 0")
