"""Task of a merge into a keyless table: copies of rows are counted, located, added and marked.

Put here: the copies that a target is to have, and which rows of it go. Not here: what tells rows apart
(silver/keyless_rows.py), how they are located (engine/rows/locate.py), or tables with a key (downstream_task.py).

Live windows change the number of copies by their sums: each window is taken once, since the commit that has its rows
has its position too. So only rows of which copies went are located in the target. Where windows were replayed or rows
loaded, the number is set to the sum over all of silver, of each row in what was replaced and in what is new.

Where deleted rows stay, a row of which no copy is left stays once, marked as deleted. Silver has a row of all that came
or went in a window, with 0 copies too, so it does not depend on where windows begin.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.delta import data_files
from spark_jobs.delta.change_data import DELETE, INSERT
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.downstream.merge_job import ADDED
from spark_jobs.engine.jobs.key_hash import row_hashes
from spark_jobs.engine.merge.downstream_task import (
    DownstreamUnit,
    new_rows,
    row_changes_of,
    vanished_rows,
    with_provenance,
    without_dead,
)
from spark_jobs.engine.rows.exact_texts import with_text_changes
from spark_jobs.engine.rows.locate import Hit, Keys, Numbers, hits
from spark_jobs.engine.rows.restatement import Restatement, SilverSource, equal_rows_mask, touched_rows
from spark_jobs.engine.target import feed
from spark_jobs.engine.target.deleted_rows import Truncations, with_state
from spark_jobs.engine.target.target_files import RowChanges, WrittenAgain, as_bytes, write_rows, written_again
from spark_jobs.engine.target.target_unit import MergedFiles
from spark_jobs.errors import TableStopped
from spark_jobs.silver import table as silver
from spark_jobs.silver.keyless_rows import distinct, numbers_of_equal_rows, sorted_by_bounded_column, summed_copies
from spark_jobs.silver.net_changes import position_order
from spark_jobs.silver.positions import since_emptied

_NO_ROWS: Numbers = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class CopyCounts:
    """Distinct rows and their copies: in all, or more and fewer than the target has."""

    rows: pa.Table
    """Rows with the target's columns."""
    copies: NDArray[np.int64]
    is_total: bool


def merged(unit: DownstreamUnit) -> MergedFiles:
    """Add and remove copies of rows in the target until it equals silver. Raises TableStopped, LakeError."""
    # Copies to add or to remove by row, and rows that a statement emptied (row numbers by file).
    truncations, restatement = row_changes_of(unit).truncations, unit.restatement
    counts = _total(unit, restatement, truncations) if restatement else _changed(unit, truncations)
    dead = vanished_rows(unit)
    emptied = {} if unit.part else dict(dead)
    # Copies that the target has, of rows that may lose some; and those that are marked as deleted.
    is_searched = np.ones(len(counts.rows), np.bool_)
    if not (counts.is_total or unit.keeps_deleted):
        is_searched = counts.copies < 0
    searched_rows = counts.rows.filter(pa.array(is_searched))
    located, deleted_hits = _by_state(unit, _located(unit, searched_rows, dead))
    present = np.zeros(len(counts.rows), np.int64)
    present[is_searched] = _occurrences(located, len(searched_rows))
    final_copies = counts.copies if counts.is_total else present + counts.copies
    if unit.lacks_older:
        final_copies = np.maximum(final_copies, 0)
    if (final_copies < 0).any():
        raise TableStopped(f"{unit.name}: {silver.MORE_DELETED}")
    # Copies beyond that are marked, in the order of files; missing ones are written.
    excess = np.maximum(present - final_copies, 0)[is_searched]
    missing = np.repeat(np.arange(len(final_copies)), np.maximum(final_copies - present, 0))
    images = counts.rows.take(pa.array(missing))
    deleted_rows, outdated_hits = _deleted_rows(unit, counts.rows, final_copies, deleted_hits)
    if unit.keeps_deleted:
        images = pa.concat_tables([_with_state(images, False), _with_state(deleted_rows, True)])
    dead_hits = [*_first_copies(located, excess), *outdated_hits]
    for hit in dead_hits:
        dead[hit.file.path] = np.concatenate([dead.get(hit.file.path, _NO_ROWS), hit.rows])
    # New files, the change data feed, and files that are written again without dead rows.
    copies = sorted_by_bounded_column(images.select(unit.stored), unit.identity)
    added = write_rows(unit, copies)
    deletes = chain(
        feed.deletes(unit, emptied), ((DELETE, feed.old_rows(unit, hit.file, hit.rows)) for hit in dead_hits)
    )
    changes = feed.change_files(unit, chain(deletes, [(INSERT, copies)]))
    rewritten = WrittenAgain() if unit.defers else written_again(unit, dead, RowChanges(unit.fills, unit.exact))
    return MergedFiles(
        unit=unit.number,
        dead=as_bytes(dead),
        added=(*added, *rewritten.added),
        removed=rewritten.removed,
        changes=(*changes, *rewritten.changes),
        inserted=len(missing),
        deleted=len(deleted_rows) if unit.keeps_deleted else int(excess.sum()) + sum(map(len, emptied.values())),
    )


