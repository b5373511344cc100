"""A computed column: an expression over one row, written in MySQL's SQL, and the type that it has in the lake.

Put here: the checked expression, and which types hold its values. Not here: what it may say (value_compiler.py), or
which tables have such columns (config/filters.py).
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Self

from spark_jobs.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_jobs.expressions.terms import Evaluate, Resolve, Term

_DIGITS = {"SMALLINT": 4, "INT": 9, "BIGINT": 18}
"""Number of digits every one of which a whole number may have in a type."""
_BY_SORT = {
    "TRUTH": "BOOLEAN",
    "REAL": "DOUBLE",
    "TEXT": "STRING",
    "POINTS": "STRING",
    "LABEL": "STRING",
    "LITERAL": "STRING",
    "BYTES": "BINARY",
    "DATE": "DATE",
    "DATETIME": "TIMESTAMP_NTZ",
    "MOMENT": "TIMESTAMP",
}
"""Types by the name of the sort of their values (terms.py)."""
_WHOLE = {"SMALLINT": ("int16", 5), "INT": ("int32", 10), "BIGINT": ("int64", 19)}
"""Arrow's type by name, and digits of the largest whole number of it."""
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_EXACT_IN_DOUBLE = 15


def type_text(text: str) -> str:
    """A type as Spark writes it. Raises ConfigError for one that no computed column has."""
    kind = re.sub(r"\s+", "", text.upper())
    matched = _DECIMAL.fullmatch(kind)
    if matched and 1 <= int(matched[1]) <= 38 and int(matched[2]) <= int(matched[1]):
        return kind
    if kind not in (*_DIGITS, *_BY_SORT.values()):
        names = ", ".join([*_DIGITS, "DECIMAL(p,s)", *dict.fromkeys(_BY_SORT.values())])
        raise ConfigError(f"{text!r} is no type of a computed column; there are {names}")
    return kind


@dataclass(frozen=True, slots=True)
class Computed:
    """A checked expression. name: as the lake has it. columns: the names in it, in small letters. type: Spark's."""

    name: str
    text: str
    type: str
    columns: frozenset[str]

    @classmethod
    @lru_cache(maxsize=4096)  # the rules of a pipeline are asked for by every table
    def parse(cls, name: str, text: str, type_: str) -> Self:
        """The computed column of a name, an expression and a type. Raises ConfigError if no table could have it."""
        from spark_jobs.expressions.terms import Sort, Term
        from spark_jobs.expressions.tree import names_in, tree_of
        from spark_jobs.expressions.value_compiler import ValueCompiler

        tree = tree_of(text)
        names = names_in(tree)
        if not names:
            raise ConfigError(f"{text!r} names no column, and so says nothing about a row")
        computed = cls(name, text, type_text(type_), names)
        ValueCompiler(lambda _: Term(Sort.UNKNOWN)).value(tree)
        return computed

    @property
    def arrow(self) -> "pa.DataType":
        """Arrow's type of the column."""
        import pyarrow as pa

        return pa.type_for_alias(_WHOLE[self.type][0]) if self.type in _WHOLE else self._form.arrow

    @property
    def _form(self) -> "Term":
        """Form of the column for conditions, without values."""
        from spark_jobs.expressions.terms import Sort, Term

        matched = _DECIMAL.fullmatch(self.type)
        if self.type in _WHOLE:
            return Term(Sort.NUMBER, digits=_WHOLE[self.type][1])
        if matched:
            return Term(Sort.NUMBER, digits=int(matched[1]), scale=int(matched[2]))
        return Term(next(Sort[name] for name, kind in _BY_SORT.items() if kind == self.type))

    def term(self, resolve: "Resolve") -> "Term":
        """The column as a part of conditions. Raises ConfigError where the type does not hold every value."""
        from spark_jobs.expressions.terms import Term
        from spark_jobs.expressions.tree import tree_of
        from spark_jobs.expressions.value_compiler import ValueCompiler, described, typed

        term, form = ValueCompiler(resolve).value(tree_of(self.text)), self._form
        if not _holds_values(self.type, term):
            raise ConfigError(f"`{self.text}` is {described(term)}, which {self.type} does not hold")
        return Term(form.sort, typed(term, form.sort, form.digits, form.scale), form.digits, form.scale)

    def compiled(self, resolve: "Resolve") -> "Evaluate":
        """Function that gives its values of rows, of ``arrow``. Raises ConfigError as ``term`` does."""
        from spark_jobs.expressions.terms import mapped

        kind = self.arrow
        return mapped(self.term(resolve).evaluate, lambda values: values.cast(kind))


def _holds_values(kind: str, term: "Term") -> bool:
    """True if a type holds every value of a term as it is."""
    if term.sort.name in ("NULL", "UNKNOWN"):
        return True
    if term.sort.name != "NUMBER":
        return _BY_SORT.get(term.sort.name) == kind
    if kind in _DIGITS:
        return term.scale == 0 and term.digits <= _DIGITS[kind]
    if kind == "DOUBLE":
        return term.digits <= _EXACT_IN_DOUBLE
    matched = _DECIMAL.fullmatch(kind)
    if not matched:
        return False
    digits, scale = map(int, matched.groups())
    return scale >= term.scale and digits - scale >= term.integer_digits
