"""A condition over one row, written in MySQL's SQL.

Put here: the checked condition. Not here: what it may say (compiler.py), or which rows it is asked about
(config/filters.py).
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Self

from spark_jobs.errors import ConfigError

if TYPE_CHECKING:
    from spark_jobs.expressions.terms import Evaluate, Resolve


@dataclass(frozen=True, slots=True)
class Condition:
    """A checked condition. ``columns``: the names in it, in small letters."""

    text: str
    columns: frozenset[str]

    @classmethod
    @lru_cache(maxsize=4096)  # the rules of a pipeline are asked for by every table
    def parse(cls, text: str) -> Self:
        """The condition that a text says. Raises ConfigError if no table could have a row for it."""
        from spark_jobs.expressions.compiler import Compiler
        from spark_jobs.expressions.terms import Sort, Term
        from spark_jobs.expressions.tree import names_in, tree_of

        tree = tree_of(text)
        names = names_in(tree)
        Compiler(lambda _: Term(Sort.UNKNOWN)).truth(tree)
        if not names:
            raise ConfigError(f"{text!r} names no column, and so says nothing about a row")
        return cls(text, names)

    def compiled(self, resolve: "Resolve") -> "Evaluate":
        """Function that gives its truth of rows.

        Raises ConfigError where a column is not there, or is not compared so.
        """
        from spark_jobs.expressions.compiler import Compiler
        from spark_jobs.expressions.tree import tree_of

        return Compiler(resolve).truth(tree_of(self.text)).evaluate
