"""Parquet files of one version of bronze, read in this process, with the location of each row.

A row's position is its file, row group, and row in the group: whoever reads its bytes later reads that group alone.
Files are chosen by Delta's statistics, row groups by Parquet's. Rows that a deletion vector marks are not read.

Put here: which files and groups may hold a part of the log, and reading columns of them. Not here: what the columns
mean (index.py, table.py).
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
from deltalake.fs import DeltaStorageHandler
from numpy.typing import NDArray

from spark_jobs.delta import kept
from spark_jobs.delta.data_files import opened_parquet
from spark_jobs.errors import LakeError
from spark_jobs.lake.own_commits import readable_table
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Range
from spark_jobs.storage.files import is_stored, readable, stored_path

_POSITION_COLUMNS = ("stretch", "number", "start", "stop")
"""The columns that Delta keeps minima and maxima of."""
_AT_ONCE = 32 << 20
"""Bytes of columns that are read at once."""
_OPEN = 32
"""Files whose footers are kept."""
_KEPT = 4
"""Row groups whose bytes are kept: tables next to each other in the log begin in the same ones."""


Numbers = NDArray[np.int64]
ChosenRows = Callable[[int], Numbers | None]
"""Gives the rows of a file that are read, by the file's number; None reads all."""


@dataclass(frozen=True, slots=True)
class FileRows:
    """Rows of a file with their places: ``groups`` the row group of each, ``rows`` its row there."""

    file: int
    columns: pa.Table
    groups: NDArray[np.int32]
    rows: NDArray[np.int32]


