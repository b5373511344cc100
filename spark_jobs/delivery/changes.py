"""Net change between two versions of a downstream table: old rows and new rows, by its data files.

Put here: which rows these are, and reading them in parts of bounded size. Not here: how they are written
(statements.py), or what a downstream table holds (downstream/).

A version names files with deletion vectors, so the files of two versions tell what went and what came, whatever was
done in between: merges, replays, loads, several source tables in one. A key that went and came is an update. Commits
that only move rows between files are left out (delta/history.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.delivery.encode import RAW, OutputColumn, key_literals, literals, tuples
from spark_jobs.delta import data_files, deletion_vectors
from spark_jobs.delta.history import data_runs
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile, Snapshot, snapshot_of
from spark_jobs.engine.jobs.key_hash import hashes
from spark_jobs.errors import DeliveryError, LakeError

_ROWS_AT_ONCE = 1 << 18
"""Rows that are read of a file at once at most."""
_BYTES_AT_ONCE = 64 << 20

KEYS_AT_ONCE = 1 << 22
"""Keys that are in memory at once at most; of more, one share after the other is taken."""


@dataclass(frozen=True, slots=True)
class FileSelection:
    """Rows of a data file: those of the numbers, or all that its deletion vector leaves."""

    file: DataFile
    numbers: NDArray[np.int64] | None = None

    def count(self) -> int:
        """Number of rows; of a file without statistics none, so that they do not count for its size."""
        return (self.file.num_rows or 0) if self.numbers is None else len(self.numbers)

    def tables(self, path: str, columns: Sequence[str], schema: TableSchema) -> Iterator[pa.Table]:
        """The rows in the order of the file, so many at once. Raises LakeError."""
        if self.numbers is not None:
            for begin in range(0, len(self.numbers), _ROWS_AT_ONCE):
                part = self.numbers[begin : begin + _ROWS_AT_ONCE]
                yield data_files.read_rows(path, self.file, part, columns, schema)
            return
        removed = deletion_vectors.row_numbers(path, self.file.deletion_vector)
        begin = 0
        with data_files.reading(path, self.file):
            opened = data_files.open_file(path, self.file)
            # Deletion vectors count rows over the whole file.
            for group in range(opened.num_row_groups):
                rows = data_files.read_row_group(opened, group, columns, schema)
                is_living = np.ones(len(rows), np.bool_)
                is_living[removed[(removed >= begin) & (removed < begin + len(rows))] - begin] = False
                begin += len(rows)
                rows = rows if is_living.all() else rows.filter(pa.array(is_living))
                yield from _row_parts(rows)


def _row_parts(rows: pa.Table) -> Iterator[pa.Table]:
    size = max(1, min(_ROWS_AT_ONCE, _BYTES_AT_ONCE * len(rows) // max(1, rows.nbytes)))
    for begin in range(0, len(rows), size):
        yield rows.slice(begin, size)


@dataclass(frozen=True, slots=True)
class TableDelta:
    """The net change of a downstream table between two versions."""

    after: Snapshot
    removed: tuple[FileSelection, ...]
    added: tuple[FileSelection, ...]

    @property
    def path(self) -> str:
        return self.after.path

    @property
    def rows(self) -> int:
        """Number of rows that went and came; an update is two."""
        return sum(rows.count() for rows in (*self.removed, *self.added))

    @property
    def added_rows(self) -> int:
        return sum(rows.count() for rows in self.added)


def windows(path: str, version: int | None, until: int) -> Iterator[TableDelta]:
    """The windows from a version up to another, in order: the last one ends there, without rows where rows only moved.

    version: None for a target that has nothing. Raises LakeError where the lake does not have the version any more.
    """
    if version is None:
        after = _snapshot(path, until)
        yield TableDelta(after, (), tuple(map(FileSelection, after.files)))
        return
    runs = data_runs(path, version, until)
    if runs is None:
        raise _expired(path, version)
    for begin, end in runs:
        yield _between(_snapshot(path, begin), _snapshot(path, end))
        version = end
    if version < until:
        yield TableDelta(_snapshot(path, until), (), ())


def _snapshot(path: str, version: int) -> Snapshot:
    snapshot = snapshot_of(path, version)
    if snapshot is None:
        raise _expired(path, version)
    return snapshot


def _expired(path: str, version: int) -> LakeError:
    return LakeError(
        f"{path}: version {version}, which the target has, is not in the lake any more (retention.versions); empty the "
        "target's table and deliver it from the beginning: stratalog deliver --reload"
    )


def _between(before: Snapshot, after: Snapshot) -> TableDelta:
    old, new = ({file.path: file for file in snapshot.files} for snapshot in (before, after))
    removed = [FileSelection(file) for path, file in old.items() if path not in new]
    added = [FileSelection(file) for path, file in new.items() if path not in old]
    for name in old.keys() & new.keys():
        if old[name].key == new[name].key:
            continue
        numbers = [deletion_vectors.row_numbers(after.path, file.deletion_vector) for file in (old[name], new[name])]
        removed.append(FileSelection(new[name], np.setdiff1d(numbers[1], numbers[0])))
        added.append(FileSelection(new[name], np.setdiff1d(numbers[0], numbers[1])))
    return TableDelta(after, _ordered(removed), _ordered(added))


def _ordered(files: Sequence[FileSelection]) -> tuple[FileSelection, ...]:
    """Selections by path, without those that have no row."""
    present = [rows for rows in files if rows.numbers is None or len(rows.numbers)]
    return tuple(sorted(present, key=lambda rows: rows.file.path))


@dataclass(frozen=True, slots=True)
class Share:
    """A share of a window's keys: of each key the hash says in which share it is."""

    number: int
    of: int

    def rows(self, rows: pa.Table, key: Sequence[str]) -> pa.Table:
        """The rows whose key is in the share."""
        if self.of == 1 or not len(rows):
            return rows
        return rows.filter(pa.array(hashes(rows, key) % np.uint64(self.of) == np.uint64(self.number)))


