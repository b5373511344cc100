"""Task of a merge of every change: slices of the log -> rows, and versions that they end.

Put here: the work on parts of units, and on buckets of their keys. Not here: which parts those are (change_job.py),
their rows (change_rows.py), what becomes of versions (version_merge.py), or commits (engine/merge/downstream_job.py).

A row of ``mode: append`` is a change, and nothing in the target is looked up; where a range was replayed, rows whose
positions lie in it go, but for those that are equal to what comes. A row of ``mode: history`` ends the current version
of its key: that is located by the key, marked, and written again with its end. Ended and current versions are files of
their own, so that statistics leave out the files that have ended ones alone.

Versions of more than one task takes are several tasks': each sends what it has got, by buckets of keys, and whoever
gets a bucket merges it by the same code.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.config.modes import Mode
from spark_jobs.delta import data_files
from spark_jobs.delta.change_data import AFTER, BEFORE, DELETE, INSERT
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.engine.changes import change_rows, version_merge
from spark_jobs.engine.changes.change_units import ChangeTask, ChangeUnit, UnitPart
from spark_jobs.engine.changes.row_completion import MergedChanges, completed_changes, without_lacks
from spark_jobs.engine.jobs import key_hash, shuffle_blocks
from spark_jobs.engine.jobs.spark_job import ShuffleBlock
from spark_jobs.engine.silver.silver_task import OpenSlices
from spark_jobs.engine.target import feed
from spark_jobs.engine.target.target_files import WrittenAgain, as_bytes, written_again
from spark_jobs.engine.target.target_unit import MergedFiles
from spark_jobs.errors import DecodeError, PartialWindow, StratalogError, TableStopped
from spark_jobs.lake.table import Table
from spark_jobs.silver import table as silver
from spark_jobs.silver.net_changes import by_position
from spark_jobs.silver.row_values import ColumnLeftOut

_CHANGES, _STATEMENTS, _LOCATED = range(3)
"""Stand-in for a window's number: the kind of the rows of a block."""
Outcome = MergedFiles | ShuffleBlock


def work(task: ChangeTask) -> Iterator[Outcome]:
    """Execute the parts of units of a task, one after the other."""
    opened = OpenSlices(task.bronze, gtids=True)
    for part in task.parts:
        yield from _or_error(part.unit, partial(_part_outcomes, part, opened, task))


def _or_error(unit: ChangeUnit, outcomes: Callable[[], Iterator[Outcome]]) -> Iterator[Outcome]:
    """The outcomes of a unit's work, or what stops it: other units continue."""
    began = time.monotonic()
    try:
        results = list(outcomes())
        share = (time.monotonic() - began) / max(1, len(results))
        yield from (replace(result, seconds=share) if isinstance(result, MergedFiles) else result for result in results)
    except PartialWindow:
        yield MergedFiles(unit.number, {}, needs_one_task=True)
    except TableStopped as error:
        if isinstance(error, ColumnLeftOut) and unit.is_older_unread:
            yield MergedFiles(unit.number, {}, needs_one_task=True)
        else:
            yield MergedFiles(unit.number, {}, stopped=error)
    except DecodeError as error:
        yield MergedFiles(unit.number, {}, stopped=TableStopped(str(error)))
    except StratalogError as error:
        yield MergedFiles(unit.number, {}, error=str(error))


def _part_outcomes(part: UnitPart, opened: OpenSlices, task: ChangeTask) -> Iterator[Outcome]:
    unit = part.unit
    changes = change_rows.logged_changes(unit, part.slices, opened)
    silver_rows = change_rows.silver_rows(unit, part.statements, Table(task.bronze, plain=True), task.version)
    located = version_merge.looked_through(unit, part.files)
    if not unit.is_by_key:
        yield _appended(unit, pa.concat_tables([changes, silver_rows]), located, part.files)
        return
    # Statements that emptied the table end versions of all keys; other rows of silver are of one.
    is_statement = pc.equal(silver_rows.column("_op"), silver.Op.TRUNCATE)
    changes, statements = (
        pa.concat_tables([changes, silver_rows.filter(pc.invert(is_statement))]),
        silver_rows.filter(is_statement),
    )
    if unit.buckets and unit.earlier and pc.any(changes.column(silver.MOVED_FROM).is_valid()).as_py():
        yield MergedFiles(unit.number, {}, needs_one_task=True)
    elif unit.buckets:
        yield from _blocks(part, changes, statements, located)
    else:
        yield _by_key(unit, _KeyRows(changes, statements, located), part.files)


