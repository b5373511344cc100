"""Reader of the changes of chosen rows, in the log's order: a feed that keeps few of its rows.

Put here: which decoded changes are chosen by key and by condition, and what is kept of each. Not here: which slices
are read (trace.py), or who made the changes (log_facts.py).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.binlog import Changes, TableDefinition, TableName
from spark_jobs.bronze.derived_slices import FIRST_DERIVED_ROW
from spark_jobs.changes.formats.base import DELETE, UPDATE, ChangeLine, Format, SliceContext, gtids_of
from spark_jobs.errors import ConfigError
from spark_jobs.expressions.condition import Condition
from spark_jobs.expressions.terms import true_mask
from spark_jobs.row_history.column_view import ColumnView, ShownRow, absent_columns
from spark_jobs.row_history.key_texts import KeyTexts, key_columns, key_text, operation, require_key
from spark_jobs.silver.row_values import Image, problem_of, resolving
from spark_jobs.text.key_values import key_values

_NO_KEYS = frozenset[str]()


@dataclass(frozen=True, slots=True)
class RowChange:
    """A change of a chosen row, as it is shown.

    old_key, new_key: texts of the row's key before and after it; None where there is no row, or no key. key: the
    columns that identify the row after the change, or the deleted one, as they are shown. changes: the decoded change
    alone.
    """

    definition: TableDefinition
    file: str
    offset: int
    row: int
    op: str
    gtid: str | None
    committed_at: datetime
    old_key: str | None
    new_key: str | None
    before: ShownRow | None
    after: ShownRow | None
    changes: Changes

    @property
    def is_derived(self) -> bool:
        """True if a foreign key made it, and the log does not have it."""
        return self.row >= FIRST_DERIVED_ROW

    @property
    def key(self) -> ShownRow:
        """The columns of the key that are shown, of the row after the change where there is one."""
        before, after = self.before or {}, self.after or {}
        return {
            name: after.get(name, before.get(name, "null"))
            for name in key_columns(self.definition)
            if name in after or name in before
        }


@dataclass(frozen=True, slots=True)
class ChosenLine(ChangeLine):
    """An entry of the feed with the change that it is."""

    change: RowChange = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class KeyLine(ChangeLine):
    """An entry of the feed with the keys of a chosen row before and after a change."""

    old: str | None = None
    new: str | None = None

    @property
    def changes_keys(self) -> bool:
        """True if a row begins, ends or gets another key."""
        return self.old != self.new


@dataclass(slots=True)
class RowChoice:
    """Choice of rows: by keys as a user wrote them, by a condition, or all of a table.

    followed: texts of keys that chosen rows have at another time.
    """

    keys: tuple[str, ...] = ()
    condition: Condition | None = None
    followed: frozenset[str] = _NO_KEYS
    undecided: int = 0
    """Changes of which the log does not hold what the condition asks for."""
    missing: str | None = None
    """A column that the condition names and a definition of the table does not have."""
    is_asked: bool = False
    """True if a definition had all columns that the condition names."""
    _seeds: dict[TableDefinition, frozenset[str]] = field(default_factory=dict)

    @property
    def seeds(self) -> frozenset[str]:
        """The texts of the keys that the user wrote, by each definition that was met."""
        return _NO_KEYS.union(*self._seeds.values())

    def has_key(self, definition: TableDefinition, keys: KeyTexts | None) -> NDArray[np.bool_] | None:
        """Mask of the changes of the keys, or followed; None where no keys are given.

        keys: of tables with a key. Raises ConfigError where those that the user wrote are no keys of the table.
        """
        if not self.keys:
            return None
        texts = self.key_texts(definition)
        assert keys
        mask: NDArray[np.bool_] = keys.is_among(sorted(texts)).to_numpy(zero_copy_only=False)
        return mask

    def key_texts(self, definition: TableDefinition) -> frozenset[str]:
        """The texts of the keys that are given, as a definition has them, and of those that are followed.

        Raises ConfigError where those that the user wrote are no keys of the table.
        """
        require_key(definition)
        if definition not in self._seeds:
            self._seeds[definition] = frozenset(key_text(definition, key) for key in self.keys)
        return self._seeds[definition] | self.followed

    @property
    def keys_with_names(self) -> str:
        """The keys that the user wrote, with the names of their columns where a definition was met."""
        definition = next(iter(self._seeds), None)
        if definition is None:
            return " or ".join(self.keys)
        names = key_columns(definition)
        rows = (zip(names, key_values(key, names, str(definition.name)), strict=True) for key in self.keys)
        return " or ".join(",".join(f"{name}={value}" for name, value in row) for row in rows)

    def require_asked(self, name: TableName) -> None:
        """Check that some row that was read has the columns of the condition. Raises ConfigError."""
        if self.missing is not None and not self.is_asked:
            raise ConfigError(f"--where: names column {self.missing}, which {name} does not have in this range")

    def mask(self, definition: TableDefinition, changes: Changes, keys: KeyTexts | None) -> NDArray[np.bool_]:
        """Mask of the chosen changes. keys: of tables with a key. Raises ConfigError."""
        mask = self.has_key(definition, keys)
        mask = np.ones(len(changes), np.bool_) if mask is None else mask
        if self.condition and mask.any():
            mask &= self._is_true(definition, changes, mask)
        return mask

    def _is_true(self, definition: TableDefinition, changes: Changes, among: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Mask of the changes whose row before or after fulfils the condition; none of another time's columns."""
        assert self.condition
        columns = {str(name).casefold() for name in definition.column_names()}
        if missing := sorted(self.condition.columns - columns):
            self.missing = missing[0]
            return np.zeros(len(changes), np.bool_)
        if problem := problem_of(self.condition, definition):
            raise ConfigError(f"--where: {problem}")
        self.is_asked = True
        # A value that the log or the lake does not hold decides nothing: such changes are counted.
        evaluate = self.condition.compiled(resolving(definition))
        names = self.condition.columns
        row = evaluate(_named_image(definition, changes, "after").cells(definition, names))
        row_before = evaluate(_named_image(definition, changes, "before").cells(definition, names))
        is_update = pc.equal(changes.op, UPDATE).to_numpy(zero_copy_only=False)
        is_true: NDArray[np.bool_] = true_mask(row, len(changes))
        is_true |= true_mask(row_before, len(changes)) & is_update
        faults = np.zeros(len(changes), np.bool_)
        for cells, is_about in ((row, np.ones(len(changes), np.bool_)), (row_before, is_update)):
            if cells.faults is not None:
                faults |= (cells.faults != 0) & is_about
        self.undecided += int(np.count_nonzero(faults & ~is_true & among))
        return is_true


