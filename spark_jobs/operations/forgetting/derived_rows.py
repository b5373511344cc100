"""Rows of some keys in the changes that were derived from foreign keys: where they are, and the table without them.

Put here: ``cascades/<source>``. Not here: the log itself (logged_rows.py), or the order of the tables (forget.py).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.binlog import Changes, TableName
from spark_jobs.bronze import derived_slices
from spark_jobs.changes.table_definitions import HistoryDefinitions
from spark_jobs.ddl.definitions import from_json
from spark_jobs.delta import data_files, vacuum
from spark_jobs.delta.snapshot import DataFile, snapshot_of
from spark_jobs.engine.jobs import rewrite
from spark_jobs.engine.jobs.rewrite import FileGroup
from spark_jobs.errors import LakeError
from spark_jobs.lake import driver_commit
from spark_jobs.lake.commit import CommitKind, Head, new_batch
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.operations.forgetting.old_files import unnamed_files
from spark_jobs.row_history.key_texts import KeyTexts
from spark_jobs.row_history.row_choice import RowChoice
from spark_jobs.row_history.table_life import TableLife

_LOCATED = ["schema", "table", "stretch", "file", "start", "definition", "payload"]


class KeyChange(NamedTuple):
    """A derived change of a row. order: stretch, file's number, offset and row. old, new: key texts; None of no row."""

    order: tuple[int, int, int, int]
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True)
class DerivedRows:
    """Derived changes of some keys in one version of the table.

    Attributes:
        head: None where there is no table.
        life: names of the child table.
        choice: the keys.
        changes: those of the keys, in no order.
        files: the data files with them.
    """

    table: Table
    head: Head | None
    life: TableLife
    definitions: HistoryDefinitions
    choice: RowChoice
    changes: tuple[KeyChange, ...] = ()
    files: tuple[DataFile, ...] = ()

    @classmethod
    def find(cls, table: Table, life: TableLife, definitions: HistoryDefinitions, choice: RowChoice) -> Self:
        """The changes of the chosen rows in the derived slices, with the files that hold them. Raises LakeError."""
        found = cls(table, table.head(), life, definitions, choice)
        snapshot = snapshot_of(table.path, found.head.version) if found.head else None
        changes: list[KeyChange] = []
        files: list[DataFile] = []
        for file in snapshot.files if snapshot else ():
            assert snapshot
            rows = data_files.read_columns(table.path, file, _LOCATED, snapshot.schema).to_pylist()
            in_file = [change for row in rows for change in found._changes_in(row)]
            changes += in_file
            files += [file] if in_file else []
        return replace(found, changes=tuple(changes), files=tuple(files))

    def erase(self) -> None:
        """Commit the table without the changes, and remove the older files with some. Raises LostRace, LakeError."""
        if self.head is None:
            return
        head = self.head
        # Files with such changes are written again without them, in this process: they are few.
        if self.files:
            upon = driver_commit.snapshot_upon(self.table.path, head)
            groups = [
                FileGroup(at, upon.path, (file,), upon.schema, upon.configuration, (), edit=self._slices_without)
                for at, file in enumerate(self.files)
            ]
            results = [*rewrite.work(groups)]
            if error := next((result.error for result in results if result.error), None):
                raise LakeError(error)
            assert head.checkpoint is not None
            commit = replace(head.checkpoint, batch=new_batch(), kind=CommitKind.MAINTENANCE)
            added = [result.file for result in results if result.file]
            self.table.land(upon, head, commit, adds=added, removes=self.files, changes_rows=False, operation="FORGET")
        vacuum.remove(self.table.path, self.files_that_hold())

    def files_that_hold(self) -> list[Any]:
        """Files of the table that no newest version names, and that have changes of the keys. Raises LakeError."""
        snapshot = snapshot_of(self.table.path)
        holders = []
        for file in unnamed_files(snapshot) if snapshot else ():
            with data_files.parquet(file) as opened:
                if {*_LOCATED} <= {*opened.schema_arrow.names} and any(
                    next(self._changes_in(row), None)
                    for number in range(opened.num_row_groups)
                    for row in opened.read_row_group(number, columns=_LOCATED).to_pylist()
                ):
                    holders.append(file)
        return holders

    def _changes_in(self, row: Mapping[str, Any]) -> Iterator[KeyChange]:
        """The changes of the keys in a slice."""
        keyed = self._keyed(row)
        if keyed is None:
            return
        at = Position(row["file"], row["start"], row["stretch"])
        changes, texts, is_one = keyed
        cells = (changes.offset, changes.row, texts.old, texts.new)
        for offset, number, old, new in zip(*(column.filter(is_one).to_pylist() for column in cells), strict=True):
            yield KeyChange((at.stretch, at.number, offset, number), old, new)

    def _keyed(self, row: Mapping[str, Any]) -> tuple[Changes, KeyTexts, pa.Array] | None:
        """A slice's changes, with their keys and a mask of the keys' changes; None of another table's."""
        at = Position(row["file"], row["start"], row["stretch"])
        if not self.life.holds(TableName(row["schema"], row["table"]), at):
            return None
        definition = self.definitions.complete(from_json(row["definition"]), at)
        changes = derived_slices.changes_of(row["payload"], definition)
        texts = KeyTexts.of(definition, changes)
        return changes, texts, pa.array(self.choice.has_key(definition, texts))

    def _slices_without(self, rows: pa.Table) -> pa.Table:
        """Slices without the changes of the keys; those that have no others are left out."""
        kept = []
        for record in rows.to_pylist():
            keyed = self._keyed(record)
            is_kept = pc.invert(keyed[2]) if keyed else None
            count = pc.sum(is_kept).as_py() if is_kept is not None else record["changes"]
            if not count:
                continue
            if count < record["changes"]:
                payload = derived_slices.payload_of_some(record["payload"], is_kept)
                record |= {"payload": payload, "bytes": len(payload), "changes": count}
            kept.append(record)
        return pa.Table.from_pylist(kept, schema=rows.schema)