def _by_state(unit: DownstreamUnit, located: Sequence[Hit]) -> tuple[list[Hit], list[Hit]]:
    """Rows of the target that are copies, and those that are marked as deleted."""
    if not unit.keeps_deleted:
        return [*located], []
    alive, deleted = list[Hit](), list[Hit]()
    for hit in located:
        rows = data_files.read_rows(unit.target, hit.file, hit.rows, ["_deleted"], unit.schema)
        is_deleted = np.asarray(rows.column(0), np.bool_)
        for hit_list, flags in ((alive, ~is_deleted), (deleted, is_deleted)):
            if flags.any():
                hit_list.append(Hit(hit.file, hit.rows[flags], hit.keys[flags]))
    return alive, deleted


def _deleted_rows(
    unit: DownstreamUnit, rows: pa.Table, final_copies: NDArray[np.int64], present: Sequence[Hit]
) -> tuple[pa.Table, list[Hit]]:
    """Rows of which no copy is left, as far as the target has not got them; and marked rows of it that go.

    None where deleted rows do not stay. rows: distinct rows. present: marked ones that the target has.
    """
    if not unit.keeps_deleted:
        return rows.slice(0, 0), []
    # Rows that silver has none of any more, since a replay took them away, have no position.
    is_gone = (final_copies <= 0) & np.asarray(pc.is_valid(rows.column("_position")), np.bool_)
    outdated = list[Hit]()
    for hit in present:
        names = ["_position", "_committed_at"]
        marked_rows = data_files.read_rows(unit.target, hit.file, hit.rows, names, unit.schema)
        stays = equal_rows_mask(rows.take(pa.array(hit.keys)), marked_rows) & is_gone[hit.keys]
        is_gone[hit.keys[stays]] = False
        if not stays.all():
            outdated.append(Hit(hit.file, hit.rows[~stays], hit.keys[~stays]))
    return rows.filter(pa.array(is_gone)), outdated


def _with_state(rows: pa.Table, is_deleted: bool) -> pa.Table:
    return with_state(rows, pa.chunked_array([pa.repeat(pa.scalar(is_deleted), len(rows))]))


def _changed(unit: DownstreamUnit, truncations: Truncations) -> CopyCounts:
    """The copies that new windows add and take away.

    truncations: statements, before which rows have no copies left, where deleted rows stay.
    """
    names = [*unit.columns.types, *ADDED, silver.COPIES]
    reading = [*names, "_op", *(["_window_start"] if unit.after else [])]
    parts = [_no_rows(unit, names)]
    for file in unit.pending:
        rows = data_files.read_columns(unit.origin, file, reading, unit.origin_schema)
        # Rows from before the table lost its key have no number of copies.
        is_counted = pc.is_valid(rows.column(silver.COPIES))
        if not unit.keeps_deleted:
            is_counted = pc.not_equal(rows.column(silver.COPIES), 0)
        is_new = pc.and_(new_rows(unit, file, rows), is_counted)
        parts.append(_rows_of_part(unit, rows.filter(is_new).select(names)))
    all_rows, types = pa.concat_tables(parts), [*unit.columns.types]
    if truncations.rows:
        all_rows = all_rows.filter(
            pa.array(truncations.in_last_segment(all_rows, numbers_of_equal_rows(all_rows, types)))
        )
    rows = summed_copies(all_rows, types)
    rows, copies = truncations.emptied(rows, np.asarray(rows.column(silver.COPIES), np.int64))
    return CopyCounts(_with_provenance(unit, rows), copies, is_total=False)


def _total(unit: DownstreamUnit, restatement: Restatement, truncations: Truncations) -> CopyCounts:
    """The copies by all of silver of each row in windows that were replaced or are new, and in loads."""
    # Distinct rows that lost or got copies, by the removed and the added files.
    origin = SilverSource(unit.origin, unit.origin_schema, tuple(unit.columns.types))
    names = [*unit.columns.types, "_raw"]
    removed = touched_rows(origin, restatement.removed, names, restatement, after=None)
    parts = [
        _no_rows(unit, names),
        *(with_text_changes(rows, restatement.exact_texts) for rows in removed),
        *touched_rows(origin, unit.pending, names, restatement, after=unit.after),
    ]
    touched = distinct(_rows_of_part(unit, pa.concat_tables(parts)), [*unit.columns.types])
    copies, last = _sums(unit, restatement.files, touched, truncations)
    for name in ADDED.keys() - {"_raw"}:
        touched = touched.append_column(name, last.column(name))
    return CopyCounts(_with_provenance(unit, touched), copies, is_total=True)


