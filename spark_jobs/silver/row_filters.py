"""Changes of rows judged one by one by the rules about their table, as Spark's rows.

Put here: a change as a row of a DataFrame and back, and which rule leaves it out, as SQL. Not here: the rules
(config/filters.py), conditions (config/conditions.py), what is made of the changes that are kept (decode_task.py).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from spark_jobs.binlog import Changes, Column, TableDefinition
from spark_jobs.config.computed import Computed
from spark_jobs.config.conditions import Condition, Resolve, Sort, Term, number
from spark_jobs.config.filters import INSERT, ROW_EVENTS, RowFilter, TableFilters
from spark_jobs.errors import ConfigError, TableStopped
from spark_jobs.silver import partial_rows
from spark_jobs.silver import table as silver
from spark_jobs.silver.net_changes import SliceOrigin
from spark_jobs.text.sql import literal

LEFT_OUT_BY = "_left_out_by"
"""The column with the rule that leaves a change out, NULL where none does."""
_PLACE = {"_file": "STRING", "_stretch": "INT", "_number": "BIGINT", "_window": "INT"}
_TEXTS = "MAP<STRING, STRING>"
_OWN = {"_kind": "INT", "_offset": "BIGINT", "_row": "INT", "_committed_at": "TIMESTAMP", "_gtid": "STRING"}
_RAW = {"_raw": _TEXTS, "_before_raw": _TEXTS}
_LACKING = {silver.ABSENT: partial_rows.ABSENT_TYPE, "_absent_before": partial_rows.ABSENT_TYPE}
_ENUM = 247
_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
_SORTS = {
    "FLOAT": Sort.REAL,
    "DOUBLE": Sort.REAL,
    "DATE": Sort.DATE,
    "TIMESTAMP_NTZ": Sort.DATETIME,
    "TIMESTAMP": Sort.MOMENT,
    "BINARY": Sort.BYTES,
}
_MAY_BE_EXACT = ("STRING", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
Batches = Iterator[pa.RecordBatch]


def ddl(definition: TableDefinition) -> str:
    """The columns of a change: its place, both images (``_a0`` …, ``_b0`` …), and their exact texts."""
    kinds = [silver.spark_type(str(column.arrow)) for column in definition.columns]
    images = {f"_{image}{at}": kind for image in "ab" for at, kind in enumerate(kinds)}
    return ", ".join(f"{name} {kind}" for name, kind in (_PLACE | _OWN | _RAW | _LACKING | images).items())


def as_rows(
    changes: Changes, place: SliceOrigin, absent: pa.Array | None = None, absent_before: pa.Array | None = None
) -> pa.RecordBatch:
    """Changes with all columns of before images, as rows with the columns of ``ddl``.

    absent, absent_before: which columns the images have no value of (partial_images.py); None: they are whole.
    """
    count = len(changes)
    constants_ = [place.file, place.stretch, place.number, place.window]
    kinds = [pa.string(), pa.int32(), pa.int64(), pa.int32()]
    constants = [pa.repeat(pa.scalar(value, kind), count) for value, kind in zip(constants_, kinds, strict=True)]
    gtids = pa.nulls(count, pa.string()) if changes.gtid is None else changes.gtid.cast(pa.string())
    arrays = [changes.op.cast(pa.int32()), changes.offset, changes.row, changes.committed_at, gtids]
    texts = [pa.nulls(count, _ARROW_TEXTS) if raw is None else raw for raw in (changes.raw, changes.before_raw)]
    lacking = [
        pa.nulls(count, _ARROW_LACKING) if absent_names is None else absent_names
        for absent_names in (absent, absent_before)
    ]
    images = [*changes.after.columns, *changes.before.columns]
    names = [*_PLACE, *_OWN, *_RAW, *_LACKING, *(f"_{image}{at}" for image in "ab" for at in range(len(images) // 2))]
    return pa.RecordBatch.from_arrays([*constants, *arrays, *texts, *lacking, *images], names)


_ARROW_TEXTS = pa.map_(pa.string(), pa.string())
_ARROW_LACKING = pa.list_(pa.string())


def as_changes(batch: pa.RecordBatch, names: list[str]) -> Iterator[tuple[Changes, SliceOrigin, pa.Array]]:
    """The changes that such rows are, those of one file and window together, and what each row lacks.

    names: of the table's columns.
    """
    places = [batch.column(name) for name in ("_stretch", "_number", "_window")]
    moved = np.zeros(max(len(batch) - 1, 0), bool)
    for cells in places:
        values = cells.to_numpy()
        moved |= values[1:] != values[:-1]
    for start, stop in pairwise([0, *(np.flatnonzero(moved) + 1).tolist(), len(batch)]):
        if start < stop:
            part = batch.slice(start, stop - start)
            place_cells = (part.column(name)[0].as_py() for name in ("_file", "_stretch", "_number", "_window"))
            yield _changes(part, names), SliceOrigin(*place_cells), part.column(silver.ABSENT).cast(_ARROW_LACKING)


def _changes(rows: pa.RecordBatch, names: list[str]) -> Changes:
    after, before = (
        pa.RecordBatch.from_arrays([rows.column(f"_{image}{at}") for at in range(len(names))], names) for image in "ab"
    )
    raw, before_raw = (rows.column(name).cast(_ARROW_TEXTS) for name in _RAW)
    op, offset, row, committed_at, gtid = (rows.column(name) for name in _OWN)
    return Changes(op, offset, row, committed_at, gtid, after, before, raw, before_raw)


def left_out_by(
    filters: TableFilters, definition: TableDefinition, known_columns: frozenset[str], *, has_partial: bool = False
) -> str:
    """SQL: the first rule that leaves a change out. Raises TableStopped where a rule is not about such a table.

    known_columns: the names, in small letters, of the columns that the table has or had at any time. has_partial: row
    images may leave columns out; a rule that asks one of these stops the table, in the statement.
    """
    computed = filters.columns.computed if filters.columns else ()
    table = _JudgedTable(definition, known_columns, computed, has_partial)

    cases = []
    for kind, event in enumerate(ROW_EVENTS, 1):
        by_event = filters.left_out(event)
        verdicts = [literal(by_event)] if by_event else [_by_values(row, event, table) for row in filters.rows]
        verdicts = [verdict_ for verdict_ in verdicts if verdict_]
        if verdicts:
            cases.append(f"WHEN _kind = {kind} THEN coalesce({', '.join(verdicts)}, NULL)")
    return f"CASE {' '.join(cases)} END" if cases else "CAST(NULL AS STRING)"


def inserted_left_out_by(
    filters: TableFilters, definition: TableDefinition, known_columns: frozenset[str]
) -> str | None:
    """SQL: the first rule that filters an inserted row that no log holds, by its values (``_a0`` …, ``_raw``).

    None where no rule is about values of inserted rows. Raises TableStopped as ``left_out_by``.
    """
    computed = filters.columns.computed if filters.columns else ()
    table = _JudgedTable(definition, known_columns, computed, place=literal("a row of the server"))
    verdicts = [verdict for row in filters.rows if (verdict := _by_values(row, INSERT, table))]
    return f"coalesce({', '.join(verdicts)}, NULL)" if verdicts else None


@dataclass(frozen=True, slots=True)
class _JudgedTable:
    """The table whose changes are judged. known_columns, has_partial: as in ``left_out_by``."""

    definition: TableDefinition
    known_columns: frozenset[str]
    computed: tuple[Computed, ...]
    has_partial: bool = False
    place: str = "_file, ':', _offset"
    """SQL: where a change stands, as arguments of ``concat``."""

    def terms(self, key: str, image: str) -> dict[str, Term]:
        """By name, in small letters, the columns of one image of a change."""
        terms = {}
        for at, column in enumerate(self.definition.columns):
            term = self._guarded(key, term_of(column, f"_{image}{at}"), column, image)
            terms[str(column.name).casefold()] = _present(key, term, column, image) if self.has_partial else term
        return terms

    def _guarded(self, key: str, term: Term, column: Column, image: str) -> Term:
        """The term, but an error where the row has a value that the column's type in the lake cannot hold."""
        # Types that hold every value of the column need no guard.
        kind = silver.spark_type(str(column.arrow))
        if kind not in _MAY_BE_EXACT:
            return term
        raw = "_raw" if image == "a" else "_before_raw"
        # The text names the place, and the kind of the error: errors.py builds it again from a task's message.
        reason = (
            f"concat({literal('spark_jobs.errors.TableStopped: ')}, {self.place}, "
            f"{literal(f': {key}: column {column.name}: {_NO_VALUE}' + _END)})"
        )
        is_exact = f"map_contains_key({raw}, {literal(str(column.name))})"
        return replace(term, sql=f"IF({is_exact}, CAST(raise_error({reason}) AS {kind}), {term.sql})")


