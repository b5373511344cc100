"""Merge of changes with the versions that a target has of their keys: versions removed, ended and added.

Put here: which of the target's rows are looked up, and what becomes of them. Not here: the intervals
(version_intervals.py), or where changes come from (change_rows.py).

Live, a change ends the current version of its key. Where a range was replayed or rows were loaded, all versions of the
keys that came or went are computed again, and those that stay as they are stay where they are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.config.modes import Mode
from spark_jobs.delta import data_files, deletion_vectors
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.engine.changes.change_rows import fields_of, new_statements
from spark_jobs.engine.changes.change_units import ChangeUnit
from spark_jobs.engine.changes.version_intervals import numbers_of_keys, with_intervals
from spark_jobs.engine.rows.exact_texts import with_text_changes
from spark_jobs.engine.rows.fills import with_fills
from spark_jobs.engine.rows.locate import Keys, Numbers, hits
from spark_jobs.engine.rows.restatement import equal_rows_mask
from spark_jobs.silver import table as silver
from spark_jobs.silver.keyless_rows import distinct, numbers_of_equal_rows
from spark_jobs.silver.positions import FIELDS, last_rows_by_key

_FILE, _ROW, _IS_REPLACED = "\0file", "\0row", "\0replaced"
"""Columns of the target's rows: number of the row's file in the unit, of the row in the file, whether the merge
replaces it."""
_INTERVAL = ("_valid_to", "_is_current")
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class MergedVersions:
    """Merged versions of keys.

    ended: those that end otherwise than the target has them. added: those that it does not have. changed, replaced:
    numbers of the target's rows that go, by file: as they were before they ended otherwise, and without a successor.
    """

    ended: pa.Table
    added: pa.Table
    changed: dict[str, Numbers]
    replaced: dict[str, Numbers]

    @property
    def dead(self) -> dict[str, Numbers]:
        """All rows of the target that go."""
        paths = [*dict.fromkeys([*self.changed, *self.replaced])]
        no_rows = np.zeros(0, np.int64)
        return {
            path: np.concatenate([self.changed.get(path, no_rows), self.replaced.get(path, no_rows)]) for path in paths
        }


def looked_through(unit: ChangeUnit, files: Sequence[DataFile]) -> pa.Table:
    """The rows of a unit's files that the merge is about whatever their keys are, and where they are.

    Those that it replaces; and all current ones where a statement ends them.
    """
    names = fields_of(unit).names
    indexes = {file.path: at for at, file in enumerate(unit.files)}
    parts = [located_schema(unit).empty_table()]
    flags_of_versions = ["_is_current"] if unit.ends_all else []
    for file in files if unit.extent.is_restated or unit.ends_all else ():
        tests = data_files.read_columns(unit.target, file, ["_op", "_position", *flags_of_versions], unit.schema)
        is_replaced = unit.extent.target_mask(tests) if unit.extent.is_restated else pa.array([False] * len(tests))
        is_wanted = pc.or_(is_replaced, tests.column("_is_current")) if unit.ends_all else is_replaced
        living = deletion_vectors.living_rows_mask(unit.target, file.deletion_vector, len(tests))
        numbers = np.flatnonzero(np.asarray(pc.fill_null(is_wanted, False), np.bool_) & living)
        if len(numbers):
            rows = _target_rows_of(unit, file, numbers, names)
            flags = pc.fill_null(is_replaced, False).take(pa.array(numbers))
            parts.append(_located(rows, indexes[file.path], numbers, flags))
    return pa.concat_tables(parts)


def located_schema(unit: ChangeUnit) -> pa.Schema:
    """The columns of ``looked_through``."""
    fields = [*fields_of(unit), *(unit.schema.column(name).arrow(physical=False) for name in _interval_columns(unit))]
    added = [pa.field(_FILE, pa.int32()), pa.field(_ROW, pa.int64()), pa.field(_IS_REPLACED, pa.bool_())]
    return pa.schema([*fields, *added])


def _target_rows_of(unit: ChangeUnit, file: DataFile, numbers: Numbers, names: Sequence[str]) -> pa.Table:
    """Rows of the target as they are after the statements of the merge."""
    names = [*names, *_interval_columns(unit)]
    rows = data_files.read_rows(unit.target, file, numbers, names, unit.schema)
    return with_text_changes(with_fills(rows, unit.fills), unit.exact).select(names)


def _interval_columns(unit: ChangeUnit) -> tuple[str, ...]:
    """The columns that say until when a row of the target was a version of its key."""
    return _INTERVAL if unit.mode is Mode.HISTORY else ()


def _located(rows: pa.Table, file: int, numbers: Numbers, is_replaced: pa.Array) -> pa.Table:
    rows = rows.append_column(_FILE, pa.array(np.full(len(rows), file, np.int32)))
    return rows.append_column(_ROW, pa.array(numbers)).append_column(_IS_REPLACED, is_replaced)


def appended(unit: ChangeUnit, rows: pa.Table, located: pa.Table) -> tuple[pa.Table, dict[str, Numbers]]:
    """The rows that a target does not have in which each change is one, and the numbers of those that go, by file.

    rows: all that the merge takes, with ``fields_of``. located: as ``looked_through`` gives them.
    """
    is_kept, is_written_before = equal_pairs(located.select(rows.column_names), rows, unit.columns)
    return rows.filter(pa.array(~is_written_before)), _by_file(unit, located.filter(pa.array(~is_kept)))


@dataclass(frozen=True, slots=True)
class VersionChanges:
    """All that a merge takes of some keys, with ``fields_of``.

    complete: changes that are versions. incomplete: changes without all columns, which end versions and are none.
    statements: rows of all statements that emptied the table, as far as they may end versions.
    """

    complete: pa.Table
    incomplete: pa.Table
    statements: pa.Table


def merged(unit: ChangeUnit, changes: VersionChanges, located: pa.Table, *, takes_statements: bool) -> MergedVersions:
    """Merged versions of some keys.

    Args:
        unit: the target's.
        changes: of these keys.
        located: as ``looked_through`` gives them, of these keys.
        takes_statements: whether rows of statements are written too; not by all that have a part of the keys.
    """
    names, statements = fields_of(unit).names, changes.statements
    all_changes = pa.concat_tables([changes.complete, changes.incomplete])
    target_rows = pa.concat_tables([located, *_other_versions(unit, all_changes, located)])
    is_replaced = np.asarray(target_rows.column(_IS_REPLACED).to_numpy(), np.bool_)
    stay, replaced = target_rows.filter(pa.array(~is_replaced)), target_rows.filter(pa.array(is_replaced))
    # Intervals of all that there is of the keys: versions that stay, new ones, and statements that end them.
    is_new = np.asarray(new_statements(unit, statements), np.bool_) & takes_statements
    new = pa.concat_tables([changes.complete, statements.filter(pa.array(is_new))])
    enders = pa.concat_tables([changes.incomplete, statements.filter(pa.array(~is_new))])
    versions = with_intervals(pa.concat_tables([stay.select(names), new, enders]), unit.columns)
    after, new_versions = versions.slice(0, len(stay)), versions.slice(len(stay), len(new))
    # Of the target's rows those go that end otherwise, and those that are replaced by others.
    is_other = ~equal_rows_mask(after.select(_INTERVAL), stay.select(_INTERVAL))
    if unit.earlier and not unit.buckets:  # else what ended one is at hand, or is a statement that other buckets have
        is_other &= ~_ended_before(stay, pa.concat_tables([replaced.select(names), all_changes]))
    old_kept, new_kept = equal_pairs(replaced, new_versions, unit.columns)
    return MergedVersions(
        ended=after.filter(pa.array(is_other)),
        added=new_versions.filter(pa.array(~new_kept)),
        changed=_by_file(unit, stay.filter(pa.array(is_other))),
        replaced=_by_file(unit, replaced.filter(pa.array(~old_kept))),
    )


def _ended_before(rows: pa.Table, changes: pa.Table) -> Flags:
    """Rows of the target that ended before the first of some changes, which decide nothing about them then.

    What ended one may be no row of the target: a change without all columns.
    """
    first = pc.min(changes.column("_committed_at"))
    return np.asarray(pc.fill_null(pc.less(rows.column("_valid_to"), first), False), np.bool_)


def _other_versions(unit: ChangeUnit, changes: pa.Table, located: pa.Table) -> Iterator[pa.Table]:
    """Versions of the keys that came or went that were not looked through: current ones, of a replay all."""
    # Of a live merge only current versions end; where a statement ends all of them, all were looked through.
    names, columns = fields_of(unit).names, unit.columns
    is_restated = unit.extent.is_restated
    files = unit.files if is_restated else [file for file in unit.files if may_have_current(file, unit.schema)]
    touched = pa.concat_tables([changes, located.select(names)])
    touched = touched.filter(pc.not_equal(touched.column("_op"), silver.Op.TRUNCATE))
    if not (files and len(touched)) or (unit.ends_all and not is_restated):
        return
    if columns.is_keyless:
        content = [*columns.types]
        keys = Keys(distinct(touched, content), content, is_keyless=True, fills=unit.fills)
    else:
        keys = Keys(last_rows_by_key(touched, columns.key), columns.key)
    indexes = {file.path: at for at, file in enumerate(unit.files)}
    looked_up = _by_file(unit, located)
    for hit in hits(unit.target, files, unit.schema, keys):
        numbers = hit.rows[~np.isin(hit.rows, looked_up.get(hit.file.path, np.zeros(0, np.int64)))]
        if not is_restated and len(numbers):
            flags = data_files.read_rows(unit.target, hit.file, numbers, ["_is_current"], unit.schema)
            numbers = numbers[np.asarray(flags.column(0).to_numpy(), np.bool_)]
        if len(numbers):
            rows = _target_rows_of(unit, hit.file, numbers, names)
            yield _located(rows, indexes[hit.file.path], numbers, pa.array(np.zeros(len(numbers), np.bool_)))


def may_have_current(file: DataFile, schema: TableSchema) -> bool:
    """True if a file may have current versions, by its statistics: these have no end."""
    nulls = file.stats.get("nullCount", {}).get(schema.column("_valid_to").physical_name)
    return nulls is None or nulls > 0


def equal_pairs(replaced: pa.Table, versions: pa.Table, columns: silver.Columns) -> tuple[Flags, Flags]:
    """Pairs of replaced rows and new ones that are the same, and stay."""
    is_kept = np.zeros(len(replaced), np.bool_), np.zeros(len(versions), np.bool_)
    if not (len(replaced) and len(versions)):
        return is_kept
    names = [name for name in versions.column_names if name in replaced.column_names]
    all_rows = pa.concat_tables([replaced.select(names), versions.select(names)])
    # A row is looked_up by what tells rows apart, where it is and its operation; equal ones are counted.
    position = all_rows.column("_position").combine_chunks()
    cells = [position.field(name).to_numpy(zero_copy_only=False) for name in FIELDS]
    operation = all_rows.column("_op").combine_chunks().dictionary_encode().indices.to_numpy()
    identity = (
        numbers_of_equal_rows(all_rows, [*columns.types])
        if columns.is_keyless
        else numbers_of_keys(all_rows, columns.key)
    )
    _, codes = np.unique(np.stack([*cells, operation, identity]), axis=1, return_inverse=True)
    codes, is_old = codes.reshape(-1), np.arange(len(all_rows)) < len(replaced)
    old, new = (np.flatnonzero(is_side)[np.argsort(codes[is_side], kind="stable")] for is_side in (is_old, ~is_old))
    tickets = [codes[side] * (len(all_rows) + 1) + _ordinals(codes[side]) for side in (old, new)]
    _, at_old, at_new = np.intersect1d(tickets[0], tickets[1], assume_unique=True, return_indices=True)
    old, new = old[at_old], new[at_new] - len(replaced)
    is_same = equal_rows_mask(versions.select(names).take(pa.array(new)), replaced.select(names).take(pa.array(old)))
    is_kept[0][old[is_same]] = True
    is_kept[1][new[is_same]] = True
    return is_kept


def _ordinals(ordered: Numbers) -> Numbers:
    """Ordinal of each value among its equals, which are in order."""
    is_first = np.ones(len(ordered), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    at = np.arange(len(ordered))
    return at - np.maximum.accumulate(np.where(is_first, at, 0))


def _by_file(unit: ChangeUnit, located: pa.Table) -> dict[str, Numbers]:
    """Numbers of rows of the target by the paths of their files."""
    files, numbers = (located.column(name).to_numpy() for name in (_FILE, _ROW))
    return {unit.files[at].path: numbers[files == at] for at in np.unique(files)}