@dataclass(frozen=True, slots=True)
class _KeyRows:
    """Rows of some keys: changes, statements that emptied the table, and located rows of the target.

    bucket: the number of the bucket of the keys; None where the unit has none.
    """

    changes: pa.Table
    statements: pa.Table
    located: pa.Table
    bucket: int | None = None

    def within(self, rows: pa.Table, unit: ChangeUnit) -> pa.Table:
        """Rows that are of the same bucket."""
        if self.bucket is None:
            return rows
        numbers = key_hash.row_hashes(rows, unit.columns) % np.uint64(len(unit.buckets))
        return rows.filter(pa.array(numbers == self.bucket))


def _by_key(unit: ChangeUnit, rows: _KeyRows, files: Sequence[DataFile] = ()) -> MergedFiles:
    """Write what changes of some keys are, which may lack columns. files: as for ``_appended``."""
    names, statements = change_rows.fields_of(unit).names, rows.statements
    completed = without_lacks(rows.changes)
    if unit.earlier:
        merged_changes = MergedChanges(rows.changes, statements, unit.extent, unit.keys)
        completed = completed_changes(merged_changes, unit.earlier, unit.columns, partial(rows.within, unit=unit))
        statements = statements.select(names)
    takes_statements = rows.bucket in (None, 0)
    if unit.mode is Mode.HISTORY:
        complete, incomplete = (part.select(names) for part in (completed.complete, completed.incomplete))
        changes = version_merge.VersionChanges(complete, incomplete, statements)
        merged_files = _merged(unit, changes, rows.located, takes_statements=takes_statements)
    else:
        # A key that an update left is no change by itself.
        is_change = completed.complete.column(change_rows.IS_CHANGE)
        new = completed.complete.filter(is_change).select(names)
        is_new = np.asarray(change_rows.new_statements(unit, statements), np.bool_) & takes_statements
        new = pa.concat_tables([new, statements.filter(pa.array(is_new))])
        merged_files = _appended(unit, new, rows.located, files)
    return replace(merged_files, never_whole=completed.never_whole)


def _appended(unit: ChangeUnit, rows: pa.Table, located: pa.Table, files: Sequence[DataFile]) -> MergedFiles:
    """Write rows of changes, and mark those that they replace; those that are equal stay.

    located: rows that lie where the merge takes the log again. files: of the target's those that are written again.
    """
    rows, dead = version_merge.appended(unit, rows, located)
    added = _data_files(unit, [rows])
    deleted = sum(map(len, dead.values()))
    changes = feed.change_files(unit, [(INSERT, rows), *feed.deletes(unit, dead)])
    rewritten = written_again(unit, dead, unit.row_changes, files)
    return MergedFiles(
        unit=unit.number,
        dead=as_bytes(dead),
        added=(*added, *rewritten.added),
        removed=rewritten.removed,
        changes=(*changes, *rewritten.changes),
        inserted=len(rows),
        deleted=deleted,
    )