def _by_values(rule: RowFilter, event: str, table: _JudgedTable) -> str | None:
    """SQL: the rule's name where its conditions are TRUE for a change of this kind; None where it has none."""
    conditions: tuple[tuple[str, Condition | None, str], ...] = {
        "insert": (("insert-value-expr", rule.insert, "a"),),
        "update": (("update-old-value-expr", rule.update_old, "b"), ("update-new-value-expr", rule.update_new, "a")),
        "delete": (("delete-value-expr", rule.delete, "a"),),
    }[event]
    name = f"row_filters.{rule.name}"
    tests = [_test(f"{name}.{key}", condition, image, table) for key, condition, image in conditions if condition]
    return f"IF({' AND '.join(tests)}, {literal(name)}, NULL)" if tests else None


def _test(key: str, condition: Condition, image: str, table: _JudgedTable) -> str:
    """SQL: a condition about one image of a change."""
    columns = table.terms(key, image)
    names = _sources(condition.columns, table.computed, columns.keys())
    unknown = sorted(names - columns.keys() - table.known_columns)
    if unknown:
        raise TableStopped(f"{key} names column {unknown[0]}, which the table does not have: {table.definition}")
    if names - columns.keys():
        return "FALSE"  # of rows from a time when the table had no such column, it says nothing
    try:
        return condition.to_spark(_resolve(columns, table.computed))
    except ConfigError as error:
        raise TableStopped(f"{key}: {error}") from error


