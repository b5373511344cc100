"""Rows of a child table that a mend or a load writes to silver: changes by foreign keys may be derived without them.

A run derives from the mirrors of child tables and commits up to where that is complete. Rows that get to silver
meanwhile are in no mirror. So whoever wrote such rows fences ``cascades/<source>`` afterwards: a run that has not
committed loses, and derives again with them; the position of one that has committed is read there.

Put here: the fence, and the note of what was not derived. Not here: what a run does about rows of silver that its
mirrors lack (step.py).
"""

from collections.abc import Collection
from dataclasses import replace

from spark_jobs.binlog import TableName
from spark_jobs.bronze import derived_slices
from spark_jobs.bronze.derived_slices import CascadesCommit
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.model import Pipeline
from spark_jobs.ddl.unlogged_changes import UnloggedChanges
from spark_jobs.errors import TableStopped
from spark_jobs.lake import driver_commit
from spark_jobs.lake.commit import CommitKind, new_batch
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.retry import retry_on_conflict
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.cascades.refusals import is_applied
from spark_jobs.pipeline.cascades.unlogged_changes import SourceUnloggedChanges, first_cascade_of

_READ_MEANWHILE = "its rows were read at the same time"


def derived_without(
    pipeline: Pipeline, gaps: SourceUnloggedChanges, name: TableName, since: Position
) -> Position | None:
    """The position up to which changes of a child table were derived without rows that are in silver since.

    None for a table whose changes are not derived, and where all of them after ``since`` will be derived with the rows.
    gaps: those of the source's log. since: the position that the rows are of. Raises LostRace, LakeError.
    """
    keys, table = _derived_keys(pipeline, gaps, name), lake_of(pipeline).cascades(gaps.source)
    if not keys:
        return None
    retry_on_conflict(lambda: _create_missing(table, since))
    table.fence()
    commit = CascadesCommit.of_head(table.head())
    texts = commit.positions if commit else {}
    reached = (Position.parse(texts[str(key.table)]) for key in keys if str(key.table) in texts)
    return max((position for position in reached if position > since), default=None)


def note_underived(pipeline: Pipeline, gaps: SourceUnloggedChanges, name: TableName, since: Position) -> None:
    """Note that rows of a child table in silver may lack changes that were derived without them, if there are such.

    gaps: those of the source's log. since: the position from which on the rows were read. Raises LostRace, LakeError.
    """
    end = derived_without(pipeline, gaps, name, since)
    if end is None:
        return
    lake, keys = lake_of(pipeline), _derived_keys(pipeline, gaps, name)
    try:
        is_changed = first_cascade_of(keys, BronzeSnapshot.of(lake, gaps.source), lake, Range(since, end)) is not None
    except TableStopped:  # the names of columns are not known there
        is_changed = True
    if is_changed:
        table, names = lake.cascades(gaps.source), {str(key.table) for key in keys}
        retry_on_conflict(lambda: _note_range(table, names, Range(since, end)))


def _derived_keys(pipeline: Pipeline, gaps: SourceUnloggedChanges, name: TableName) -> list[UnloggedChanges]:
    """The foreign keys of a child table whose changes are derived as far as that is possible."""
    return [gap for gap in gaps.of(name) if gap.key and is_applied(pipeline, gaps.actions, gap.table)]


def _create_missing(table: Table, position: Position) -> None:
    """Create the table where no change was derived yet: one that a run is about to create would be no conflict."""
    if table.head() is None:
        head = table.unwritten_head(derived_slices.COLUMNS, {})
        table.append_rows(derived_slices.rows_of([]), head, CascadesCommit(position, new_batch()))


def _note_range(table: Table, names: Collection[str], within: Range) -> None:
    """Commit in which range changes of child tables were not derived, and why."""
    head = table.head()
    stored = CascadesCommit.of_head(head)
    assert head is not None
    assert stored is not None
    # What a run has noted already (step.py) stands, from where it began.
    underived = dict(stored.underived)
    for name in names:
        note = underived.get(name, {"from": str(within.start), "reason": _READ_MEANWHILE})
        underived[name] = {**note, "to": str(within.stop)}
    commit = replace(stored, batch=new_batch(), kind=CommitKind.MAINTENANCE, changes=0, underived=underived)
    table.land(driver_commit.snapshot_upon(table.path, head, appends=True), head, commit)
