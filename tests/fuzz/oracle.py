"""What must hold of any bytes at all, however damaged: the judges of the fuzzer and of its seeds.

Every reader of the package either reads on or raises a DecodeError that begins with the file and, behind its magic
bytes, an offset; the bytes add up; slices are the file again; and where the plain twin reads a table's rows too, both
read the same. Where kernels run as plain Python (NUMBA_DISABLE_JIT=1), memory.py judges each of their loads and stores.

Put here: the judges. Not here: where the bytes come from (seeds.py, mutations.py).
"""

import contextlib
import io
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from spark_jobs.binlog.events.scanner import FormatDescription, TableMaps, open_slice
from spark_jobs.binlog.events.table_map import TableDefinition, TableName, parse_table_map
from spark_jobs.binlog.events.xa import xa_step
from spark_jobs.binlog.kernels import memory
from spark_jobs.binlog.rows import file_decoder
from spark_jobs.binlog.rows.changes import Changes
from spark_jobs.binlog.rows.decoder import Decoder
from spark_jobs.binlog.rows.file_decoder import FileDecoder
from spark_jobs.binlog.slices.definitions import definitions_of
from spark_jobs.binlog.slices.listing import list_events, summarize
from spark_jobs.binlog.slices.slicer import Slicer
from spark_jobs.binlog.types.base import BadValue, Filled
from spark_jobs.binlog.types.json import JSON
from spark_jobs.errors import DecodeError
from tests.binlogs.segment_spec import chunked
from tests.fuzz import seeds
from tests.twins import slow_decoder

FILE = "log.000001"
MOST_MEMORY = 1 << 29
"""Bytes of Arrow's memory that an input may take at once, whatever its lengths claim."""
_MESSAGES = re.compile(rf"{re.escape(FILE)}:( |\d+: )")
_TWIN_COLLATIONS = {None, 8, 11, 33, 45, 63, 255}
_TABLES = 4
_STEP = 100


class Wrong(Exception):
    """The decoder did what it must never do."""


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """A DecodeError is in order if it says where."""
    try:
        yield
    except DecodeError as error:
        if not _MESSAGES.match(str(error)):
            raise Wrong(f"an error without file and offset: {error}") from error


def judge_log(content: bytes) -> None:
    """Raises where anything that reads a file fails to behave on this one."""
    before, memory = pa.default_memory_pool().max_memory(), _memory()
    _read_by_all(content)
    peak = pa.default_memory_pool().max_memory()
    if peak > max(before, memory + MOST_MEMORY):
        raise Wrong(f"{peak} bytes of memory for {len(content)} bytes of log")
    if _memory() > memory:
        raise Wrong(f"{_memory() - memory} bytes of memory wait for the garbage collector")


def judge_rows(content: bytes) -> None:
    """As ``judge_log``, of a log with one row event that has these bytes (seeds.py)."""
    judge_log(seeds.log_of(content))


def _memory() -> int:
    """Bytes of Arrow's memory that somebody holds: not those that wait to be used again."""
    spare = sum(owner.size for owner in memory._spares.values())
    return int(pa.default_memory_pool().bytes_allocated() - spare)


def _read_by_all(content: bytes) -> None:
    with refusing():
        list(list_events(chunked(content, 1000), FILE))
    _judge_account(content)
    slices = _slices(content)
    maps = TableMaps()
    passes = [_in_one_pass(content, partial=partial) for partial in (False, True)] + [_in_small_reads(content)]
    with refusing():
        scanner, _ = open_slice(FILE, 0, None, content, maps)
        definitions = list(_definitions(maps, scanner.format))
        row_sets = [_judge_rows(content, slices, definition) for definition in definitions[:_TABLES]]
        for pass_, (definition, rows) in product(passes, row_sets):
            if pass_.is_whole and rows is not None:
                _judge_pass(pass_, definition, rows)
        names_read = [definition.name for definition, rows in row_sets if rows is not None]
        if (
            names_read and names_read == passes[True].tables and not passes[True].is_whole
        ):  # each with a single table map
            raise Wrong("all tables at once are refused, and each by itself is read")


def refusal(content: bytes) -> str | None:
    """What the first reader says against a file, if anything."""
    return summarize(chunked(content, 1000), FILE).error or _first_refusal(content)


def _first_refusal(content: bytes) -> str | None:
    maps = TableMaps()
    try:
        scanner, _ = open_slice(FILE, 0, None, content, maps)
        for event in maps.events:
            definition = parse_table_map(event, scanner.format, f"{FILE}:0")
            list(Decoder(definition, before="all", partial=True).decode(FILE, 0, None, content))
    except DecodeError as error:
        return str(error)
    return None


