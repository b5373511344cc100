"""Rows of tables as they were, as text and as files: CSV, JSON lines, Parquet, Delta tables.

Put here: how values are written, and the files. Not here: which rows (table_rows.py), or what the terminal shows
(cli/at.py).

Values are written as ``stratalog changes`` writes them. CSV has text, times and base64 in quotes, and nothing for NULL.
"""

import base64
import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from spark_jobs.delta import commits, data_files
from spark_jobs.delta.snapshot import new_table
from spark_jobs.errors import ConfigError, StratalogError
from spark_jobs.lake.layout import local_path
from spark_jobs.pipeline.as_of.table_rows import QueryRows

_UNSIGNED = pa.decimal128(20, 0)
"""BIGINT UNSIGNED in the lake."""
Plain = Callable[[Any], Any]


def plain_of(kind: pa.DataType) -> Plain:  # noqa: PLR0911 - one a kind of type
    """What turns a value of a type, not NULL, into what json.dumps takes."""
    # Types that JSON has no form for are text or objects.
    if pa.types.is_decimal(kind):
        return int if kind == _UNSIGNED else "{:f}".format
    if pa.types.is_float32(kind):
        return lambda value: float(str(np.float32(value)))
    if pa.types.is_binary(kind):
        return lambda value: {"base64": _base64(value)}
    if pa.types.is_timestamp(kind):
        return _instant if kind.tz else _moment
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
    return [None if value is None else _text(plain(value)) for value in column.to_pylist()]


def _text(value: Any) -> str:
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
    """As ``write_csv``."""
    count = 0
    for rows in selection.batches():
        sink.write("".join(json_lines(rows)).encode())
        count += len(rows)
    return count


def write_parquet(selection: QueryRows, sink: BinaryIO) -> int:
    """As ``write_csv``."""
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


def require_target(folder: Path, lake: str) -> None:
    """Raises ConfigError where nothing may be written to a folder: it is not empty, or of the lake."""
    root = local_path(lake)
    if "://" in str(folder) or ":/" in str(folder):
        raise ConfigError({"to": f"{folder}: rows are written to a folder of this machine, not to a store"})
    place = folder.resolve()
    if root is not None and (place.is_relative_to(root.resolve()) or root.resolve().is_relative_to(place)):
        raise ConfigError({"to": f"{folder} is of the lake {root}; name a folder outside of it"})
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError({"to": f"{folder} is not empty; name a new folder"})


def write_files(selection: QueryRows, form: str, folder: Path) -> tuple[Path, int]:
    """Writes the rows of a table to a folder: the file, or Delta table, and how many rows. Raises as ``batches``."""
    name = selection.of.name
    try:
        if form == "delta":
            return _write_delta(selection, folder / name.schema / name.table)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.{form}"
        part = path.with_name(f".{path.name}.part")
        with part.open("wb") as sink:
            count = _WRITERS[form](selection, sink)
        part.replace(path)
    except OSError as error:
        raise StratalogError(f"{folder}: cannot be written: {error.strerror}: {error.filename}") from error
    return path, count


def _write_delta(selection: QueryRows, path: Path) -> tuple[Path, int]:
    path.mkdir(parents=True)
    design = new_table(str(path), selection.spark_types, {})
    parts = selection.batches()
    files = [data_files.write(str(path), rows, design.schema, design.configuration) for rows in parts]
    (path / "_delta_log").mkdir(exist_ok=True)
    commits.commit(design, adds=files, operation_parameters={"mode": "Append", "partitionBy": "[]"})
    return path, sum(file.num_records or 0 for file in files)


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _instant(value: datetime) -> str:
    return f"{_moment(value.astimezone(UTC).replace(tzinfo=None)).replace(' ', 'T')}Z"


def _moment(value: datetime) -> str:
    """Microseconds only where there are any: the lake does not say how many digits the column has."""
    text = value.strftime("%Y-%m-%d %H:%M:%S").rjust(19, "0")
    return f"{text}.{value.microsecond:06d}" if value.microsecond else text
