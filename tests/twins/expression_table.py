"""The table of random expressions as a definition, with its rows in Arrow. Put here: what needs no server."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.expressions.terms import Cells, Evaluate, Resolve
from spark_jobs.silver.row_values import Image, resolving
from tests.twins.random_expressions import LABELS
from tests.twins.slow_expressions import FAULT, as_utc

UTF8 = 255
TABLE = TableDefinition(
    TableName("shop", "t"),
    (
        Column("id", 3),
        Column("i8", 1),
        Column("u8", 1, unsigned=True),
        Column("i16", 2),
        Column("i24", 9),
        Column("n", 3),
        Column("u", 3, unsigned=True),
        Column("big", 8),
        Column("ubig", 8, unsigned=True),
        Column("bits", 16, 12),
        Column("y", 13),
        Column("flag", 1),
        Column("d0", 246, 5 << 8),
        Column("price", 246, 10 << 8 | 2),
        Column("d9", 246, 20 << 8 | 9),
        Column("fine", 246, 32 << 8 | 30),
        Column("wide", 246, 38 << 8 | 5),
        Column("f", 4, 4),
        Column("r", 5, 8),
        Column("state", 247, 1, charset=UTF8, labels=LABELS),
        Column("name", 15, 48, charset=UTF8),
        Column("code", 254, 24, charset=UTF8),
        Column("note", 252, 2, charset=UTF8),
        Column("fixed", 254, 4, charset=63),
        Column("photo", 15, 6, charset=63),
        Column("blob_", 252, 2, charset=63),
        Column("day", 10),
        Column("at", 18, 0),
        Column("at6", 18, 6),
        Column("seen", 17, 3),
        Column("seen0", 17, 0),
        Column("clock", 19, 0),
        Column("tags", 248, 1, charset=UTF8, labels=("a", "b")),
        Column("doc", 245, 4),
    ),
    key=(0,),
)
KINDS = {str(column.name): column.arrow for column in TABLE.columns}
_TEXTS = ("a", "ab", "", "Ä", "a ", "A", "b%", "ä𝄞", "x'y", "a\tb", "a\nb", "paid", "ß")
_REALS = (0.0, -0.0, 0.5, 7.0, 100.0, 2.0**53, -1.0, -3.0, 9.0)
_DAYS = (date(2024, 2, 29), date(2024, 3, 1), date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31))


def _random_value(name: str, kind: pa.DataType, random: Random) -> Any:
    if pa.types.is_decimal(kind):
        digits = random.randrange(10 ** random.choice((1, 2, kind.precision)))
        return Decimal((random.randrange(2) if name != "ubig" else 0, tuple(map(int, str(digits))), -kind.scale))
    if pa.types.is_integer(kind):
        low = 0 if name.startswith("u") or name in ("bits", "y") else -(1 << kind.bit_width - 1)
        return random.choice((0, 1, 2, 7, 100, (1 << kind.bit_width - 1) - 1, low, random.randint(low, 100)))
    if pa.types.is_timestamp(kind):
        clock = time(random.choice((0, 12)), 0, 0, random.choice((0, 0, 500_000)), UTC if kind.tz else None)
        return datetime.combine(random.choice(_DAYS), clock)
    values: dict[pa.DataType, tuple[Any, ...]] = {
        pa.float32(): _REALS,
        pa.float64(): _REALS,
        pa.date32(): _DAYS,
        pa.binary(): (b"a", b"ab", b"", b"\0", b"\xff\0", b"b "),
    }
    return random.choice(LABELS if name == "state" else values.get(kind, _TEXTS))


def rows_of(random: Random, count: int, *, faults: bool) -> tuple[Image, list[dict[str, Any]]]:
    """Rows as tasks have them, and as the slow twin has them; some cells have exact texts alone where that is asked."""
    rows = [
        {name: _random_value(name, kind, random) if random.random() < 0.85 else None for name, kind in KINDS.items()}
        for _ in range(count)
    ]
    arrays = [pa.array([row[name] for row in rows], kind) for name, kind in KINDS.items()]
    plain: list[dict[str, Any]] = [{name.casefold(): as_utc(cell) for name, cell in row.items()} for row in rows]
    raw = []
    for row in plain:
        lacking = [name for name, cell in row.items() if cell is None and faults and random.random() < 0.5]
        row.update(dict.fromkeys(lacking, FAULT))
        raw.append([(name, "0000-00-00") for name in lacking] or None)
    texts = pa.array(raw, pa.map_(pa.string(), pa.string()))
    return Image(pa.RecordBatch.from_arrays(arrays, [*KINDS]), texts), plain


def resolve() -> Resolve:
    """The columns of the table as terms."""
    return resolving(TABLE)


def evaluated(evaluate: Evaluate, image: Image, names: frozenset[str], count: int) -> list[Any]:
    """Values of rows, FAULT where there is none."""
    cells: Cells = evaluate(image.cells(TABLE, names))
    values = [as_utc(value) for value in cells.over(count).to_pylist()]
    faults: Any = [0] * count if cells.faults is None else cells.faults.tolist()
    return [FAULT if fault else value for fault, value in zip(faults, values, strict=True)]


def named(**cells: Any) -> Mapping[str, Cells]:
    """Columns of one row, by name."""
    return {name: Cells(pa.array([value], KINDS[name])) for name, value in cells.items()}