class DataFiles:
    """The data files of one Delta version of a table, by number."""

    def __init__(self, table: Table, version: int) -> None:
        """List the files of a version of bronze with their bounds. Raises LakeError."""
        self.path = table.path
        with readable_table(table.path):
            self._opened = kept.opened(table.path, version)
            added = pa.table(self._opened.get_add_actions(flatten=True))
        self.paths: list[str] = added.column("path").to_pylist()
        """Relative to the table's folder."""
        self._lowest, self._highest = _file_bounds(added, "min", "start"), _file_bounds(added, "max", "stop")
        self._is_known = _is_known(added)
        self._counts: list[int] = added.column("num_records").to_pylist()
        self._sizes: list[int] = added.column("size_bytes").to_pylist()
        self._lacking: dict[str, set[int]] = {}
        """Files that are known to have no slice of a kind, by kind."""
        self._footers: OrderedDict[int, pq.ParquetFile] = OrderedDict()
        self._groups: OrderedDict[tuple[int, int, tuple[str, ...]], pa.Table] = OrderedDict()

    def holding(self, within: Range | None) -> list[int]:
        """The files that may hold slices of a part of the log, in the log's order as far as statistics tell it.

        None as a part is all of it, here and below.
        """
        may_hold = np.ones(len(self.paths), bool)
        if within is not None:
            may_hold = ~self._is_known | _overlaps(self._lowest, self._highest, within)
        ordinals = np.flatnonzero(may_hold)
        in_order = np.lexsort([column[ordinals] for column in reversed(self._lowest)])
        return list(ordinals[in_order].tolist())

    def cuts(self, within: Range, rows: int) -> list[tuple[int, int, int]]:
        """Positions (stretch, number, start) inside a part of the log that no data file lies around.

        Between two of them there are so many slices, or those of one file: what is read piece by piece is cut there.
        """
        positions, count, reached = list[tuple[int, int, int]](), 0, within.start.order
        files = self.holding(within)
        if not self._is_known[files].all():
            return []
        begins, ends = (
            zip(*(column[files].tolist() for column in ends), strict=True) for ends in (self._lowest, self._highest)
        )
        for file, begin, end in zip(files, begins, ends, strict=True):
            if count >= rows and reached <= begin and within.start.order < begin:
                positions.append(begin)
                count = 0
            count += self._counts[file] or rows
            reached = max(reached, end)
        return positions

    def count(self, file: int) -> int:
        """The rows of a file, those that a deletion vector marks among them; 0 where nothing tells."""
        return self._counts[file] or 0

    def identity(self, file: int) -> str:
        """Identity of a file among all that the table ever has: path, bytes and rows."""
        return f"{self.paths[file]} {self._sizes[file]} {self._counts[file]}"

    def extent(self, file: int) -> tuple[tuple[int, int, int], tuple[int, int, int]] | None:
        """Position where (stretch, number, offset) a file's slices begin and end; None where statistics do not tell."""
        if not self._is_known[file]:
            return None
        (low, high) = ([int(column[file]) for column in ends] for ends in (self._lowest, self._highest))
        return (low[0], low[1], low[2]), (high[0], high[1], high[2])

    def note_lacking(self, file: int, kind: str) -> None:
        """A file is known to have no slice of a kind, so that its footer need not be read for it."""
        self._lacking.setdefault(kind, set()).add(file)

    def starts(self, file: int) -> Numbers:
        """The row of a file that each of its row groups begins with. Raises LakeError."""
        return _starts(self._footer(file).metadata)

    def read(
        self,
        within: Range | None,
        columns: Sequence[str],
        kind: str | None = None,
        selected: ChosenRows | None = None,
    ) -> Iterator[FileRows]:
        """Rows of the row groups that may hold slices of a part of the log, and of a kind: of others too.

        selected: only these rows. Raises LakeError.
        """
        for file in self.holding(within):
            rows = selected(file) if selected else None
            if file in self._lacking.get(kind or "", ()) or (rows is not None and not len(rows)):
                continue
            footer = self._footer(file)
            projection = _Projection(footer.metadata, columns, self._file_name(file))
            for groups in projection.batches(within, kind, rows):
                with self._reading_errors(file):
                    row_groups = footer.read_row_groups(groups, list(columns))
                yield self._located_rows(file, groups, row_groups, rows)

    def group(self, file: int, group: int, columns: Sequence[str]) -> pa.Table:
        """Columns of one row group, all of its rows. Kept for a while: neighbours are asked for next."""
        key = file, group, tuple(columns)
        row_group = self._groups.get(key)
        if row_group is None:
            footer = self._footer(file)
            with self._reading_errors(file):
                row_group = self._groups[key] = footer.read_row_group(group, list(columns))
        self._groups.move_to_end(key)
        while len(self._groups) > _KEPT:
            self._groups.popitem(last=False)
        return row_group

    def _located_rows(self, file: int, groups: list[int], columns: pa.Table, selected: Numbers | None) -> FileRows:
        """Rows of row groups without deleted ones and those not selected, each with its group and number in it."""
        footer = self._footer(file).metadata
        sizes = [footer.row_group(group).num_rows for group in groups]
        within = np.repeat(np.array(groups, np.int32), sizes)
        rows = np.concatenate([np.arange(size, dtype=np.int32) for size in sizes])
        alive = self._deleted.get(self.paths[file])
        if alive is None and selected is None:
            return FileRows(file, columns, within, rows)
        positions = _starts(footer)[within] + rows
        is_kept = np.ones(len(rows), bool) if selected is None else np.isin(positions, selected)
        if alive is not None:
            has_mark = positions < len(alive)
            is_kept[has_mark] &= alive[positions[has_mark]]
        return FileRows(file, columns.filter(pa.array(is_kept)), within[is_kept], rows[is_kept])

    @cached_property
    def _deleted(self) -> dict[str, NDArray[np.bool_]]:
        """Mask of the rows that stay, by path of a file with a deletion vector; rows beyond its end stay too."""
        protocol = self._opened.protocol()
        if "deletionVectors" not in (protocol.reader_features or ()):
            return {}
        vectors = pa.table(self._opened.deletion_vectors())
        alive_by_path, paths = {}, {PurePosixPath(path).name: path for path in self.paths}
        for uri, selection in zip(
            vectors.column("filepath").to_pylist(), vectors.column("selection_vector"), strict=True
        ):
            alive_by_path[paths[PurePosixPath(uri).name]] = selection.values.to_numpy(zero_copy_only=False)
        return alive_by_path

    def _arrow_source(self, file: int) -> Any:
        """A file as Arrow reads it. Raises OSError."""
        if is_stored(self.path):
            return readable(stored_path(self.path) / self.paths[file])
        files = pa_fs.PyFileSystem(DeltaStorageHandler.from_table(self._opened._table))  # noqa: SLF001 - as deltalake's own datasets
        return files.open_input_file(self.paths[file])

    def _footer(self, file: int) -> pq.ParquetFile:
        footer = self._footers.get(file)
        if footer is None:
            with self._reading_errors(file):
                footer = opened_parquet(self._arrow_source(file), coerce_int96_timestamp_unit="us")
            self._footers[file] = footer
        self._footers.move_to_end(file)
        while len(self._footers) > _OPEN:
            self._footers.popitem(last=False)
        return footer

    @contextmanager
    def _reading_errors(self, file: int) -> Iterator[None]:
        """Turn errors of reading a file into LakeError: the file is missing or damaged."""
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            reason = str(error).partition("\n")[0]
            raise LakeError(
                f"{self._file_name(file)}: a data file of bronze cannot be read: {reason}; restore bronze from a backup"
            ) from error

    def _file_name(self, file: int) -> str:
        return f"{self.path}/{self.paths[file]}"


