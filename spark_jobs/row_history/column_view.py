"""Columns of a table that are shown: as downstream tables have them, or as the log does.

Put here: masks, left-out columns and rules about rows, applied to changes of any definition of a table. Not here: the
rules (config/filters.py, silver/), or which changes are chosen (row_choice.py).
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from spark_jobs.binlog import Changes, Column, Presence, TableDefinition
from spark_jobs.changes.json_encoding import Cell, cells_of_columns
from spark_jobs.config.filters import TableFilters
from spark_jobs.errors import ConfigError
from spark_jobs.silver.column_masks import ColumnMasks, masks_of
from spark_jobs.silver.masking import columns_seen
from spark_jobs.silver.partial_images import absent_names
from spark_jobs.silver.row_filters import ChangeFilters, ChangeJudge

_RAW = pa.map_(pa.string(), pa.string())
_VARCHAR = 253
ShownRow = Mapping[str, Cell]
"""The columns of a row that are shown, by name, as JSON."""


@dataclass(frozen=True, slots=True)
class _Treatment:
    """Effects of rules on one definition. columns: what each column that is shown is, by name."""

    masks: ColumnMasks
    columns: Mapping[str, Column]
    judge: ChangeJudge | None


@dataclass(slots=True)
class ColumnView:
    """Applies the rules about a table; none of them where what is in bronze is asked for.

    known_columns: names, in small letters, of the columns that the table has or had.
    """

    rules: TableFilters = field(default_factory=TableFilters)
    known_columns: frozenset[str] = frozenset()
    filtered: Counter[str] = field(default_factory=Counter)
    """Changes that rules keep out, by rule."""
    _treatments: dict[TableDefinition, _Treatment] = field(default_factory=dict)

    def require_plain(self, names: frozenset[str], key: str) -> None:
        """Check that no rule hides values of the named columns; key: the option that names them. Raises ConfigError.

        names: in small letters.
        """
        rule = self.rules.columns
        for name in sorted(names):
            if rule and (rule.is_left_out(name) or rule.mask(name)):
                raise ConfigError(
                    f"{key}: columns.{rule.name} keeps values of column {name} out of the lake's tables, so they are "
                    "not asked for; with --raw, whoever may read bronze sees them"
                )

    def remaining(self, definition: TableDefinition, changes: Changes, file: str) -> Changes:
        """The changes that no rule about rows filters. Raises TableStopped."""
        judge = self._treatment_of(definition).judge
        if judge is None or not len(changes):
            return changes
        rows = judge.remaining(
            changes,
            file,
            absent_columns(definition, changes, "present"),
            absent_columns(definition, changes, "before_present"),
        )
        return changes if rows is None else changes.take(rows)

    def rows_shown(
        self, definition: TableDefinition, image: pa.RecordBatch, raw: pa.Array | None, presence: Presence | None
    ) -> list[ShownRow]:
        """Rows as they are shown; columns that an image leaves out have no key. Raises TableStopped."""
        treatment = self._treatment_of(definition)
        # Masks come first; a masked column is text, bytes or a constant, whatever its type was.
        rows: pa.Table | pa.RecordBatch = image
        if treatment.masks:
            exact = pa.nulls(len(image), _RAW) if raw is None else raw
            rows = treatment.masks.apply(pa.Table.from_batches([image]).append_column("_raw", exact))
            raw = rows.column("_raw").combine_chunks()
        cells = cells_of_columns(treatment.columns, rows, raw)
        names = list(cells)
        by_row: list[ShownRow] = [dict(zip(names, row, strict=True)) for row in zip(*cells.values(), strict=True)]
        # What an image leaves out is not NULL: it has no key.
        if presence is None:
            return by_row
        ordinals = {name: at for at, name in enumerate(definition.column_names())}
        present = presence.sets[presence.index].tolist()
        return [
            {name: cell for name, cell in row.items() if flags[ordinals[name]]}
            for row, flags in zip(by_row, present, strict=True)
        ]

    def _treatment_of(self, definition: TableDefinition) -> _Treatment:
        treatment = self._treatments.get(definition)
        if treatment is None:
            columns_seen(definition, self.rules.columns)
            masks = replace(masks_of(definition, self.rules.columns), computed=())
            columns = {
                name: Column(name, _VARCHAR) if name in masks.masks else column
                for name, column in zip(definition.column_names(), definition.columns, strict=True)
                if name not in masks.excluded
            }
            filters = ChangeFilters.of(self.rules, definition, self.known_columns)
            judge = ChangeJudge(filters) if filters else None
            if judge:
                judge.counts = self.filtered
            treatment = self._treatments[definition] = _Treatment(masks, columns, judge)
        return treatment


def absent_columns(definition: TableDefinition, changes: Changes, name: str) -> pa.Array | None:
    """Columns that images leave out, as names; None where they are whole."""
    presence = getattr(changes, name)
    if presence is None:
        return None
    return absent_names(~presence.sets[presence.index], definition.column_names())
