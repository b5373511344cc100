"""Filters on changes of rows, one by one: which are filtered, and by which rule.

Put here: the judgement of decoded changes. Not here: the rules (config/filters.py), what conditions say (expressions/),
or what is made of the changes that are kept (decode_task.py).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.binlog import Changes, TableDefinition
from spark_jobs.config.filters import ROW_EVENTS, RowFilter, TableFilters
from spark_jobs.errors import ConfigError, TableStopped
from spark_jobs.expressions.computed import Computed
from spark_jobs.expressions.condition import Condition
from spark_jobs.expressions.terms import Cells, Evaluate
from spark_jobs.silver.row_values import Image, fault_error, resolving, sources_of

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ChangeFilters:
    """The rules that filter changes of one definition of a table, as tasks are sent them.

    ignored: kinds of changes that are filtered, by number (net_changes.INSERT, …), and the rule. known_columns: the
    names, in small letters, of the columns that the table has or had at any time.
    """

    definition: TableDefinition
    ignored: Mapping[int, str] = field(default_factory=dict)
    rows: tuple[RowFilter, ...] = ()
    computed: tuple[Computed, ...] = ()
    known_columns: frozenset[str] = frozenset()

    @classmethod
    def of(cls, filters: TableFilters, definition: TableDefinition, known_columns: frozenset[str]) -> Self:
        """The filters that apply to changes of a definition. Raises TableStopped if a rule does not fit the table."""
        computed = filters.columns.computed if filters.columns else ()
        rules = cls(definition, filters.ignored_kinds(), filters.rows, computed, known_columns)
        ChangeJudge(rules)
        return rules

    def __bool__(self) -> bool:
        return bool(self.ignored or self.rows)

    @property
    def needs_before(self) -> bool:
        """True if a rule asks for more of an update's row before than its key."""
        return any(rule.update_old for rule in self.rows)

    @property
    def names(self) -> frozenset[str]:
        """Names of the table's columns that rules ask for."""
        conditions = (
            condition
            for rule in self.rows
            for condition in (rule.insert, rule.update_old, rule.update_new, rule.delete)
            if condition
        )
        columns = {str(column.name).casefold(): str(column.name) for column in self.definition.columns}
        sources = (sources_of(condition.columns, self.computed, columns) for condition in conditions)
        return frozenset(columns[name] for name in frozenset[str]().union(*sources) if name in columns)

    @property
    def judges_inserts(self) -> bool:
        """True if a rule asks for values of inserted rows."""
        return any(rule.insert for rule in self.rows)


@dataclass(frozen=True, slots=True)
class _Test:
    """A condition about one image of a change. evaluate: None where a column of it is of another time."""

    key: str
    image: str
    condition: Condition
    evaluate: Evaluate | None


