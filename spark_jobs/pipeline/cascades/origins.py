"""Tables that get the name of a child, and whose changes by foreign keys were not derived before.

Nothing is derived of a table that is out of scope. The copy of pt-online-schema-change is one: it has foreign keys too,
and takes the name of the child at last.

Put here: renames that bring rows which foreign keys may have changed. Not here: what becomes of the child
(step.py).
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import dropwhile

from spark_jobs.binlog import TableName
from spark_jobs.bronze.index import read_index
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.cascades.logged_rows import LoggedRow, logged_slices
from spark_jobs.cascades.parent_changes import Named
from spark_jobs.ddl.foreign_keys import CASCADING, ForeignKey
from spark_jobs.ddl.unlogged_changes import Renamed, UnloggedChanges
from spark_jobs.errors import TableStopped
from spark_jobs.log.position import Range
from spark_jobs.pipeline.cascades.unlogged_changes import SourceUnloggedChanges


@dataclass(frozen=True, slots=True)
class UnknownRows:
    """A rename that gives a child rows which foreign keys may have changed, and why that is not known."""

    renamed: Renamed
    reason: str


def unknown_rows(
    snapshot: BronzeSnapshot,
    gaps: SourceUnloggedChanges,
    derived: Collection[TableName],
    within: Range,
    named: Named,
) -> Iterator[UnknownRows]:
    """The renames in a range of the log that bring such rows, in order. Raises LakeError.

    derived: the tables whose changes are derived.
    """
    for renamed in gaps.renames:
        if renamed.table not in derived or not within.start <= renamed.at < within.stop:
            continue
        for gap in _keys_until(gaps, renamed, derived):
            reason = _cascade_of(snapshot, gap, renamed, named)
            if reason:
                yield UnknownRows(renamed, reason)
                break


def _keys_until(
    gaps: SourceUnloggedChanges, renamed: Renamed, derived: Collection[TableName]
) -> Iterator[UnloggedChanges]:
    """The foreign keys that a table had before a rename, under names of which nothing is derived."""
    waiting = [(renamed.was, renamed.at)]
    while waiting:
        name, until = waiting.pop()
        for gap in gaps.of(name) if name not in derived else ():
            if gap.key is None or gap.until != until:
                continue
            yield gap
            if gap.since:
                earlier = [before.was for before in gaps.renames if (before.table, before.at) == (name, gap.since)]
                waiting += [(table, gap.since) for table in (earlier or [name])]


def _cascade_of(snapshot: BronzeSnapshot, gap: UnloggedChanges, renamed: Renamed, named: Named) -> str | None:
    """Reason why the rows that a table brings are not known, by one of its keys; None where that changed none."""
    assert gap.key
    assert gap.until
    life = Range(max(gap.since or snapshot.oldest, snapshot.oldest), gap.until)
    if not life:
        return None
    index = read_index(snapshot.table, snapshot.version, life)
    try:
        parts = logged_slices(index, {gap.table, gap.key.parent}, named, life.start)
        # What came before its first row changed none of it.
        rows = dropwhile(lambda row: row.change.table != gap.table, (row for part in parts for row in part.rows))
        row = next((row for row in rows if _may_cascade(row, gap.key)), None)
    except TableStopped as error:
        return f"{renamed.was}, which got its name at {renamed.at}: {error}"
    if row is None:
        return None
    verb = "UPDATE" if row.change.after else "DELETE"
    return (
        f"{renamed.was} got its name at {renamed.at}, and nothing is derived of {gap.table}: it {gap}, as by the "
        f"{verb} of {gap.key.parent} at {row.at}"
    )


def _may_cascade(row: LoggedRow, key: ForeignKey) -> bool:
    """True if the server may have changed child rows by a change."""
    before, after = row.change.before, row.change.after
    if row.change.table != key.parent or not row.cascades or before is None:
        return False
    if after is None:
        return key.on_delete in CASCADING
    names = [name.casefold() for name in key.parent_columns]
    return key.on_update in CASCADING and any(before[name] != after[name] for name in names)
