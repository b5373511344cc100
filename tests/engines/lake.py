"""Tables that other engines are asked for, and what they hold, by the project's own reader.

Put here: tables, requests and expected rows. Not here: engines (read.py), or the page (matrix.py).
"""

import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyroaring import BitMap64

from spark_jobs.delta import data_files, deletion_vectors, schema_changes
from spark_jobs.delta.commits import commit
from spark_jobs.delta.schema import DeltaColumn
from spark_jobs.delta.snapshot import Snapshot, snapshot_of
from spark_jobs.iceberg.table_view import show
from tests.engines.read import Request, Rows, comparable
from tests.spark_jobs.delta.tables import MAPPED, TYPES, append, begin, newest

WIDENING = MAPPED | {"delta.enableTypeWidening": "true"}
FEW = {"key": "BIGINT", "text": "STRING", "i32": "INT", "f": "FLOAT"}


@dataclass(frozen=True, slots=True)
class Question:
    """Something that an engine is asked. kind: ``type``, or ``feature``."""

    kind: str
    name: str
    request: Request
    expected: Rows


def questions(folder: Path) -> list[Question]:
    """Writes the tables, each as a Delta and as an Iceberg table, and asks for their types and features."""
    found: list[Question] = []
    # One table has all types; each column is asked for by itself, so that one that is refused hides no other.
    snapshot = append(append(begin(_path(folder, "types"), MAPPED, TYPES), range(60)), range(60, 100))
    show(snapshot.path)
    found += [_column_rows("type", kind, snapshot, [name]) for name, kind in TYPES.items()]
    # Merges: rows are deleted by vectors, and written again.
    snapshot = append(append(begin(_path(folder, "merged"), MAPPED, FEW), range(40)), range(40, 60))
    first = snapshot.version
    show(snapshot.path)
    for at, numbers in ((0, [1, 5, 39]), (1, [0, 19]), (0, [2])):
        snapshot = append(_deleted(snapshot, at, numbers), [100 + snapshot.version])
        show(snapshot.path)
    found.append(_row_count("count(*) after merges", snapshot))
    found.append(_column_rows("feature", "deletion vectors", snapshot, [*FEW]))
    older = snapshot_of(snapshot.path, first)
    assert older
    found.append(_column_rows("feature", "time travel", older, [*FEW], first))
    # Changes of columns, with rows before and after.
    for name, statements in {
        "added column": ["ADD COLUMN (extra INT)"],
        "renamed column": ["RENAME COLUMN text TO words"],
        "dropped column": ["DROP COLUMN i32"],
        "widened column": ["ALTER COLUMN i32 TYPE BIGINT", "ALTER COLUMN f TYPE DOUBLE"],
    }.items():
        found.append(_after_statements(folder, name, statements))
    found.append(_names(folder))
    return found


def _path(folder: Path, name: str) -> str:
    return str(folder / name)


def _deleted(snapshot: Snapshot, at: int, numbers: list[int]) -> Snapshot:
    file = snapshot.files[at]
    now = set(deletion_vectors.row_numbers(snapshot.path, file.deletion_vector).tolist())
    [vector] = deletion_vectors.write(snapshot.path, [BitMap64(sorted(now | {*numbers}))])
    return newest(snapshot.path, commit(snapshot, dv_updates=[(file, vector)]))


def _after_statements(folder: Path, name: str, statements: list[str]) -> Question:
    properties = WIDENING if name == "widened column" else MAPPED
    snapshot = append(begin(_path(folder, name.replace(" ", "_")), properties, FEW), range(20))
    show(snapshot.path)
    changed = schema_changes.apply(snapshot, statements)
    snapshot = newest(snapshot.path, commit(snapshot, metadata=changed.metadata, protocol=changed.protocol))
    table = pa.Table.from_pydict(
        {column.name: [_cell_value(column, key) for key in range(20, 30)] for column in snapshot.schema.columns},
        schema=snapshot.schema.arrow(physical=False),
    )
    snapshot = _written(snapshot, table)
    show(snapshot.path)
    return _column_rows("feature", name, snapshot, list(snapshot.schema.names))


def _cell_value(column: DeltaColumn, key: int) -> object:
    """A value; of a widened column one that only its new type holds."""
    values = {"long": key << 40, "double": key / 3, "float": key / 4, "integer": key}
    return key if column.name == "key" else values.get(str(column.type), f"row {key}")


def _written(snapshot: Snapshot, table: pa.Table) -> Snapshot:
    file = data_files.write(snapshot.path, table, snapshot.schema, snapshot.configuration)
    return newest(snapshot.path, commit(snapshot, adds=[file]))


def _names(folder: Path) -> Question:
    types = {"key": "BIGINT", "größe in €": "INT", "a.b": "STRING"}
    snapshot = begin(_path(folder, "names"), MAPPED, types)
    values = {"key": [1, 2, 3], "größe in €": [7, None, 9], "a.b": ["x", None, ""]}
    snapshot = _written(snapshot, pa.Table.from_pydict(values, schema=snapshot.schema.arrow(physical=False)))
    show(snapshot.path)
    return _column_rows("feature", "names of any text", snapshot, [*types])


def _row_count(name: str, snapshot: Snapshot) -> Question:
    request: Request = {"path": snapshot.path, "columns": [], "version": None, "is_count": True}
    return Question("feature", name, request, [[sum(len(part) for part in _parts(snapshot, ["key"]))]])


def _column_rows(kind: str, name: str, snapshot: Snapshot, columns: list[str], version: int | None = None) -> Question:
    """A question for columns, beside the key where rows would be hard to tell apart."""
    columns = columns if "key" in columns else ["key", *columns]
    kinds = {column.name: str(column.type) for column in snapshot.schema.columns}
    types = [(column, TYPES.get(column, kinds[column]) if kind == "type" else kinds[column]) for column in columns]
    request = {"path": snapshot.path, "columns": types, "version": version, "is_count": False}
    table = pa.concat_tables(_parts(snapshot, columns))
    rows = [[comparable(row[column], type_) for column, type_ in types] for row in table.select(columns).to_pylist()]
    return Question(kind, name, request, sorted(rows, key=json.dumps))


def _parts(snapshot: Snapshot, columns: list[str]) -> list[pa.Table]:
    parts = []
    for file in snapshot.files:
        rows = data_files.read_columns(snapshot.path, file, columns, snapshot.schema)
        parts.append(
            rows.filter(pa.array(deletion_vectors.living_rows_mask(snapshot.path, file.deletion_vector, rows.num_rows)))
        )
    return parts