class ChangeJudge:
    """Applies such rules, and counts by rule what they have filtered."""

    def __init__(self, rules: ChangeFilters) -> None:
        """Compile the conditions of each event. Raises TableStopped if a rule does not fit the table."""
        self._rules = rules
        self._definition = rules.definition
        self.counts: Counter[str] = Counter()
        kinds = [kind for kind in range(1, len(ROW_EVENTS) + 1) if kind not in rules.ignored]
        self._tests = {kind: [*self._tests_of(ROW_EVENTS[kind - 1])] for kind in kinds}

    @property
    def needs_before(self) -> bool:
        """True if a rule asks for more of an update's row before than its key."""
        return self._rules.needs_before

    def remaining(
        self,
        changes: Changes,
        file: str | None,
        absent: pa.Array | None = None,
        absent_before: pa.Array | None = None,
    ) -> pa.Array | None:
        """The numbers of the changes that no rule filters; None for all of them.

        Args:
            changes: with all columns of before images where a rule asks for them.
            file: of the log that the changes stand in, for messages; None where they stand in none.
            absent: which columns the images have no value of (partial_images.py).
            absent_before: the same of before images.

        Raises:
            TableStopped: a rule asks for a value that the lake does not hold.
        """
        kinds = changes.op.to_numpy()
        is_filtered = np.zeros(len(kinds), bool)
        # A kind that is filtered whole; of others the first rule whose conditions are TRUE.
        for kind, rule in self._rules.ignored.items():
            mask = kinds == kind
            self._count(rule, mask)
            is_filtered |= mask
        for kind, rules in self._tests.items():
            rows = np.flatnonzero(kinds == kind)
            if rules and len(rows):
                judged = _Judged(changes, file, absent, absent_before, rows)
                is_filtered[rows] |= self._by_values(judged, rules)
        return pa.array(np.flatnonzero(~is_filtered)) if is_filtered.any() else None

    def _count(self, rule: str, mask: Mask) -> None:
        count = int(np.count_nonzero(mask))
        if count:
            self.counts[rule] += count

    def _by_values(self, judged: "_Judged", rules: list[tuple[str, list[_Test]]]) -> Mask:
        is_filtered = np.zeros(len(judged.rows), bool)
        for name, tests in rules:
            # Rows that an earlier rule filters are not asked about; nor is a condition behind one that is not TRUE.
            is_true = ~is_filtered
            for test in tests:
                is_true &= self._is_true(judged, test, is_true)
            self._count(name, is_true)
            is_filtered |= is_true
        return is_filtered

    def _is_true(self, judged: "_Judged", test: _Test, wanted_mask: Mask) -> Mask:
        """Mask of the rows, of those asked about, for which a condition is TRUE. Raises TableStopped for a fault."""
        if test.evaluate is None or not wanted_mask.any():
            return np.zeros(len(judged.rows), bool)
        computed = self._rules.computed
        columns = {str(column.name).casefold() for column in self._definition.columns}
        image = judged.image(test.image)
        cells = test.evaluate(image.cells(self._definition, sources_of(test.condition.columns, computed, columns)))
        if cells.faults is not None and (cells.faults[wanted_mask] != 0).any():
            row = int(np.flatnonzero((cells.faults != 0) & wanted_mask)[0])
            raise fault_error(self._definition, int(cells.faults[row]), f"{judged.location_of(row)}: {test.key}")
        return true_rows(cells, len(judged.rows))

    def _tests_of(self, event: str) -> Iterator[tuple[str, list[_Test]]]:
        """The rules with conditions about a kind of changes, each with those."""
        for rule in self._rules.rows:
            conditions = {
                "insert": (("insert-value-expr", rule.insert, "after"),),
                "update": (
                    ("update-old-value-expr", rule.update_old, "before"),
                    ("update-new-value-expr", rule.update_new, "after"),
                ),
                "delete": (("delete-value-expr", rule.delete, "after"),),
            }[event]
            name = f"row_filters.{rule.name}"
            tests = [self._test(f"{name}.{key}", condition, image) for key, condition, image in conditions if condition]
            if tests:
                yield name, tests

    def _test(self, key: str, condition: Condition, image: str) -> _Test:
        columns = {str(column.name).casefold() for column in self._definition.columns}
        names = sources_of(condition.columns, self._rules.computed, columns)
        unknown = sorted(names - columns - self._rules.known_columns)
        if unknown:
            raise TableStopped(f"{key} names column {unknown[0]}, which the table does not have: {self._definition}")
        # Of rows from a time when the table had no such column, it says nothing.
        if names - columns:
            return _Test(key, image, condition, None)
        try:
            evaluate = condition.compiled(resolving(self._definition, self._rules.computed))
        except ConfigError as error:
            raise TableStopped(f"{key}: {error}") from error
        return _Test(key, image, condition, evaluate)


@dataclass(frozen=True, slots=True)
class _Judged:
    """Changes of one kind. rows: their numbers among all."""

    changes: Changes
    file: str | None
    absent: pa.Array | None
    absent_before: pa.Array | None
    rows: NDArray[np.int64]

    def image(self, name: str) -> Image:
        """Image of the rows, or of those before them."""
        changes, indexes = self.changes, pa.array(self.rows)
        is_after = name == "after"
        rows, raw = (changes.after, changes.raw) if is_after else (changes.before, changes.before_raw)
        absent = self.absent if is_after else self.absent_before
        if len(self.rows) == len(changes):
            return Image(rows, raw, absent)
        raw, absent = (None if lists is None else lists.take(indexes) for lists in (raw, absent))
        return Image(rows.take(indexes), raw, absent)

    def location_of(self, row: int) -> str:
        """Location of a change, for messages."""
        if self.file is None:
            return "a row of the server"
        return f"{self.file}:{self.changes.offset[int(self.rows[row])].as_py()}"


def true_rows(cells: Cells, count: int) -> Mask:
    """Mask of the rows for which a condition is TRUE. cells: its truths."""
    mask: Mask = cells.over(count).fill_null(False).to_numpy(zero_copy_only=False)
    return mask