def key_shares(window: TableDelta) -> list[Share]:
    """Shares of a window's keys that each fit into memory; one if no row was removed: no key is looked up then."""
    count = -(-window.rows // KEYS_AT_ONCE) if window.removed else 1
    return [Share(number, max(1, count)) for number in range(max(1, count))]


def require_different_keys(
    label: str, window: TableDelta, key: Sequence[OutputColumn], source_key: Sequence[str]
) -> None:
    """Check that no two new rows have one key of the target. Raises DeliveryError.

    source_key: names of columns that tell rows apart at the source; empty where it has no key.
    """
    names = [column.name for column in key]
    # As many rows at once as fit into memory; equal keys are in one share.
    count = max(1, -(-window.added_rows // KEYS_AT_ONCE))
    for share in (Share(number, count) for number in range(count)):
        tables = (
            share.rows(table, names)
            for rows in window.added
            for table in rows.tables(window.path, [*names, RAW], window.after.schema)
        )
        texts = (tuples(key_literals(table, key)).cast(pa.large_string()) for table in tables)
        keys = pa.concat_arrays([pa.array([], pa.large_string()), *texts])
        if len(keys.unique()) < len(keys):
            columns = ", ".join(source_key)
            method = f"that of the source ({columns})" if source_key else "one that tells them apart, or remove it"
            raise DeliveryError(
                f"{label}: rows of the source have one key at the target, which finds rows by ({', '.join(names)}); "
                f"make its key {method}, and deliver again"
            )


@dataclass(frozen=True, slots=True)
class KeyedChanges:
    """The changes of one share of a table whose rows have a key in the target.

    unique: the columns of all of the target's unique indexes, the key's with them. A row in which one of these changed
    goes and comes, since values may change places among rows; any other change is an update. identity: further columns
    that rows to be deleted are to have.
    """

    window: TableDelta
    columns: tuple[OutputColumn, ...]
    key: tuple[OutputColumn, ...]
    unique: tuple[OutputColumn, ...]
    share: Share
    identity: tuple[OutputColumn, ...] = ()

    def deletes(self) -> Iterator[pa.Table]:
        """Keys of rows that went."""
        yield from self._keys_without(self.window.removed, self.window.added)

    def inserts(self) -> Iterator[pa.Table]:
        """Keys of rows that came."""
        yield from self._keys_without(self.window.added, self.window.removed)

    def _keys_without(self, files: Sequence[FileSelection], opposite: Sequence[FileSelection]) -> Iterator[pa.Table]:
        if not files:
            return
        updated = self._texts(opposite)
        for rows in self._keys(files):
            yield rows.filter(pc.invert(pc.is_in(self._text_of(rows), value_set=updated)))

    def writes(self) -> Iterator[tuple[pa.Table, bool]]:
        """Rows that came, those that are updates by themselves (True), in the order of the files."""
        removed = self._texts(self.window.removed) if self.window.removed else None
        names = [*(column.name for column in self.columns), RAW]
        for rows in self._row_tables(self.window.added, names):
            if removed is None:
                yield rows, False
                continue
            is_update = pc.is_in(self._text_of(rows), value_set=removed)
            yield rows.filter(is_update), True
            yield rows.filter(pc.invert(is_update)), False

    def _keys(self, files: Sequence[FileSelection]) -> Iterator[pa.Table]:
        names = dict.fromkeys(column.name for column in (*self.unique, *self.identity))
        return self._row_tables(files, [*names, RAW])

    def _texts(self, files: Sequence[FileSelection]) -> pa.Array:
        return pa.concat_arrays([pa.array([], pa.large_string()), *map(self._text_of, self._keys(files))])

    def _text_of(self, rows: pa.Table) -> pa.Array:
        """The keys as texts, equal where they are one and the unique values did not change."""
        texts = key_literals(rows, self.key)
        if len(self.unique) > len(self.key):
            # A number for values of any length; where two had one, the target's index would still stop the row.
            images = tuples(key_literals(rows, self.unique))
            image_rows = pa.table({"image": images, RAW: pa.nulls(len(rows), rows.schema.field(RAW).type)})
            texts.append(pa.array(hashes(image_rows, ["image"])).cast(pa.string()))
        return tuples(texts).cast(pa.large_string())

    def _row_tables(self, files: Sequence[FileSelection], names: Sequence[str]) -> Iterator[pa.Table]:
        key = [column.name for column in self.key]
        for rows in files:
            for table in rows.tables(self.window.path, names, self.window.after.schema):
                yield self.share.rows(table, key)


@dataclass(frozen=True, slots=True)
class KeylessChanges:
    """The changes of one share of a table whose rows are identified by all that is in them, and counted."""

    window: TableDelta
    columns: tuple[OutputColumn, ...]
    share: Share

    def net(self) -> tuple[pa.Table, NDArray[np.int64]]:
        """Rows, each once, and how many copies more or fewer of it there are."""
        names = [*(column.name for column in self.columns), RAW]
        parts = [
            (self.share.rows(table, names[:-1]), sign)
            for files, sign in ((self.window.removed, -1), (self.window.added, 1))
            for rows in files
            for table in rows.tables(self.window.path, names, self.window.after.schema)
        ]
        if not parts:
            return pa.table({}), np.zeros(0, np.int64)
        # Rows are summed by their literals, which are equal where the rows are.
        rows = pa.concat_tables([table for table, _ in parts])
        signs = np.concatenate([np.full(len(table), sign, np.int64) for table, sign in parts])
        images = tuples(literals(rows, self.columns))
        indexes = pa.table({"image": images, "sign": signs, "at": np.arange(len(rows))})
        sums = indexes.group_by("image", use_threads=False).aggregate([("sign", "sum"), ("at", "min")])
        sums = sums.sort_by("at_min")  # spans of rows are by their order
        copies = sums.column("sign_sum").to_numpy()
        changed = np.flatnonzero(copies)
        return rows.take(sums.column("at_min").take(pa.array(changed))), copies[changed]
