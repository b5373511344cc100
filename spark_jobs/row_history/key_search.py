"""The slices in which chosen keys change: found by indexes of bronze's data files, which are built when first needed.

Put here: what an index is of, when it is built, and what of it is asked. Not here: its format
(bronze/log_key_index.py), or which changes are chosen in the slices (row_choice.py).

An index is of one data file and one table: hashes of the key texts that its changes have before and after them. It
holds as long as the schema history says of the data file's part of the log what it said when the index was built. What
no index covers is decoded: slices of XA transactions, which take effect elsewhere, files of few slices, tables in
object stores, and files that a range covers in part and that have no index yet.
"""

import hashlib
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa

from spark_jobs.binlog import Changes, TableDefinition, TableName
from spark_jobs.bronze.data_files import DataFiles
from spark_jobs.bronze.effective_slices import EffectiveSlices
from spark_jobs.bronze.log_key_index import Hashes, LogKeyIndex, Rows, to_bytes
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.changes.formats.base import ChangeLine, Format, SliceContext
from spark_jobs.changes.lines import JsonChanges, Output
from spark_jobs.changes.table_definitions import HistoryDefinitions
from spark_jobs.ddl.definitions import from_json, to_json
from spark_jobs.delta import index_files
from spark_jobs.delta.index_files import Damaged
from spark_jobs.delta.log_files import directory
from spark_jobs.delta.value_hash import hashes_of
from spark_jobs.errors import ConfigError, DecodeError
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import FIRST_EVENT, Range
from spark_jobs.row_history.column_view import ColumnView
from spark_jobs.row_history.key_texts import KeyTexts, key_columns
from spark_jobs.row_history.row_choice import RowChoice
from spark_jobs.schema.history import by_table

log = logging.getLogger(__name__)

_TEXTS = "1"
"""Version of key texts: another one makes the indexes of before useless, and is needed where a key's text changes."""
_LEAST = 16
"""Slices of a data file from which on it is worth an index."""
_MOST = 1 << 24


class _NoKey(Exception):
    """The table has no key in a part of the file, or nothing tells it."""


class _KeyHashes(Format):
    """Hashes of the keys of a slice's changes; it writes nothing."""

    needs_marks: ClassVar[bool] = False

    def __init__(self) -> None:
        self.definitions: dict[TableDefinition, None] = {}
        self.hashes: list[Hashes] = []

    def lines(
        self, context: SliceContext, definition: TableDefinition, changes: Iterable[Changes]
    ) -> Iterator[ChangeLine]:
        """Collect the key hashes of the changes; there are no lines.

        Raises DecodeError, _NoKey for a table without a key.
        """
        del context
        if not definition.key:
            raise _NoKey
        self.definitions[definition] = None
        for batch in changes:
            keys = KeyTexts.of(definition, batch)
            self.hashes += [_hashes(keys.old), _hashes(keys.new)]
        yield from ()

    def take_hashes(self) -> Hashes:
        """The hashes since the last call."""
        hashes, self.hashes = self.hashes, []
        return np.concatenate([np.zeros(0, np.uint64), *hashes])


def _hashes(texts: pa.Array) -> Hashes:
    valid = texts.drop_null()
    return hashes_of([valid], len(valid))