def _judge_account(content: bytes) -> None:
    summary = summarize(chunked(content, 777), FILE)
    counted = summary.magic + sum(type_.bytes for type_ in summary.types) + summary.rest
    if counted != len(content) or summary.size != len(content):
        raise Wrong(f"an account of {counted} bytes of {len(content)}")
    if summary.error is not None and not _MESSAGES.match(summary.error):
        raise Wrong(f"an error without file and offset: {summary.error}")


def _slices(content: bytes) -> list[dict[str, Any]]:
    """The slices that could be cut, which must be the file again up to where they end."""
    slicer = Slicer(FILE, 0, None, target=300)
    rows: list[dict[str, Any]] = []
    with refusing():
        for piece in chunked(content, 400):
            rows += [row for batch in slicer.feed(piece) for row in batch.to_pylist()]
        rows += [row for batch in slicer.finish() for row in batch.to_pylist()]
    joined = b"".join(row["payload"] for row in rows)
    restored = bytearray(content[: len(joined)])
    if len(restored) > 21:
        restored[21] &= 0xFE  # the in-use flag is stored cleared
    if joined != bytes(restored):
        raise Wrong("the slices are not the file")
    return rows


def _definitions(maps: TableMaps, head: FormatDescription) -> Iterator[TableDefinition]:
    names = set()
    for event in maps.events:
        with refusing():
            definition = parse_table_map(event, head, f"{FILE}:0")
            if definition.name not in names:
                names.add(definition.name)
                str(definition)
                yield definition


@dataclass(frozen=True, slots=True)
class _Pass:
    """What the decoder of all tables at once gave: rows before ``stop`` by definition, all if ``is_whole``."""

    is_whole: bool
    tables: list[TableName]
    rows: dict[TableDefinition, list[tuple[object, ...]]]
    stop: int


def _in_one_pass(content: bytes, *, partial: bool) -> _Pass:
    decoder = FileDecoder(FILE, before="all", rows=5, partial=partial)
    pieces = (decoder.feed(piece) for piece in chunked(content, 500))
    return _pass_of(decoder, chain(chain.from_iterable(pieces), decoder.finish()))


def _in_small_reads(content: bytes) -> _Pass:
    """The same where the file is read as one, by steps that are smaller than most events."""
    with mock.patch.object(file_decoder, "PASS", _STEP):
        decoder = FileDecoder(FILE, before="all", rows=5)
    return _pass_of(decoder, decoder.read(io.BytesIO(content)))


def _pass_of(decoder: FileDecoder, blocks: Iterator[tuple[TableDefinition, Changes]]) -> _Pass:
    rows: defaultdict[TableDefinition, list[tuple[object, ...]]] = defaultdict(list)
    is_whole = False
    with refusing():
        for definition, changes in blocks:
            changes.after.validate(full=True)
            changes.before.validate(full=True)
            rows[definition] += _change_tuples(changes)
        is_whole = True
    return _Pass(is_whole, [TableName(*name) for name in decoder._feed.maps.names], rows, decoder.complete)


def _judge_pass(pass_: _Pass, definition: TableDefinition, expected: list[tuple[object, ...]]) -> None:
    """Check whether all tables at once gave what one table by itself does.

    By itself it is read by all that its table maps tell; of rows whose own tells less (a MINIMAL one has no character
    sets) only the positions are the same.
    """
    row_sets = {layout: rows for layout, rows in pass_.rows.items() if layout.name == definition.name}
    foreign_locations = {
        _offset_and_ordinal(row)
        for layout, rows in row_sets.items()
        if layout.columns != definition.columns
        for row in rows
    }
    actual = sorted(chain.from_iterable(row_sets.values()), key=_offset_and_ordinal)
    expected_rows = [
        row for row in sorted(expected, key=_offset_and_ordinal) if _offset_and_ordinal(row)[0] < pass_.stop
    ]
    if [*map(_offset_and_ordinal, actual)] != [*map(_offset_and_ordinal, expected_rows)]:
        raise Wrong(f"not the rows that one table by itself has, of {definition}: {actual} {expected_rows}")
    if any(
        a != b and _offset_and_ordinal(a) not in foreign_locations for a, b in zip(actual, expected_rows, strict=True)
    ):
        raise Wrong(f"not what one table by itself is, of {definition}: {actual} {expected_rows}")


def _offset_and_ordinal(row: tuple[object, ...]) -> tuple[int, int]:
    """Offset and ordinal of a listed row."""
    offset, ordinal = row[1:3]
    assert isinstance(offset, int)
    assert isinstance(ordinal, int)
    return offset, ordinal


