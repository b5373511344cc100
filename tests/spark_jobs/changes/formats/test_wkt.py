import struct

import pytest

from spark_jobs.changes.formats.wkt import wkt_of


def point(x: float, y: float) -> bytes:
    return struct.pack("<BIdd", 1, 1, x, y)


def line(*points: tuple[float, float]) -> bytes:
    return struct.pack("<BII", 1, 2, len(points)) + b"".join(struct.pack("<dd", *xy) for xy in points)


def collection(kind: int, *parts: bytes) -> bytes:
    return struct.pack("<BII", 1, kind, len(parts)) + b"".join(parts)


@pytest.mark.parametrize(
    "wkb, text",
    [
        (point(1, -2.5), "POINT (1 -2.5)"),
        (struct.pack(">BIdd", 0, 1, 1, 2), "POINT (1 2)"),
        (line((0, 0), (1, 1.5)), "LINESTRING (0 0, 1 1.5)"),
        (collection(3, line((0, 0), (0, 3), (3, 3), (0, 0))[5:]), "POLYGON ((0 0, 0 3, 3 3, 0 0))"),
        (collection(4, point(1, 2), point(3, 4)), "MULTIPOINT ((1 2), (3 4))"),
        (collection(5, line((0, 0), (1, 1))), "MULTILINESTRING ((0 0, 1 1))"),
        (collection(7, point(1, 2), line((0, 0), (1, 1))), "GEOMETRYCOLLECTION (POINT (1 2), LINESTRING (0 0, 1 1))"),
        (collection(7), "GEOMETRYCOLLECTION EMPTY"),
    ],
)
def test_text(wkb: bytes, text: str) -> None:
    assert wkt_of(wkb) == text
