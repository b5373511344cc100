"""Statistics of Delta's log as metrics of Iceberg's manifests: counts, and bounds as bytes.

Put here: the bytes of values, as the specification has them ("Binary single-value serialization"). Not here: reading
statistics (delta/statistics.py).
"""

import struct
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

from spark_jobs.delta import statistics
from spark_jobs.delta.schema import DeltaColumn
from spark_jobs.iceberg.avro_files import Metrics
from spark_jobs.iceberg.schema import Leaf

_DELTA = {
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
}
"""Types by which Delta's statistics are read; Delta keeps no bounds of others, but of decimals."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KINDS = ("minValues", "maxValues", "nullCount")
_EXACT = Context(prec=200)
"""Digits enough for any DECIMAL; Python's default context rounds to 28."""


def metrics(stats: Mapping[str, Any], leaves: Iterable[Leaf]) -> Metrics:
    """A data file's metrics by its statistics in Delta's log."""
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    nulls: dict[int, int] = {}
    for leaf in leaves:
        values = {kind: _value_at(stats.get(kind, {}), leaf.path[:-1]) for kind in _KINDS}
        kind = _DELTA.get(leaf.type, leaf.type.replace(" ", ""))
        bounds = statistics.bounds(values, DeltaColumn(leaf.path[-1], kind))
        if bounds.nulls is not None:
            nulls[leaf.id] = bounds.nulls
        # Delta has an order of these types alone.
        if leaf.type in _DELTA or leaf.type.startswith("decimal"):
            for bound, into in ((bounds.minimum, lower), (bounds.maximum, upper)):
                if bound is not None:
                    into[leaf.id] = to_bytes(bound, leaf.type, is_lower=into is lower)
    count = stats.get("numRecords")
    counts = dict.fromkeys(nulls, count) if nulls and count is not None else None
    return Metrics(counts, nulls or None, lower or None, upper or None)


def _value_at(values: Any, path: Iterable[str]) -> Mapping[str, Any]:
    for name in path:
        values = values.get(name, {}) if isinstance(values, dict) else {}
    return values if isinstance(values, dict) else {}


def to_bytes(value: Any, kind: str, *, is_lower: bool) -> bytes:
    """A bound of a type of Iceberg's. A zero of floating point has the sign by which it is outside of both zeros."""
    match kind:
        case "int":
            return struct.pack("<i", value)
        case "long":
            return struct.pack("<q", value)
        case "float" | "double":
            number = float(value) or (-0.0 if is_lower else 0.0)
            return struct.pack("<f" if kind == "float" else "<d", number)
        case "string":
            return str(value).encode()
        case "date" | "timestamp" | "timestamptz":
            return _time_bytes(value)
        case _:
            return _decimal_bytes(value, int(kind.partition(",")[2].rstrip(")")))


def _time_bytes(value: date) -> bytes:
    if not isinstance(value, datetime):
        return struct.pack("<i", value.toordinal() - _EPOCH.toordinal())
    since = (value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH
    return struct.pack("<q", since // timedelta(microseconds=1))


def _decimal_bytes(value: Decimal, scale: int) -> bytes:
    unscaled = int(value.scaleb(scale, _EXACT))
    # Two's complement has one bit more than the number's own.
    bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length() + 1
    return unscaled.to_bytes((bits + 7) // 8, "big", signed=True)
