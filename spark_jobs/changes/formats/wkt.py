"""Geometries as well-known text, as the JTS library writes it.

Source: OGC 06-103r4, clauses 7 and 8; JTS, WKTWriter.

Put here: from WKB to text. Not here: SRIDs.
"""

import struct

_NAMES = {
    1: "POINT",
    2: "LINESTRING",
    3: "POLYGON",
    4: "MULTIPOINT",
    5: "MULTILINESTRING",
    6: "MULTIPOLYGON",
    7: "GEOMETRYCOLLECTION",
}


class _Wkb:
    """Reads forward over WKB."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def _take(self, form: str) -> float:
        value: float = struct.unpack_from(form, self._content, self._at)[0]
        self._at += struct.calcsize(form)
        return value

    def geometry(self) -> tuple[str, str]:
        """Name and body of the next geometry, which may be of others."""
        order = "<" if self._take("B") else ">"
        kind = int(self._take(f"{order}I"))
        return _NAMES[kind], self._body(kind, order)

    def _body(self, kind: int, order: str) -> str:
        if kind == 1:
            return f"({self._point(order)})"
        if kind == 2:
            return self._points(order)
        count = int(self._take(f"{order}I"))
        if not count:
            return "EMPTY"
        if kind == 3:
            return f"({', '.join(self._points(order) for _ in range(count))})"
        parts = [self.geometry() for _ in range(count)]
        return f"({', '.join(f'{name} {body}' if kind == 7 else body for name, body in parts)})"

    def _points(self, order: str) -> str:
        count = int(self._take(f"{order}I"))
        return f"({', '.join(self._point(order) for _ in range(count))})" if count else "EMPTY"

    def _point(self, order: str) -> str:
        return " ".join(_plain_number(self._take(f"{order}d")) for _ in range(2))


def wkt_of(wkb: bytes) -> str:
    """The text of a geometry, such as ``POINT (1 2)``."""
    name, body = _Wkb(bytes(wkb)).geometry()
    return f"{name} {body}"


def _plain_number(value: float) -> str:
    """Plain digits, without a fraction where there is none."""
    return str(int(value)) if value == int(value) else f"{value:.15f}".rstrip("0")
