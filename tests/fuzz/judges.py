"""What must hold of texts and files that are no log: statements, sets of GTIDs, configurations, tables of a lake.

Each is read, or refused by the one error of its kind, in one message; and what is read is the same when it is read
another way.

Put here: the judges. Not here: those of logs and JSON documents (oracle.py), or what is read first (corpus/).
"""

import atexit
import contextlib
import shutil
import struct
import tempfile
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from pyroaring import BitMap64

from spark_jobs.binlog.events.query_event import Session
from spark_jobs.config.loader import load
from spark_jobs.ddl.classify import Effect, Statement, classify
from spark_jobs.ddl.effects import CreateTable, effects, name_changes
from spark_jobs.ddl.foreign_keys import declared_keys, dropped_keys
from spark_jobs.delta import deletion_vectors
from spark_jobs.delta.deletion_vectors import Descriptor
from spark_jobs.delta.snapshot import Snapshot, removed_files, snapshot_of
from spark_jobs.errors import ConfigError, DecodeError, LakeError, StratalogError, Unsupported
from spark_jobs.log.gtid import DomainGtids, Gtids, MysqlGtids, NoGtids, parse_gtids
from spark_jobs.log.location import parse_location

_MODES = {b"0": Session(), b"1": Session(sql_mode=4), b"2": Session(sql_mode=1 << 20), b"3": Session(sql_mode=1)}
"""By the first byte of an input: none, ANSI_QUOTES, NO_BACKSLASH_ESCAPES, REAL_AS_FLOAT."""
_SEPARATOR = b"\n---\n"
"""Between two commits of a table's log."""
_ROWS = 100
_MAGIC = 1681511377


class Wrong(Exception):
    """The project did what it must never do."""