@dataclass(slots=True)
class KeyIndexes:
    """The indexes of one version of bronze, opened or built, each once."""

    snapshot: BronzeSnapshot
    files: DataFiles
    definitions: HistoryDefinitions
    _opened: dict[tuple[int, TableName], LogKeyIndex | None] = field(default_factory=dict)
    _folder: Path | None = field(init=False)
    _slices: EffectiveSlices = field(init=False)

    def __post_init__(self) -> None:
        folder = directory(self.snapshot.table.path)
        self._folder = folder if isinstance(folder, Path) else None
        self._slices = EffectiveSlices(self.snapshot, self.files)

    def of(self, file: int, name: TableName, *, builds: bool) -> LogKeyIndex | None:
        """The index of a data file for a table; None where there is none, and none is built. Raises LakeError."""
        position = file, name
        if self._folder is None or not _LEAST <= self.files.count(file) < _MOST:
            return None
        if self._opened.get(position) is None and (position not in self._opened or builds):
            self._opened[position] = self._read(self._folder, file, name, builds=builds)
            index = self._opened[position]
            if index and not index.description["has_statements"]:
                self.files.note_lacking(file, "statement")
        return self._opened[position]

    def drop(self, file: int, name: TableName) -> None:
        """An index turned out to be damaged: it is built again when it is next needed."""
        assert self._folder is not None
        log.debug("%s: damaged", self._path(self._folder, file, name))
        self._path(self._folder, file, name).unlink(missing_ok=True)
        self._opened[file, name] = None

    def _read(self, folder: Path, file: int, name: TableName, *, builds: bool) -> LogKeyIndex | None:
        # One of another time or of something else is as good as none.
        path, identity = self._path(folder, file, name), self._identity(file, name)
        if identity is None:
            return None
        try:
            index = LogKeyIndex.opened(path)
            if index.description["identity"] == identity:
                return index
        except FileNotFoundError:
            pass
        except (Damaged, OSError) as error:
            log.debug("%s: built again: %s", path, error)
        content = self._new_index(file, name, identity) if builds else None
        if content is None:
            return None
        index_files.write(path, content)
        return LogKeyIndex.read(content)

    def _path(self, folder: Path, file: int, name: TableName) -> Path:
        qualifier = hashlib.blake2b(f"{name.schema}\0{name.table}".encode(), digest_size=8).hexdigest()
        return index_files.index_path(folder, Path(self.files.paths[file]).name, qualifier)

    def _identity(self, file: int, name: TableName) -> str | None:
        """Digest (hexadecimal) of all that an index depends on; None where the file's part of the log is not known."""
        extent = self.files.extent(file)
        if extent is None:
            return None
        facts = self.definitions.facts(name, *extent)
        texts = "\0".join((_TEXTS, self.files.identity(file), name.schema, name.table, *facts))
        return hashlib.blake2b(texts.encode(), digest_size=16).hexdigest()

    def _new_index(self, file: int, name: TableName, identity: str) -> bytes | None:
        """A new index; None where the rows cannot be decoded, or the table has no key: who reads them says so."""
        # All rows of the table are decoded, a slice after the other.
        slices, form = self._slices.index_of_file(file), _KeyHashes()
        complete = self.definitions.complete
        encoder = JsonChanges(
            self.snapshot.source, lambda logged_name: logged_name == name, complete, prepared=True, output=Output(form)
        )
        hashes = list[tuple[int, Hashes]]()
        try:
            for number, cells in self._slices.cells_of(slices, file, name):
                for _ in encoder.lines(cells):
                    pass
                hashes.append((number, np.unique(form.take_hashes())))
        except (DecodeError, _NoKey):
            return None
        description = {
            "identity": identity,
            "table": [name.schema, name.table],
            "definitions": [to_json(definition) for definition in form.definitions],
            "has_statements": bool(slices.is_kind("statement").any()),
        }
        return to_bytes(description, hashes, self.files.count(file))


@dataclass(slots=True)
class KeySearch:
    """The slices of a range that may have changes of chosen keys, by data file."""

    indexes: KeyIndexes
    names: Iterable[TableName]
    within: Range
    choice: RowChoice
    view: ColumnView

    def rows(self, file: int) -> Rows | None:
        """The rows of a data file; None where all of them have to be read. Raises LakeError."""
        rows = [np.zeros(0, np.int64)]
        for name in self.names:
            index = self.indexes.of(file, name, builds=self._is_inside(file))
            if index is None:
                return None
            try:
                rows.append(index.slices(self._hashes_in(index)))
            except ConfigError:  # who reads the rows says so, where the range has some
                return None
            except (Damaged, OSError):
                self.indexes.drop(file, name)
                return None
        return np.unique(np.concatenate(rows))

    def _is_inside(self, file: int) -> bool:
        """True if the range has all of a file: of one that it covers in part less is decoded without an index."""
        extent = self.indexes.files.extent(file)
        if extent is None:
            return False
        (stretch, number, offset), end = extent
        # A log begins at its first event, and its first slice with what stands before that.
        begin = stretch, number, max(offset, FIRST_EVENT)
        return self.within.start.order <= begin and end <= self.within.stop.order

    def _hashes_in(self, index: LogKeyIndex) -> Hashes:
        """The hashes of the chosen keys, as the file's definitions of the table have them. Raises ConfigError."""
        texts = set[str]()
        for definition in map(from_json, index.description["definitions"]):
            self.view.require_plain(frozenset(column.casefold() for column in key_columns(definition)), "--key")
            texts |= self.choice.key_texts(definition)
        return _hashes(pa.array(sorted(texts), pa.string()))


def keep_indexes(lake: Lake, source: str) -> int:
    """Build the indexes that bronze's data files lack, for tables that have some; how many. Raises LakeError.

    Those of data files that are not there any more are removed.
    """
    path = lake.bronze(source).path
    names = {name for name in map(_table_of, index_files.index_files(path)) if name}
    index_files.remove_stale(path)
    snapshot = BronzeSnapshot.find(lake, source) if names else None
    if snapshot is None:
        return 0
    before = {*index_files.index_files(path)}
    files = DataFiles(snapshot.table, snapshot.version)
    indexes = KeyIndexes(snapshot, files, HistoryDefinitions(partial(by_table, lake, source)))
    for file in files.holding(None):
        for name in sorted(names):
            indexes.of(file, name, builds=True)
    return len({*index_files.index_files(path)} - before)


def _table_of(path: Path) -> TableName | None:
    """The table that an index is of; None where it is of something else, or damaged."""
    try:
        return TableName(*LogKeyIndex.opened(path).description["table"])
    except (Damaged, OSError):
        return None