def _named_image(definition: TableDefinition, changes: Changes, name: str) -> Image:
    if name == "after":
        return Image(changes.after, changes.raw, absent_columns(definition, changes, "present"))
    return Image(changes.before, changes.before_raw, absent_columns(definition, changes, "before_present"))


class KeyChanges(Format):
    """The feed's changes of chosen keys, each with the row's key before and after it, and nothing else."""

    needs_marks: ClassVar[bool] = False

    def __init__(self, choice: RowChoice, view: ColumnView) -> None:
        self._choice, self._view = choice, view

    def lines(
        self, context: SliceContext, definition: TableDefinition, changes: Iterable[Changes]
    ) -> Iterator[ChangeLine]:
        """The keys before and after each change of a chosen key. Raises DecodeError, ConfigError."""
        del context
        self._view.require_plain(frozenset(name.casefold() for name in key_columns(definition)), "--key")
        for batch in changes:
            keys = KeyTexts.of(definition, batch) if definition.key else None
            mask = self._choice.has_key(definition, keys)
            assert mask is not None
            assert keys
            rows = pa.array(np.flatnonzero(mask))
            cells = (array.take(rows).to_pylist() for array in (batch.offset, batch.row, keys.old, keys.new))
            for offset, row, old, new in zip(*cells, strict=True):
                yield KeyLine(offset, row, (), old=old, new=new)


class ChosenRows(Format):
    """The feed's changes of chosen rows; what it writes is nothing, and each entry has its change."""

    needs_marks: ClassVar[bool] = False

    def __init__(self, choice: RowChoice, view: ColumnView) -> None:
        self._choice, self._view = choice, view

    def lines(
        self, context: SliceContext, definition: TableDefinition, changes: Iterable[Changes]
    ) -> Iterator[ChangeLine]:
        """The changes of chosen rows, as readers see their columns. Raises DecodeError, ConfigError, TableStopped."""
        for batch in changes:
            keys = KeyTexts.of(definition, batch) if definition.key else None
            indexes = np.flatnonzero(self._choice.mask(definition, batch, keys))
            if not len(indexes):
                continue
            decoded = self._view.remaining(definition, batch.take(pa.array(indexes)), context.file)
            yield from self._entries(context, definition, decoded)

    def _entries(self, context: SliceContext, definition: TableDefinition, changes: Changes) -> Iterator[ChangeLine]:
        """The entries of changes that are chosen."""
        keys = KeyTexts.of(definition, changes) if definition.key else None
        old, new = (keys.old.to_pylist(), keys.new.to_pylist()) if keys else ([None] * len(changes),) * 2
        after = self._view.rows_shown(definition, changes.after, changes.raw, changes.present)
        before = self._view.rows_shown(definition, changes.before, changes.before_raw, changes.before_present)
        # A change a row; what all of them have in common was decoded at once.
        times: Sequence[datetime] = changes.committed_at.to_pylist()
        gtids, kinds = gtids_of(changes), changes.op.to_pylist()
        indexes = zip(changes.offset.to_pylist(), changes.row.to_pylist(), strict=True)
        for at, (offset, row) in enumerate(indexes):
            is_delete = kinds[at] == DELETE
            change = RowChange(
                definition,
                context.file,
                offset,
                row,
                operation(kinds[at]),
                gtids[at],
                context.committed or times[at],
                old[at],
                new[at],
                before[at] if kinds[at] == UPDATE else after[at] if is_delete else None,
                None if is_delete else after[at],
                changes.slice(at, 1),
            )
            yield ChosenLine(offset, row, (), change=change)