@cache
def _folder() -> Path:
    """A folder for files of inputs, which is gone with the process."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-input-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextlib.contextmanager
def _refusing(kind: type[StratalogError]) -> Iterator[None]:
    """An error of a kind is in order where it has a message."""
    try:
        yield
    except kind as error:
        if not str(error).strip():
            raise Wrong(f"an error without a message: {error!r}") from error


def judge_statement(content: bytes) -> None:
    """Raises where a statement is neither read nor refused, or means something else behind a comment."""
    session = _MODES.get(content[:1], Session())
    text = content[1:].decode("utf-8", "replace")
    statement = classify(text, "shop", session)
    classify(text, "shop", session, is_cut=True)
    found = _effects_of(statement, session)
    for read in (lambda: declared_keys(text, "shop"), lambda: dropped_keys(text)):
        with _refusing(DecodeError):
            read()
    for name in statement.tables or ():
        if not statement.names(*name):
            raise Wrong(f"{name} is among the tables of a statement that does not name it")
    if not text.startswith("DELETE FROM `"):  # as servers write it alone, of a table that a restart emptied
        commented = classify(f"/* c */ {text}", "shop", session)
        if (commented.effect, commented.tables) != (statement.effect, statement.tables):
            raise Wrong("a comment before a statement changes what it is about")
        if _effects_of(commented, session) != found:
            raise Wrong("a comment before a statement changes its effects")


def _effects_of(statement: Statement, session: Session) -> object:
    try:
        found = effects(statement, "shop", session)
        name_changes(statement, "shop", session)
    except Unsupported as error:
        return str(error)
    for effect in found:
        if isinstance(effect, CreateTable):
            with _refusing(DecodeError):
                assert effect.definition is None or effect.definition.columns is not None
    if found and statement.effect in (Effect.ROWS, Effect.ROUTINE, Effect.TRANSACTION):
        raise Wrong(f"{statement.effect} has effects on tables: {found}")
    return repr(found)


def judge_gtids(content: bytes) -> None:
    """Raises where a set is neither read nor refused, does not read back, or breaks the algebra of sets.

    The first byte says which form the others are: ``m`` and ``d`` are bodies of events, all else is text.
    """
    body = content[1:]
    decode: dict[bytes, Callable[[bytes], Gtids]] = {b"m": MysqlGtids.decode, b"d": DomainGtids.decode}
    if content[:1] in decode:
        with contextlib.suppress(NoGtids):
            gtids = decode[content[:1]](body)
            gtids |= gtids  # type: ignore[operator] # of one kind
            _judge_set(gtids)
        return
    first, _, second = body.decode("utf-8", "replace").partition("\n")
    with _refusing(ConfigError):
        parse_location(first)
    with _refusing(ConfigError):
        left = parse_gtids(first)
        _judge_set(left)
        right = parse_gtids(second)
        if type(left) is type(right):
            _judge_pair(left, right)


def _judge_set(gtids: Gtids) -> None:
    with contextlib.suppress(NoGtids):  # numbers of an event may be ones that no server writes
        if str(gtids) and type(gtids).parse(str(gtids)) != gtids:
            raise Wrong(f"{gtids} does not read back")
    if gtids - gtids:  # type: ignore[operator] # of one kind
        raise Wrong(f"{gtids} is not itself")


def _judge_pair(left: Any, right: Any) -> None:
    """left, right: sets of one kind."""
    joined = left | right
    if not (left <= joined and right <= joined) or joined - left - right:
        raise Wrong(f"{left} and {right} are not in their union {joined}")


def judge_configuration(content: bytes) -> None:
    """Raises where a configuration is neither read nor refused, or read differently twice."""
    file = _folder() / "pipeline.yaml"
    file.write_bytes(content)
    with _refusing(ConfigError):
        pipeline = load(file, {"SECRET": "s3cret"})
        if load(file, {"SECRET": "s3cret"}) != pipeline:
            raise Wrong("a configuration is not the same when it is read again")
        if "s3cret" in repr(pipeline) + str(pipeline):
            raise Wrong("a variable's value is shown")


def judge_delta_log(content: bytes) -> None:
    """Raises where commits of a table are neither read nor refused, or the newest version is not the one by number."""
    table = _folder() / "table"
    log = table / "_delta_log"
    shutil.rmtree(table, ignore_errors=True)
    log.mkdir(parents=True)
    commits = content.split(_SEPARATOR)
    for version, commit in enumerate(commits):
        (log / f"{version:020}.json").write_bytes(commit)
    with _refusing(LakeError):
        newest = snapshot_of(str(table))
        if newest is None or newest.version != len(commits) - 1:
            raise Wrong(f"{len(commits)} commits, and {newest and newest.version} is the newest version")
        _read_all(newest)
        reread = snapshot_of(str(table), newest.version)
        if reread is None or reread.files != newest.files or reread.metadata != newest.metadata:
            raise Wrong("the newest version is not the same by its number")
        removed_files(str(table), of_all_commits=True)


def _read_all(snapshot: Snapshot) -> None:
    """What the log says of a table and its files."""
    for read in (
        lambda: snapshot.schema.spark_types,
        lambda: snapshot.schema.arrow(physical=False),
        lambda: snapshot.has_change_data,
        lambda: snapshot.has_deletion_vectors,
        lambda: snapshot.timestamp,
        lambda: snapshot.user_metadata,
    ):
        with _refusing(LakeError):
            read()
    for file in snapshot.files[:3]:
        with _refusing(LakeError):
            for column in snapshot.schema.names[:5]:
                file.bounds(snapshot.schema, column)
                file.may_have_values(snapshot.schema, column)
            file.location(snapshot.path)
            assert file.num_rows is None or file.num_rows == file.num_rows
            assert file.key == file.key
            if file.deletion_vector:
                deletion_vectors.living_rows_mask(snapshot.path, file.deletion_vector, _ROWS)


def judge_deletion_vector(content: bytes) -> None:
    """Raises where a vector is neither read nor refused, or has other rows in a file than inline.

    The first byte says what the others are: ``i`` a vector that is inline, ``f`` one in a file whose frame is right,
    all else a file.
    """
    table, file = _folder() / "vectors", _folder() / "vectors" / "vector.bin"
    table.mkdir(exist_ok=True)
    vector = struct.pack("<i", _MAGIC) + content[1:]
    match content[:1]:
        case b"i":
            padded = vector + bytes(-len(vector) % 4)
            _judge_vector(table, Descriptor("i", deletion_vectors.z85_encode(padded), None, len(vector), 0))
        case b"f":
            file.write_bytes(b"\1" + struct.pack(">i", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector)))
            _judge_vector(table, Descriptor("p", str(file), 1, len(vector), 0))
        case _:
            file.write_bytes(content[1:])
            (size,) = struct.unpack(">i", content[2:6].ljust(4, b"\0"))
            _judge_vector(table, Descriptor("p", str(file), 1, size, 0))


def _judge_vector(table: Path, descriptor: Descriptor) -> None:
    with _refusing(LakeError):
        deletion_vectors.stored_vectors(str(table), [descriptor])
    # Its own count of rows is asked for first: the log's has to be the same.
    count = _rows_of(table, descriptor)
    if count is None:
        return
    known = Descriptor(
        descriptor.storage_type, descriptor.path_or_inline, descriptor.offset, descriptor.size, cardinality=count
    )
    with _refusing(LakeError):
        rows = deletion_vectors.read(str(table), known)
        if count < _ROWS and BitMap64.deserialize(rows.serialize()) != rows:
            raise Wrong(f"{count} rows do not read back")
        if count < _ROWS:
            mask = deletion_vectors.living_rows_mask(str(table), known, _ROWS)
            if len(mask) != _ROWS or mask.sum() != _ROWS - count:
                raise Wrong(f"{count} rows are deleted, and {mask.sum()} of {_ROWS} are not")


def _rows_of(table: Path, descriptor: Descriptor) -> int | None:
    try:
        return len(deletion_vectors.read(str(table), descriptor))
    except LakeError as error:
        counted = str(error).rpartition(": has ")[2].partition(" rows")[0]
        return int(counted) if counted.isdigit() else None
