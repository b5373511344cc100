"""Data files: Parquet under physical names, and reading columns of them back by logical names.

Put here: the layout of files. Not here: which rows are in them, or naming them in a commit (commits.py).
"""

import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from spark_jobs.delta import deletion_vectors, statistics
from spark_jobs.delta.log_files import directory, random_prefix
from spark_jobs.delta.schema import ArrayType, DeltaColumn, DeltaType, MapType, StructType, TableSchema, arrow_type
from spark_jobs.delta.snapshot import DELETION_VECTORS, DataFile
from spark_jobs.errors import LakeError
from spark_jobs.storage.files import StoredPath, durable, readable, reason

_ROW_GROUP_BYTES = 128 << 20
_ROW_GROUP_ROWS = 1 << 17
"""Few enough for a reader of a range of keys to leave most of a sorted file."""
_PAGE_BYTES = 1 << 20
_ROWS_A_PAGE_CHECK = 1024
_SAMPLE_ROWS = 8192
_DISTINCT = 0.3
"""Part of a column's values in a sample that may differ for it to get a dictionary."""
_LARGE_VALUE = 4096
"""Bytes of a column's values on average above which it gets none: it takes longer to compare such values than to write
them again."""
_METADATA = {"org.apache.spark.version": "4.2.0"}
"""Metadata that tell readers of Spark 3 that days and times before 1582 are of the proleptic Gregorian calendar, as
Spark 4 writes them; without it they refuse such values."""


class FileLayout(TypedDict, total=False):
    """Layout of a data file, where it is not as by default."""

    row_group_rows: int
    """Rows in a row group at most; by default as many as fit in 128 MiB."""
    stats_columns: Collection[str]
    """Logical names of the columns whose bounds are kept, in place of those that the table says."""
    name: str
    """Name of the file, relative to the table's folder, in place of one for data files."""
    page_statistics: Collection[str]
    """Logical names of the columns that Parquet keeps bounds of, in place of all."""
    compression: Literal["snappy", "zstd"]
    """Codec, by default Spark's. For long values zstd at its lowest level is quicker, both ways, and half as large."""


def write(
    table_path: str,
    rows: pa.Table,
    schema: TableSchema,
    configuration: Mapping[str, str],
    **layout: Unpack[FileLayout],
) -> DataFile:
    """Write rows as one data file that no commit names yet, durably.

    Args:
        table_path: the table's folder.
        rows: at least one, with the table's columns by logical name, in any order.
        schema: the table's.
        configuration: the table's.
        layout: as ``Layout``.

    Raises LakeError, UnsupportedTable.
    """
    return write_parts(table_path, [rows], schema, configuration, **layout)


