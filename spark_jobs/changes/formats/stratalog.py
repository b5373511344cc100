"""The default format: one object a change, with values as docs/reference/types.md has them.

Put here: the object and its keys. Not here: values as text (changes/json_encoding.py).
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import ClassVar

import pyarrow as pa

from spark_jobs.binlog import Changes, Mark, TableDefinition
from spark_jobs.changes.formats.base import (
    DELETE,
    INSERT,
    UPDATE,
    ChangeLine,
    Format,
    SliceContext,
    StatementEntry,
    portions,
)
from spark_jobs.changes.json_encoding import (
    NULL,
    Image,
    images,
    instant,
    instants,
    pieces_of,
    text_of,
    unsigned_json_by_row,
)

OPERATIONS = {INSERT: "insert", UPDATE: "update", DELETE: "delete"}


class StratalogFormat(Format):
    """Writes ``source, file, offset, row, gtid, committed_at, schema, table, op, before, after``.

    And ``unsigned``, with the other reading of values whose sign nothing tells, where there are any; ``derived`` is
    true of a change that is not in the log, and follows from a foreign key.
    """

    needs_marks: ClassVar[bool] = False
    allows_statements: ClassVar[bool] = True
    allows_transactions: ClassVar[bool] = True
    allows_derived: ClassVar[bool] = True

    def lines(
        self, context: SliceContext, definition: TableDefinition, changes: Iterable[Changes]
    ) -> Iterator[ChangeLine]:
        """One line a row. Raises DecodeError."""
        # What all lines of a table have in common is text once.
        name = definition.name
        names = f'"schema": {text_of(name.schema)}, "table": {text_of(name.table)}'
        begin = _begin_line(context)
        mark = '"derived": true, ' if context.is_derived else ""
        for part in portions(changes):
            after = images(definition, part.after, part.raw, part.present)
            before = images(definition, part.before, part.before_raw, part.before_present)
            times = _times(part, context.committed)
            positions = zip(part.op.to_pylist(), part.offset.to_pylist(), part.row.to_pylist(), strict=True)
            rest = zip(_gtids(part), times, before, after, _unsigned(definition, context, part), strict=True)
            for (op, offset, row), (gtid, time, old, new, tail) in zip(positions, rest, strict=True):
                head = (
                    f'{begin}{offset}, "row": {row}, "gtid": {gtid}, "committed_at": "{time}", {names}, '
                    f'"op": "{OPERATIONS[op]}", {mark}"before": '
                )
                pair = {INSERT: (NULL, new), UPDATE: (old, new), DELETE: (new, NULL)}[op]
                yield ChangeLine(offset, row, _line(head, *pair, tail))

    def statement(self, context: SliceContext, entry: StatementEntry) -> str:
        schema, table = (text_of(name) for name in (entry.schema, entry.table))
        return (
            f'{_begin_line(context)}{entry.offset}, "row": 0, "gtid": {text_of(entry.gtid)}, '
            f'"committed_at": {text_of(instant(entry.committed_at, 6))}, "schema": {schema}, "table": {table}, '
            f'"op": "ddl", "database": {text_of(entry.database)}, "statement": {text_of(entry.text)}}}\n'
        )

    def edge(self, context: SliceContext, mark: Mark) -> str:
        op, xid = ("begin", "") if mark.kind == "begin" else ("commit", f', "xid": {text_of(mark.xid)}')
        return f'{_begin_line(context)}{mark.offset}, "row": 0, "gtid": {text_of(mark.gtid)}, "op": "{op}"{xid}}}\n'


def _begin_line(context: SliceContext) -> str:
    return f'{{"source": {text_of(context.source)}, "file": {text_of(context.file)}, "offset": '


def _unsigned(definition: TableDefinition, context: SliceContext, changes: Changes) -> list[str]:
    """The end of each row's line: the key ``unsigned`` where values have another reading, and the last brace."""
    after = unsigned_json_by_row(definition, context.either_sign, changes.after)
    before = unsigned_json_by_row(definition, context.either_sign, changes.before)
    ends = ["}\n"] * len(changes)
    operations = changes.op.to_pylist() if after or before else []
    for row in sorted({*after, *before}):
        old, new = before.get(row, "{}"), after.get(row, "{}")
        pair = {INSERT: ("null", new), UPDATE: (old, new), DELETE: (new, "null")}[operations[row]]
        ends[row] = f', "unsigned": {{"before": {pair[0]}, "after": {pair[1]}}}}}\n'
    return ends


def _line(head: str, before: Image, after: Image, tail: str) -> Iterable[str]:
    """A change as pieces of its line; one piece where no value is long."""
    cells = (head, *before, ', "after": ', *after, tail)
    try:
        return ("".join(cells),)  # type: ignore[arg-type]  # join refuses what is not text
    except TypeError:
        return pieces_of(cells)


def _times(changes: Changes, committed: datetime | None) -> list[str]:
    """Commit time of each row, as text."""
    times = pa.array([committed], changes.committed_at.type) if committed else changes.committed_at
    texts: list[str] = instants(times, 6).to_pylist()
    return texts * len(changes) if committed else texts


def _gtids(changes: Changes) -> list[str]:
    """One JSON text a row."""
    if changes.gtid is None:
        return ["null"] * len(changes)
    texts = [text_of(gtid) for gtid in changes.gtid.dictionary.to_pylist()]
    return [texts[at] for at in changes.gtid.indices.to_pylist()]