def _sources(names: Collection[str], computed: Sequence[Computed], columns: Collection[str]) -> frozenset[str]:
    """The names with, in the place of a computed column's, those that its expression has. columns: the table's."""
    by_name = {column.name.casefold(): column.columns for column in computed}
    parts = (by_name.get(name, frozenset((name,))) if name not in columns else frozenset((name,)) for name in names)
    return frozenset().union(*parts)


def _resolve(columns: Mapping[str, Term], computed: Sequence[Computed]) -> Resolve:
    """Gives the table's columns, and computed ones as the expressions that they are."""
    by_name = {column.name.casefold(): column for column in computed}

    def resolve(name: str) -> Term:
        return columns[name] if name in columns else by_name[name].term(columns.__getitem__)

    return resolve


def problem_of(condition: Condition, definition: TableDefinition, computed: Sequence[Computed] = ()) -> str | None:
    """Why a condition cannot be asked about rows of a table; None where it can. computed: the columns beside them."""
    columns = {str(column.name).casefold(): term_of(column, "NULL") for column in definition.columns}
    unknown = sorted(_sources(condition.columns, computed, columns.keys()) - columns.keys())
    if unknown:
        return f"names column {unknown[0]}, which the table does not have: {definition}"
    try:
        condition.to_spark(_resolve(columns, computed))
    except ConfigError as error:
        return str(error)
    return None


def term_of(column: Column, sql: str) -> Term:
    """A column as a part of conditions; sql: how it is called."""
    kind = silver.spark_type(str(column.arrow))
    if kind in _DIGITS:
        return number(sql, _DIGITS[kind])
    if kind.startswith("DECIMAL"):
        digits, scale = map(int, kind.removeprefix("DECIMAL(").removesuffix(")").split(","))
        return number(sql, digits, scale)
    if kind != "STRING":
        return Term(sql, _SORTS.get(kind, Sort.OTHER))
    if column.type_code == _ENUM:
        return Term(sql, Sort.LABEL if column.labels else Sort.OTHER, labels=column.labels or ())
    return Term(sql, Sort.TEXT if column.type.is_character and column.declared is None else Sort.OTHER)


def _present(key: str, term: Term, column: Column, image: str) -> Term:
    """The term, but an error where the row's image leaves the column out."""
    kind = silver.spark_type(str(column.arrow))
    lacking = silver.ABSENT if image == "a" else "_absent_before"
    message = f": {key}: the row image leaves column {column.name} out, and the filter asks for it"
    error = f"concat({literal('spark_jobs.errors.TableStopped: ')}, _file, ':', _offset, {literal(message + _END)})"
    is_absent = f"array_contains({lacking}, {literal(str(column.name))})"
    return replace(term, sql=f"IF({is_absent}, CAST(raise_error({error}) AS {kind}), {term.sql})")


_NO_VALUE = "its type in the lake cannot hold the value of this row, so the filter cannot be evaluated"
_END = "\n\n"
"""Ends a message of ours within Spark's (engine_errors.from_task)."""