def write_parts(
    table_path: str,
    parts: Iterable[pa.Table],
    schema: TableSchema,
    configuration: Mapping[str, str],
    **layout: Unpack[FileLayout],
) -> DataFile:
    """Write rows that come in parts, at least one, as one data file; each part ends a row group.

    Of the parts before only the columns whose bounds are kept stay in memory. What is raised while they come leaves no
    file. The arguments are those of ``write``. Raises LakeError, UnsupportedTable.
    """
    # The file's name, and what is kept about its columns.
    stats_columns, page_statistics = layout.get("stats_columns"), layout.get("page_statistics")
    compression = layout.get("compression", "snappy")
    name = layout.get("name") or _file_name(configuration, compression)
    file = directory(table_path) / name
    # Columns with bounds in the log, and those with statistics in the file's pages.
    mapped = schema if stats_columns is None else _only(schema, stats_columns)
    indexed = statistics.indexed_columns(schema, configuration) if stats_columns is None else mapped
    parquet_statistics: bool | list[str] = True
    if page_statistics is not None:
        parquet_statistics = [schema.column(column).physical_name for column in page_statistics]
    # Rows of a group and of a page follow from the bytes of a row in the first part.
    tables = (to_physical(rows, schema) for rows in parts)
    first = next(tables)
    row_bytes = max(1, first.nbytes // max(1, first.num_rows))
    group_rows = layout.get("row_group_rows") or min(_ROW_GROUP_ROWS, max(1, _ROW_GROUP_BYTES // row_bytes))
    kept_names = [column.physical_name for column in indexed.columns] or first.column_names[:1]  # one tells the rows
    bounded: list[pa.Table] = []
    # An error inside the block leaves no file.
    try:
        with durable(file) as sink:
            with pq.ParquetWriter(
                sink,
                first.schema,
                compression=compression,
                compression_level=1 if compression == "zstd" else None,
                use_dictionary=_dictionary_columns(first),
                write_statistics=parquet_statistics,
                write_page_checksum=True,
                data_page_size=_PAGE_BYTES,
                write_batch_size=max(1, min(_ROWS_A_PAGE_CHECK, _PAGE_BYTES // row_bytes)),
                store_schema=False,
                store_decimal_as_integer=True,
            ) as writer:
                for table in chain([first], tables):
                    writer.write_table(table, group_rows)
                    bounded.append(table.select(kept_names))
                writer.add_key_value_metadata(_METADATA)
            size = sink.tell()
    except OSError as error:
        raise LakeError(f"{table_path}: cannot be written: {reason(error)}") from error
    # The statistics are those of all parts together.
    action = {
        "path": name,
        "partitionValues": {},
        "size": size,
        "modificationTime": int(time.time() * 1000),
        "dataChange": True,
        "stats": statistics.collect(pa.concat_tables(bounded), indexed, tight_bounds=_tight_bounds(configuration)),
    }
    return DataFile(action, table_path)


def read_columns(table_path: str, file: DataFile, columns: Sequence[str], schema: TableSchema) -> pa.Table:
    """Columns of a data file by logical names, in order, with all its rows, deleted ones among them.

    A column that the file does not have is null; one whose type was widened since has its type of now. Raises
    LakeError.
    """
    with reading(table_path, file):
        opened = open_file(table_path, file)
        names = _stored_names(opened, columns, schema)
        rows = opened.read(columns=names, use_threads=False)
    return _logical(rows, opened.metadata.num_rows, columns, schema)


def read_living(table_path: str, file: DataFile, columns: Sequence[str], schema: TableSchema) -> pa.Table:
    """Columns of a data file, as ``read_columns``, without rows that its deletion vector marks as deleted."""
    rows = read_columns(table_path, file, columns, schema)
    if file.deletion_vector is None:
        return rows
    return rows.filter(pa.array(deletion_vectors.living_rows_mask(table_path, file.deletion_vector, len(rows))))


def read_between(
    table_path: str, file: DataFile, columns: Sequence[str], schema: TableSchema, bounds: tuple[str, Any, Any]
) -> pa.Table:
    """Columns of a data file, without row groups in which no row lies between two values of a column of numbers.

    bounds: the column, the least and the greatest value; None leaves a side open.
    """
    name, lowest, highest = bounds
    parts: list[pa.Table] = []
    with reading(table_path, file):
        opened = open_file(table_path, file)
        leaf = leaf_of(opened, schema.column(name).physical_name)
        for group in range(opened.num_row_groups):
            # Bounds say nothing of NULL, and a column that was added later has none.
            stats = None if leaf is None else opened.metadata.row_group(group).column(leaf).statistics
            if stats is not None and stats.has_min_max and stats.null_count == 0:
                is_outside = (lowest is not None and stats.max < lowest) or (
                    highest is not None and stats.min > highest
                )
                if is_outside:
                    continue
            parts.append(read_row_group(opened, group, columns, schema))
    no_rows = pa.schema([schema.column(column).arrow(physical=False) for column in columns]).empty_table()
    return pa.concat_tables([no_rows, *parts])


def leaf_of(opened: pq.ParquetFile, physical_name: str) -> int | None:
    """The number of a file's leaf column; None where the file lacks the column."""
    metadata = opened.metadata
    return next((at for at in range(metadata.num_columns) if metadata.schema.column(at).path == physical_name), None)


def read_rows(
    table_path: str, file: DataFile, numbers: NDArray[np.int64], columns: Sequence[str], schema: TableSchema
) -> pa.Table:
    """Rows of a data file by number, in the order of the numbers; as ``read_columns``.

    Of the row groups only those are read that have some.
    """
    order = np.argsort(numbers, kind="stable")
    ordered, begin, parts = numbers[order], 0, list[pa.Table]()
    with reading(table_path, file):
        opened = open_file(table_path, file)
        for group in range(opened.num_row_groups):
            end = begin + opened.metadata.row_group(group).num_rows
            in_group = ordered[np.searchsorted(ordered, begin) : np.searchsorted(ordered, end)]
            if len(in_group):
                parts.append(read_row_group(opened, group, columns, schema).take(pa.array(in_group - begin)))
            begin = end
    return pa.concat_tables(parts).take(pa.array(np.argsort(order)))


@contextmanager
def reading(table_path: str, file: DataFile) -> Iterator[None]:
    """Turn errors of reading a data file inside the ``with`` block into LakeError: it is missing or damaged."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0]
        raise LakeError(
            f"{file.location(table_path)}: a data file cannot be read: {reason}; restore the table from a backup"
        ) from error


def open_file(table_path: str, file: DataFile) -> pq.ParquetFile:
    """A data file, for ``read_row_group``, inside ``reading``."""
    return parquet(file.location(table_path), coerce_int96_timestamp_unit="us")


def parquet(file: StoredPath, **options: Any) -> pq.ParquetFile:
    """A Parquet file wherever it is. Raises OSError, ArrowException."""
    return opened_parquet(readable(file), **options)


def opened_parquet(file: Path | pa.NativeFile, **options: Any) -> pq.ParquetFile:
    """A Parquet file whose pages are compared with their checksums, where they have some. Raises as ``parquet``."""
    return pq.ParquetFile(file, page_checksum_verification=True, **options)


def read_row_group(opened: pq.ParquetFile, number: int, columns: Sequence[str], schema: TableSchema) -> pa.Table:
    """Columns of one row group; as ``read_columns``."""
    names = _stored_names(opened, columns, schema)
    table = opened.read_row_group(number, columns=names, use_threads=False)
    return _logical(table, opened.metadata.row_group(number).num_rows, columns, schema)


def _stored_names(opened: pq.ParquetFile, columns: Sequence[str], schema: TableSchema) -> list[str]:
    """Physical names of those of the columns that a file has."""
    present = set(opened.schema_arrow.names)
    return [name for name in (schema.column(column).physical_name for column in columns) if name in present]


def _logical(table: pa.Table, count: int, columns: Sequence[str], schema: TableSchema) -> pa.Table:
    """Columns by logical names, in types of now, from those that a file has."""
    wanted_columns = [schema.column(name) for name in columns]
    arrays = []
    for column in wanted_columns:
        target = arrow_type(column.type, physical=False)
        if column.physical_name in table.column_names:
            arrays.append(_to_logical(table.column(column.physical_name), column.type, target))
        else:
            arrays.append(pa.chunked_array([pa.nulls(count, target)]))
    return pa.Table.from_arrays(arrays, schema=pa.schema([column.arrow(physical=False) for column in wanted_columns]))


def to_physical(rows: pa.Table, schema: TableSchema) -> pa.Table:
    """Rows by the table's physical names, with field ids, in the table's order. Raises LakeError."""
    if sorted(rows.column_names) != sorted(schema.names):
        raise LakeError(f"rows have the columns {rows.column_names}, and their table has {schema.names}")
    physical = schema.arrow(physical=True)
    arrays = []
    for column, target in zip(schema.columns, physical, strict=True):
        cells = rows.column(column.name)
        logical = arrow_type(column.type, physical=False)
        if cells.type != logical:
            cells = _converted(cells, column, logical)
        arrays.append(_renamed_fields(cells, target.type) if pa.types.is_nested(target.type) else cells)
    return pa.Table.from_arrays(arrays, schema=physical)


def _converted(cells: pa.ChunkedArray, column: DeltaColumn, target: pa.DataType) -> pa.ChunkedArray:
    """Cells of a type that holds the same values in another form: large strings, views, dictionaries."""
    try:
        return cells.cast(target)
    except pa.ArrowException as error:
        raise LakeError(f"column {column.name}: {cells.type} cannot be written as {column.ddl}: {error}") from error


def _renamed_fields(cells: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    """The same buffers under other names of fields."""
    return pa.chunked_array([chunk.view(target) for chunk in cells.chunks], target)


def _to_logical(cells: pa.ChunkedArray, kind: DeltaType, target: pa.DataType) -> pa.ChunkedArray:
    if not pa.types.is_nested(target):
        return cells if cells.type == target else cells.cast(target)
    if _same_layout(cells.type, arrow_type(kind, physical=True)):
        return _renamed_fields(cells, target)
    return pa.chunked_array([_converted_nested(chunk, kind, target) for chunk in cells.chunks], target)


def _same_layout(stored: pa.DataType, expected: pa.DataType) -> bool:
    """True if nested types are equal but for names of list elements and field ids."""
    if pa.types.is_struct(expected):
        return (
            pa.types.is_struct(stored)
            and [item.name for item in stored] == [item.name for item in expected]
            and all(_same_layout(a.type, b.type) for a, b in zip(stored, expected, strict=True))
        )
    if pa.types.is_map(expected):
        return (
            pa.types.is_map(stored)
            and _same_layout(stored.key_type, expected.key_type)
            and _same_layout(stored.item_type, expected.item_type)
        )
    if pa.types.is_list(expected):
        return pa.types.is_list(stored) and _same_layout(stored.value_type, expected.value_type)
    return bool(stored == expected)


def _converted_nested(array: pa.Array, kind: DeltaType, target: pa.DataType) -> pa.Array:
    """A nested array whose fields were added, dropped or widened after its file was written."""
    match kind:
        case StructType(fields):
            # By physical name: a field that the file lacks is null, one that the table lacks now is dropped.
            stored = {array.type.field(at).name: at for at in range(array.type.num_fields)}
            children = []
            for item, inner in zip(fields, target, strict=True):
                at = stored.get(item.physical_name)
                child = pa.nulls(len(array), inner.type) if at is None else array.field(at)
                children.append(child if at is None else _converted_nested(child, item.type, inner.type))
            return pa.StructArray.from_arrays(children, fields=list(target), mask=pc.is_null(array))
        case ArrayType(element):
            values = _converted_nested(array.flatten(), element, target.value_type)
            return _relisted(array, values, target)
        case MapType(key, value):
            flat = _compact(array)
            keys = _converted_nested(flat.keys, key, target.key_type)
            items = _converted_nested(flat.items, value, target.item_type)
            return pa.MapArray.from_arrays(flat.offsets, keys, items, target, mask=pc.is_null(flat))
        case _:
            return array if array.type == target else array.cast(target)


def _compact(array: pa.Array) -> pa.Array:
    """The array without an offset of its own."""
    return pa.concat_arrays([array, array.slice(0, 0)]) if array.offset else array


def _relisted(array: pa.Array, values: pa.Array, target: pa.DataType) -> pa.Array:
    """A list array of other values with the lengths of ``array``."""
    lengths = pc.fill_null(pc.list_value_length(array), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
    return pa.ListArray.from_arrays(offsets, values, type=target, mask=pc.is_null(array))


def _dictionary_columns(rows: pa.Table) -> list[str]:
    """Paths of the columns whose values may be kept in a dictionary, by a sample of the rows: those that repeat.

    Others fill a dictionary that is then given up, which takes a third of the time of writing. Floating-point numbers
    have none: Spark looks for 0.0 in a file's dictionaries and does not find -0.0 there, though the two are equal, and
    would skip rows that it needs.
    """
    sample = rows.slice(0, _SAMPLE_ROWS)
    return [
        path
        for item in sample.schema
        for path, values in _leaves(item.name, sample.column(item.name).combine_chunks())
        if not pa.types.is_floating(values.type) and _repeats(values)
    ]


def _repeats(values: pa.Array) -> bool:
    if values.nbytes > _LARGE_VALUE * len(values):
        return False
    return len(values) < _SAMPLE_ROWS or pc.count_distinct(values).as_py() <= _DISTINCT * len(values)


def _leaves(path: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Paths in Parquet of what a column is stored in, each with its values."""
    if pa.types.is_struct(values.type):
        for at, item in enumerate(values.type):
            yield from _leaves(f"{path}.{item.name}", values.field(at))
    elif pa.types.is_map(values.type):
        yield from _leaves(f"{path}.key_value.key", values.keys)
        yield from _leaves(f"{path}.key_value.value", values.items)
    elif pa.types.is_list(values.type):
        yield from _leaves(f"{path}.list.element", values.values)
    else:
        yield path, values


def _only(schema: TableSchema, names: Collection[str]) -> TableSchema:
    return TableSchema(tuple(column for column in schema.columns if column.name in names))


def _tight_bounds(configuration: Mapping[str, str]) -> bool:
    return configuration.get(DELETION_VECTORS, "false").lower() == "true"


def _file_name(configuration: Mapping[str, str], compression: str) -> str:
    prefix = random_prefix(configuration)
    name = f"part-00000-{uuid.uuid4()}-c000.{compression}.parquet"
    return f"{prefix}/{name}" if prefix else name


def row_groups(table_path: str, file: DataFile) -> list[int]:
    """Rows of each row group, in order."""
    metadata = parquet(file.location(table_path)).metadata
    return [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]