def _merged(
    unit: ChangeUnit, key_changes: version_merge.VersionChanges, located: pa.Table, *, takes_statements: bool
) -> MergedFiles:
    """Write versions that are new or end, and mark those of the target that they replace."""
    versions = version_merge.merged(unit, key_changes, located, takes_statements=takes_statements)
    rows = pa.concat_tables([versions.ended, versions.added])
    is_current = rows.column("_is_current")
    added = _data_files(unit, [rows.filter(pc.invert(is_current)), rows.filter(is_current)])
    changes = feed.change_files(unit, _feed_of(unit, versions))
    # Of a unit in buckets several tasks may have rows of one file, which is written again behind them.
    dead = versions.dead
    rewritten = WrittenAgain() if unit.defers else written_again(unit, dead, unit.row_changes)
    return MergedFiles(
        unit=unit.number,
        dead=as_bytes(dead),
        added=(*added, *rewritten.added),
        removed=rewritten.removed,
        changes=(*changes, *rewritten.changes),
        inserted=len(versions.added),
        updated=len(versions.ended),
        deleted=sum(map(len, versions.replaced.values())),
    )


def _feed_of(unit: ChangeUnit, versions: version_merge.MergedVersions) -> Iterator[feed.Changed]:
    """Versions that end are updates of their rows."""
    by_path = {file.path: file for file in unit.files}
    for path, numbers in versions.changed.items():
        yield BEFORE, feed.old_rows(unit, by_path[path], numbers)
    for path, numbers in versions.replaced.items():
        yield DELETE, feed.old_rows(unit, by_path[path], numbers)
    yield AFTER, versions.ended
    yield INSERT, versions.added


def _data_files(unit: ChangeUnit, parts: Iterable[pa.Table]) -> list[DataFile]:
    """A data file of each part that has rows."""
    return [
        data_files.write(unit.target, by_position(part).select(unit.stored), unit.schema, unit.configuration)
        for part in parts
        if len(part)
    ]


def _blocks(part: UnitPart, changes: pa.Table, statements: pa.Table, located: pa.Table) -> Iterator[ShuffleBlock]:
    """Rows by the bucket of their key; statements for every bucket, of the unit's first part also where it has none."""
    unit = part.unit
    yield from shuffle_blocks.blocks(unit.number, unit.buckets, _CHANGES, changes, unit.columns)
    is_statement = pc.equal(located.column("_op"), silver.Op.TRUNCATE)
    of_keys, of_statements = located.filter(pc.invert(is_statement)), located.filter(is_statement)
    yield from shuffle_blocks.blocks(unit.number, unit.buckets, _LOCATED, of_keys, unit.columns)
    yield from shuffle_blocks.blocks(unit.number, unit.buckets[:1], _LOCATED, of_statements, unit.columns)
    for bucket in unit.buckets if part.is_first or len(statements) else ():
        yield shuffle_blocks.undivided(unit.number, bucket, _STATEMENTS, statements)


def finish(units: Mapping[int, ChangeUnit]) -> Callable[[Iterable[ShuffleBlock]], Iterator[MergedFiles]]:
    """The step that merges a bucket's units from the blocks of all tasks."""

    def merged_bucket(number: int, bucket: int, batches: Mapping[int, Sequence[pa.RecordBatch]]) -> Iterator[Outcome]:
        # A bucket may have rows of no kind but one: the others are empty tables.
        unit = units[number]
        changes, statements, located = (
            pa.Table.from_batches(batches[kind]) if batches.get(kind) else schema.empty_table()
            for kind, schema in (
                (_CHANGES, change_rows.change_fields_of(unit)),
                (_STATEMENTS, change_rows.change_fields_of(unit)),
                (_LOCATED, version_merge.located_schema(unit)),
            )
        )
        yield _by_key(unit, _KeyRows(changes, statements, located, bucket - unit.buckets[0]))

    def finish_bucket(blocks: Iterable[ShuffleBlock]) -> Iterator[MergedFiles]:
        gathered: dict[tuple[int, int], dict[int, list[pa.RecordBatch]]] = defaultdict(lambda: defaultdict(list))
        for block in blocks:
            kind, rows = shuffle_blocks.rows_of(block)
            gathered[block.unit, block.bucket][kind].append(rows)
        while gathered:
            (number, bucket), batches = gathered.popitem()
            for outcome in _or_error(units[number], partial(merged_bucket, number, bucket, batches)):
                assert isinstance(outcome, MergedFiles)
                yield outcome

    return finish_bucket