class _Projection:
    """Columns of one Parquet file, and the row groups of it that are asked for."""

    def __init__(self, footer: pq.FileMetaData, columns: Sequence[str], name: str) -> None:
        self._footer = footer
        paths = [footer.schema.column(at).path for at in range(footer.num_columns)]
        tops = [path.partition(".")[0] for path in paths]
        missing = sorted({*columns} - {*tops})
        if missing:
            raise LakeError(
                f"{name}: a data file of bronze lacks the columns {', '.join(missing)}: it was written by something "
                "else, or the table maps columns to other names; restore bronze from a backup"
            )
        self._ordinals = [at for at, top in enumerate(tops) if top in columns]
        self._leaves = {name: paths.index(name) for name in (*_POSITION_COLUMNS, "kind") if name in paths}

    def batches(self, within: Range | None, kind: str | None, selected: Numbers | None = None) -> Iterator[list[int]]:
        """Row groups, as many as are read at once. selected: of rows of the file alone."""
        # Groups without what is asked for are not read at all.
        batch, size = list[int](), 0
        starts = _starts(self._footer)
        for number in range(self._footer.num_row_groups):
            group = self._footer.row_group(number)
            if selected is not None and not _has_any(selected, int(starts[number]), group.num_rows):
                continue
            if not self._may_hold(group, within, kind):
                continue
            bytes_ = sum(group.column(at).total_uncompressed_size for at in self._ordinals)
            if batch and size + bytes_ > _AT_ONCE:
                yield batch
                batch, size = [], 0
            batch.append(number)
            size += bytes_
        if batch:
            yield batch

    def _may_hold(self, group: pq.RowGroupMetaData, within: Range | None, kind: str | None) -> bool:
        bounds: dict[str, tuple[Any, Any]] = {}
        for name, leaf in self._leaves.items():
            statistics = group.column(leaf).statistics
            if statistics is not None and statistics.has_min_max:
                bounds[name] = statistics.min, statistics.max
        if kind is not None and "kind" in bounds and not bounds["kind"][0] <= kind <= bounds["kind"][1]:
            return False
        if within is None or any(name not in bounds for name in _POSITION_COLUMNS):
            return True
        lowest = [bounds[name][0] for name in ("stretch", "number", "start")]
        return bool(_overlaps(lowest, [bounds[name][1] for name in ("stretch", "number", "stop")], within))


def _starts(footer: pq.FileMetaData) -> Numbers:
    """The row of a file that each of its row groups begins with."""
    sizes = [footer.row_group(at).num_rows for at in range(footer.num_row_groups)]
    return np.cumsum([0, *sizes])[:-1].astype(np.int64)


def _has_any(rows: Numbers, start: int, count: int) -> bool:
    """True if some of rows, which are in order, are among so many from a row on."""
    first, last = np.searchsorted(rows, [start, start + count])
    return bool(first < last)


def _file_bounds(added: pa.Table, end: str, offset: str) -> list[NDArray[np.int64]]:
    """Least or greatest stretch, number and ``offset`` of each file; 0 where it is unknown."""
    columns = (_bound(added, end, name).cast(pa.int64()) for name in ("stretch", "number", offset))
    return [pc.fill_null(column, 0).to_numpy() for column in columns]


def _is_known(added: pa.Table) -> NDArray[np.bool_]:
    """Mask of the files of which all bounds are known."""
    is_known = np.ones(added.num_rows, bool)
    for end in ("min", "max"):
        for name in _POSITION_COLUMNS:
            is_known &= _bound(added, end, name).is_valid().to_numpy()
    return is_known


def _bound(added: pa.Table, end: str, name: str) -> pa.ChunkedArray:
    """The least or the greatest value of a column in each file; null where it is unknown."""
    column = f"{end}.{name}"
    return added.column(column) if column in added.column_names else pa.chunked_array([pa.nulls(added.num_rows)])


def _overlaps(lowest: Sequence[Any], highest: Sequence[Any], within: Range) -> Any:
    """True if rows between such values may hold a byte of a part of the log, or begin in it.

    ``lowest`` has stretch, number and start, ``highest`` stretch, number and stop, each a value or an array of them.
    """
    return _is_less(lowest, within.stop.order) & _is_less(within.start.order, highest)


def _is_less(position: Sequence[Any], limit: Sequence[Any]) -> Any:
    """True if a position lies before another one; of positions in arrays, which."""
    (stretch, number, offset), (last_stretch, last_number, last_offset) = position, limit
    is_less = (number < last_number) | ((number == last_number) & (offset < last_offset))
    return (stretch < last_stretch) | ((stretch == last_stretch) & is_less)