def _judge_rows(
    content: bytes, slices: list[dict[str, Any]], table_definition: TableDefinition
) -> tuple[TableDefinition, list[tuple[object, ...]] | None]:
    """What a table was read by (what was told, and what its table maps add), and all rows if none is refused."""
    reader = Decoder(table_definition, before="all", rows=5, partial=True)
    blocks, complete = _decoded(reader, content)
    definition = reader.definition
    if complete and _twin_reads(definition):
        with contextlib.suppress(AssertionError, KeyError, IndexError, ValueError, OverflowError, UnicodeDecodeError):
            expected = list(slow_decoder.decode(content, definition))
            actual = [row for changes in blocks for row in _change_tuples(changes)]
            if actual != [_comparable(row) for row in expected]:
                raise Wrong(f"not what the plain twin reads of {definition}: {actual} {expected}")
    for row in slices:
        if row["kind"] != "control":
            _judge_slice_contents(row)
            decoder = Decoder(table_definition, before="key", partial=True, prepared=True)
            with refusing():
                for _ in decoder.decode(
                    FILE,
                    row["start"],
                    row["context"],
                    row["payload"],
                    transaction_start=row["transaction_start"],
                ):
                    pass
    return definition, [row for changes in blocks for row in _change_tuples(changes)] if complete else None


def _judge_slice_contents(row: dict[str, Any]) -> None:
    with refusing():
        definitions_of(FILE, row["start"], row["context"], row["payload"])
    for inside in (False, True):
        with refusing():
            xa_step(FILE, row["start"], row["context"], row["payload"], row["transaction_start"], inside=inside)


def _decoded(decoder: Decoder, content: bytes) -> tuple[list[Changes], bool]:
    """The batches before the first error, and whether there was none."""
    blocks, complete = [], False
    with refusing():
        for changes in decoder.decode(FILE, 0, None, content):
            changes.after.validate(full=True)
            changes.before.validate(full=True)
            blocks.append(changes)
        complete = True
    return blocks, complete


def _twin_reads(definition: TableDefinition) -> bool:
    return all(
        column.type_code in slow_decoder.READERS
        and column.charset in _TWIN_COLLATIONS
        and (column.labels is not None or not column.type.has_labels)
        for column in definition.columns
    )


def _change_tuples(changes: Changes) -> Iterator[tuple[object, ...]]:
    after, before = (
        list(zip(*(array.to_pylist() for array in batch.columns), strict=True)) or [()] * len(changes)
        for batch in (changes.after, changes.before)
    )
    for offset, op in enumerate(changes.op.to_pylist()):
        raw, before_raw = (
            dict(texts[offset].as_py() or []) if texts is not None else {}
            for texts in (changes.raw, changes.before_raw)
        )
        yield (
            op,
            changes.offset[offset].as_py(),
            changes.row[offset].as_py(),
            _comparable_image(after[offset]),
            _comparable_image(before[offset]) if op == 2 else None,
            raw,
            before_raw,
        )


def _comparable(row: slow_decoder.Row) -> tuple[object, ...]:
    before = None if row.before is None else _comparable_image(row.before)
    return row.op, row.offset, row.row, _comparable_image(row.after), before, row.raw, row.before_raw


def _comparable_image(image: Sequence[object]) -> list[object]:
    """NaN equals itself here, in a vector too, -0.0 and 0.0 differ; a value that is not there is null."""
    return [repr(value) if isinstance(value, float | list) else None if value is ... else value for value in image]


def judge_document(content: bytes) -> None:
    """Raises where bytes that claim to be a JSON document become anything but JSON or a refusal."""
    offsets = np.array([0, 0, len(content), len(content)], np.int32)
    text = pa.allocate_buffer(len(content))  # exact, so that a load behind the document is one behind the buffer
    np.frombuffer(text, np.uint8)[:] = np.frombuffer(content, np.uint8)
    validity = pa.py_buffer(np.array([0b110], np.uint8))
    filled = Filled(3, pa.py_buffer(offsets), text, validity, 1, marked=False)
    reading = JSON.reading(_JsonColumn())
    try:
        texts, exact = reading.finish(filled)
    except BadValue as error:
        if error.row != 1:
            raise Wrong(f"the document of row 1 is bad in row {error.row}") from error
        return
    texts.validate(full=True)
    if exact is not None or texts[0].as_py() is not None or texts[2].as_py() != "null":
        raise Wrong(f"rows around a document: {texts}")
    if len(content):
        json.loads(texts[1].as_py())


class _JsonColumn:
    type_code, meta, unsigned, charset, labels, declared = 245, 4, None, None, None, None
