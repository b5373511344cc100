"""Tables as a log's changes leave them. Put here: applying changes in order. Not here: what they are compared with."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]


def text_of(row: Row) -> str:
    return json.dumps(row, ensure_ascii=False, sort_keys=True)


def lines_of(pieces: Iterable[str]) -> Iterator[str]:
    """Lines from their pieces, each of which lies within one line."""
    line: list[str] = []
    for piece in pieces:
        line.append(piece)
        if piece.endswith("\n"):
            yield "".join(line)
            line = []


class Replica:
    """Rows of tables, by ``(schema, table)``, with as many copies as there are. ``count``: before-images found."""

    def __init__(self) -> None:
        self.rows: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.count = 0
        self.changes = 0

    def apply(self, pieces: Iterable[str]) -> None:
        """Applies JSON lines, long ones in several pieces. Fails where a before-image fits no row."""
        for line in lines_of(pieces):
            change = json.loads(line)
            rows = self.rows[change["schema"], change["table"]]
            old = self._take(rows, change["before"], line) if change["before"] is not None else {}
            if change["after"] is not None:
                rows[text_of(old | change["after"])] += 1
            self.changes += 1

    def table(self, schema: str, table: str) -> list[Row]:
        return [json.loads(text) for text in self.rows[schema, table].elements()]

    def _take(self, rows: Counter[str], before: Row, line: str) -> Row:
        """Takes out a row that has all the columns of a before-image, which may hold some columns only."""
        text = text_of(before)
        if not rows[text]:
            del rows[text]
            fitting = (text for text in rows if before.items() <= json.loads(text).items())
            text = next(fitting, "")
            assert text, f"no row is as it was before: {line}\nthere are: {[*rows][:3]}"
        rows[text] -= 1
        if not rows[text]:
            del rows[text]
        self.count += 1
        row: Row = json.loads(text)
        return row
