"""Guard of functions that interpret a statement: a result, or Unsupported, and no other error.

A log has statements of every table of its server, in scope or not, and keeps them for ever: an error of ours in one of
them must not end the run of its source. It stops the tables that the statement is about.

Put here: how errors of interpretation become ``Unsupported``. Not here: interpretation (alter.py, renames.py, …).
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from spark_jobs.errors import StratalogError, Unsupported

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, StopIteration, TypeError, ValueError)
"""Errors of code that meets a text which it did not expect; memory, interrupts and assertions are another matter."""


def readable(interpret: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The function, which raises Unsupported for a statement that it does not get to the end of.

    The message names the kind of error alone: the text of the error may hold values of the statement.
    """

    @wraps(interpret)
    def guarded(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return interpret(*args, **kwargs)
        except StratalogError:
            raise
        except _ERRORS as error:
            raise Unsupported(f"the statement cannot be read ({type(error).__name__})") from error

    return guarded
