"""Rows of tables as of a position, as text and as files: CSV, JSON lines, Parquet, Delta tables.

Put here: how values are written, and the files. Not here: which rows (table_rows.py), or what the terminal shows
(cli/at.py).

Values are written as ``stratalog changes`` writes them. CSV has text, times and base64 in quotes, and nothing for NULL.
"""

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from spark_jobs.config.model import Pipeline
from spark_jobs.config.store import ObjectStore, lake_text, store_of, store_scheme
from spark_jobs.delta import commits, data_files
from spark_jobs.delta.snapshot import DataFile, new_table
from spark_jobs.errors import ConfigError, StratalogError
from spark_jobs.lake.layout import local_path
from spark_jobs.pipeline.as_of.table_rows import QueryRows
from spark_jobs.storage import files
from spark_jobs.storage.files import StoredPath
from spark_jobs.storage.store_access import register_store

FORMATS = ("csv", "jsonl", "parquet", "delta")
"""Formats of files that rows are written to."""
_FILE_BYTES = 256 << 20
"""Bytes of rows in memory that a data file of a Delta table takes; its statistics need them until it is written."""
_UNSIGNED = pa.decimal128(20, 0)
"""BIGINT UNSIGNED in the lake."""
Plain = Callable[[Any], Any]


def plain_of(kind: pa.DataType) -> Plain:  # noqa: PLR0911 - one a kind of type
    """Function that turns a value of a type, not NULL, into what json.dumps takes."""
    # Types that JSON has no form for are text or objects.
    if pa.types.is_decimal(kind):
        return int if kind == _UNSIGNED else "{:f}".format
    if pa.types.is_float32(kind):
        return lambda value: float(str(np.float32(value)))
    if pa.types.is_binary(kind):
        return lambda value: {"base64": _base64(value)}
    if pa.types.is_timestamp(kind):
        return _instant if kind.tz else _moment_text
    if pa.types.is_date(kind):
        return date.isoformat
    if pa.types.is_map(kind):
        return dict
    if pa.types.is_struct(kind):
        return lambda value: {"srid": value["srid"], "wkb": _base64(value["wkb"])}
    if pa.types.is_list(kind):
        return lambda value: [float(str(np.float32(number))) for number in value]
    return lambda value: value


def texts(rows: pa.Table) -> Iterator[list[str | None]]:
    """Each row as text, a cell a column; None for NULL."""
    columns = [_texts(rows.column(name)) for name in rows.column_names]
    yield from (list(row) for row in zip(*columns, strict=True))


def _texts(column: pa.ChunkedArray) -> list[str | None]:
    plain = plain_of(column.type)
    return [None if value is None else _cell_text(plain(value)) for value in column.to_pylist()]


def _cell_text(value: Any) -> str:
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return str(value["base64"])
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def json_lines(rows: pa.Table) -> Iterator[str]:
    """Each row as an object on a line of its own."""
    names = rows.column_names
    plains = [plain_of(rows.column(name).type) for name in names]
    columns = [
        [None if value is None else plain(value) for value in rows.column(name).to_pylist()]
        for name, plain in zip(names, plains, strict=True)
    ]
    for cells in zip(*columns, strict=True):
        yield json.dumps(dict(zip(names, cells, strict=True)), ensure_ascii=False) + "\n"


def write_csv(selection: QueryRows, sink: BinaryIO) -> int:
    """The names of the columns, then the rows; how many. Raises as ``QueryRows.batches``, OSError."""
    count = 0
    schema = pa.schema([(field.name, _csv_type(field.type)) for field in selection.schema])
    with pa_csv.CSVWriter(sink, schema) as writer:
        for rows in selection.batches():
            columns = [_csv_column(rows.column(name)) for name in schema.names]
            writer.write_table(pa.table(columns, schema=schema))
            count += len(rows)
    return count


def _csv_type(kind: pa.DataType) -> pa.DataType:
    return kind if pa.types.is_integer(kind) or kind == _UNSIGNED else pa.string()


def _csv_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    is_kept = _csv_type(column.type) == column.type
    return column if is_kept else pa.chunked_array([pa.array(_texts(column), pa.string())])


def write_json_lines(selection: QueryRows, sink: BinaryIO) -> int:
    """The rows as JSON lines; how many. Raises as ``QueryRows.batches``, OSError."""
    count = 0
    for rows in selection.batches():
        sink.write("".join(json_lines(rows)).encode())
        count += len(rows)
    return count


def write_parquet(selection: QueryRows, sink: BinaryIO) -> int:
    """The rows as a Parquet file; how many. Raises as ``QueryRows.batches``, OSError."""
    count = 0
    with pq.ParquetWriter(sink, selection.schema) as writer:
        for rows in selection.batches():
            writer.write_table(rows)
            count += len(rows)
    return count