def _sums(
    unit: DownstreamUnit, files: Iterable[DataFile], touched: pa.Table, truncations: Truncations
) -> tuple[NDArray[np.int64], pa.Table]:
    """Sum of the copies of each touched row, and position and time of the last row of silver that is about it."""
    names = [silver.COPIES, "_op", *(ADDED.keys() - {"_raw"})]
    parts, ordinals = [_no_rows(unit, names)], [_NO_ROWS]
    keys = Keys(touched, [*unit.columns.types], is_keyless=True)
    for hit in hits(unit.origin, [*files], unit.origin_schema, keys) if len(touched) else ():
        rows = data_files.read_rows(unit.origin, hit.file, hit.rows, names, unit.origin_schema)
        is_kept = pc.and_(pc.not_equal(rows.column("_op"), silver.Op.TRUNCATE), pc.is_valid(rows.column(silver.COPIES)))
        if unit.floor:
            is_kept = pc.and_(is_kept, since_emptied(rows.column("_position"), unit.floor))
        parts.append(rows.filter(is_kept))
        ordinals.append(hit.keys[np.asarray(is_kept, np.bool_)])
    rows, row_ordinals = pa.concat_tables(parts), np.concatenate(ordinals)
    is_counted = truncations.in_last_segment(rows, row_ordinals)
    rows, row_ordinals = rows.filter(pa.array(is_counted)), row_ordinals[is_counted]
    copies = np.zeros(len(touched), np.int64)
    np.add.at(copies, row_ordinals, np.asarray(rows.column(silver.COPIES), np.int64))
    # The last assignment to an index stays: rows come in the order of their positions in the log.
    order = position_order(rows)
    last = np.full(len(touched), -1, np.int64)
    last[row_ordinals[order]] = order
    last_rows, copies = truncations.emptied(rows.take(pa.array(last, mask=last < 0)), copies)
    return copies, last_rows


def _rows_of_part(unit: DownstreamUnit, rows: pa.Table) -> pa.Table:
    """Rows of the unit's part, where several tasks share it."""
    if unit.parts == 1:
        return rows
    is_own = row_hashes(rows, unit.columns) % np.uint64(unit.parts) == unit.part
    return rows.filter(pa.array(is_own))


def _with_provenance(unit: DownstreamUnit, rows: pa.Table) -> pa.Table:
    return with_provenance(unit, rows) if unit.provenance else rows


def _no_rows(unit: DownstreamUnit, names: Iterable[str]) -> pa.Table:
    return pa.schema([unit.origin_schema.column(name).arrow(physical=False) for name in names]).empty_table()


def _located(unit: DownstreamUnit, searched_rows: pa.Table, dead: dict[str, Numbers]) -> list[Hit]:
    """Row numbers of the target's copies of rows, but those that a statement emptied."""
    if not len(searched_rows):
        return []
    keys = Keys(searched_rows, unit.identity, is_keyless=True, fills=unit.fills, exact=unit.exact)
    located = hits(unit.target, unit.searched_files, unit.schema, keys)
    return [without_dead(hit, dead.get(hit.file.path)) for hit in located]


def _occurrences(located: Iterable[Hit], count: int) -> NDArray[np.int64]:
    """Number of times that each of so many rows was located."""
    present = np.zeros(count, np.int64)
    for hit in located:
        present += np.bincount(hit.keys, minlength=count)
    return present


def _first_copies(located: Iterable[Hit], limits: NDArray[np.int64]) -> Iterator[Hit]:
    """Located copies of each row, the first ones, as many as a limit says."""
    counted_before = np.zeros(len(limits), np.int64)
    for hit in located:
        # The number of each copy among those of its row in this file.
        order = np.argsort(hit.keys, kind="stable")
        keys = hit.keys[order]
        ranks = np.empty(len(keys), np.int64)
        ranks[order] = np.arange(len(keys)) - np.searchsorted(keys, keys)
        is_within = counted_before[hit.keys] + ranks < limits[hit.keys]
        counted_before += np.bincount(hit.keys, minlength=len(limits))
        if is_within.any():
            yield Hit(hit.file, hit.rows[is_within], hit.keys[is_within])