_WRITERS: dict[str, Callable[[QueryRows, BinaryIO], int]] = {
    "csv": write_csv,
    "jsonl": write_json_lines,
    "parquet": write_parquet,
}


def target_of(text: str, pipeline: Pipeline) -> StoredPath:
    """The folder that rows may be written to, on this machine or on an object store, which is then reached.

    A store of the lake's kind is reached as the lake's is. Raises ConfigError where the folder is not empty, of the
    lake, or on no store that is known; StratalogError where it cannot be looked at.
    """
    # An address in the one spelling that paths have; then where it must not lie, and whether something is there.
    try:
        address = lake_text(text)
    except ValueError as error:
        raise ConfigError({"to": str(error)}) from error
    if store_scheme(address) is None and ("://" in text or ":/" in text):
        raise ConfigError({"to": f"{text}: name a folder of this machine, or one as s3a://bucket/prefix"})
    if _is_within(address, pipeline.lake) or _is_within(pipeline.lake, address):
        raise ConfigError({"to": f"{text} is of the lake {pipeline.lake}; name a folder outside of it"})
    is_of_kind = store_scheme(address) == store_scheme(pipeline.lake)
    register_store(store_of(address, pipeline.store if is_of_kind else ObjectStore()))
    folder = files.stored_path(address)
    try:
        if _is_taken(folder):
            raise ConfigError({"to": f"{text} is not empty; name a new folder"})
    except OSError as error:
        raise StratalogError(f"{text}: cannot be read: {files.reason(error)}") from error
    return folder


def _is_within(inner: str, outer: str) -> bool:
    """True if an address is another's, or below it."""
    folders = [local_path(address) for address in (inner, outer)]
    if folders[0] is not None and folders[1] is not None:
        return folders[0].resolve().is_relative_to(folders[1].resolve())
    return f"{inner.rstrip('/')}/".startswith(f"{outer.rstrip('/')}/")


def _is_taken(folder: StoredPath) -> bool:
    if isinstance(folder, Path):
        return folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    return next(files.walk(folder), None) is not None


def write_files(selection: QueryRows, form: str, folder: StoredPath) -> tuple[StoredPath, int]:
    """Write the rows of a table below a folder: the file, or Delta table, and how many rows.

    form: of FORMATS. A file is there complete or not at all. Raises as ``batches``, StratalogError.
    """
    name = selection.of.name
    try:
        if form == "delta":
            return _write_delta(selection, folder / name.schema / name.table)
        path = folder / f"{name}.{form}"
        with _appearing(path) as sink:
            count = _WRITERS[form](selection, sink)
    except OSError as error:
        raise StratalogError(f"{folder}: cannot be written: {files.reason(error)}") from error
    return path, count


@contextmanager
def _appearing(path: StoredPath) -> Iterator[BinaryIO]:
    """A new file that has its name once it is complete; an object appears so by itself. Raises OSError."""
    part = path.with_name(f".{path.name}.part") if isinstance(path, Path) else path
    with files.durable(part) as sink:
        yield sink
    if isinstance(part, Path) and isinstance(path, Path):
        part.replace(path)


def _write_delta(selection: QueryRows, path: StoredPath) -> tuple[StoredPath, int]:
    if isinstance(path, Path):
        (path / "_delta_log").mkdir(parents=True)
    design = new_table(str(path), selection.spark_types, {})
    # As many row groups in a file as are held until its statistics are known.
    parts, new_files = selection.batches(), list[DataFile]()
    while (first := next(parts, None)) is not None:
        part = _up_to(_FILE_BYTES, first, parts)
        new_files.append(data_files.write_parts(str(path), part, design.schema, design.configuration))
    commits.commit(design, adds=new_files, operation_parameters={"mode": "Append", "partitionBy": "[]"})
    return path, sum(file.num_records or 0 for file in new_files)


def _up_to(size: int, first: pa.Table, parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The first part, and further ones until they have so many bytes."""
    yield first
    total = first.nbytes
    while total < size and (part := next(parts, None)) is not None:
        yield part
        total += part.nbytes


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _instant(value: datetime) -> str:
    return f"{_moment_text(value.astimezone(UTC).replace(tzinfo=None)).replace(' ', 'T')}Z"


def _moment_text(value: datetime) -> str:
    """Microseconds only where there are any: the lake does not say how many digits the column has."""
    text = value.strftime("%Y-%m-%d %H:%M:%S").rjust(19, "0")
    return f"{text}.{value.microsecond:06d}" if value.microsecond else text
