"""Comparisons of a configuration, its servers and its lake: ``stratalog check --connect`` and ``verify``.

A check is a function that takes a view (of a server, a directory, the lake, all tables) and yields results. To add one,
write the function into the module of its view and append it to the list ``CHECKS`` there. An error of ours that it
raises is a problem under the function's name.

Put here: the result of one check, and how checks are run. Not here: checks, each in the module of what it looks at
(server.py, files.py, lake.py, tables.py), which of them a configuration needs (checklist.py), comparing
rows (verify/) and decoded values (second_reader/), or how results are printed (spark_jobs/cli/check.py).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, TypeVar

from spark_jobs.errors import SourceError, StratalogError
from spark_jobs.text.remedies import kind_of

Status = Literal["ok", "warning", "problem"]
View = TypeVar("View")


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    name: str
    """Subject of the check, in a word or two."""
    status: Status
    value: str
    """State that the check found."""
    remedy: str = ""
    """State that is wanted, and how to get there; empty where all is well."""

    def __post_init__(self) -> None:
        assert bool(self.remedy) == (self.status != "ok"), self

    def to_json(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Section:
    """The results about one thing. about: ``sources.shop``, ``lake``, ``tables``."""

    about: str
    checks: tuple[Check, ...]


def ok(name: str, value: str) -> Check:
    return Check(name, "ok", value)


def warning(name: str, value: str, remedy: str) -> Check:
    """A result that does not fail ``check``."""
    return Check(name, "warning", value, remedy)


def problem(name: str, value: str, remedy: str) -> Check:
    """A result that fails ``check``."""
    return Check(name, "problem", value, remedy)


def failed(name: str, error: StratalogError, about: str = "") -> Check:
    """The result of a check that could not be made, or whose error says what is wrong.

    about: the name that the section has already, and the message need not repeat.
    """
    text = str(error).removeprefix(f"{about}: ")
    value, _, remedy = text.rpartition("; ")
    return problem(name, value, remedy) if value else problem(name, text, _remedy(text, error, about))


def _remedy(text: str, error: StratalogError, about: str) -> str:
    """The remedy that a run would name for an error of a source, unless that is this check."""
    kind = kind_of(text) if isinstance(error, SourceError) else None
    if kind is None or "check --connect" in kind.remedy:
        return "correct that, and check again"
    return kind.remedy.format(source=about or "SOURCE", table="DB.TABLE", at="POSITION")


def run_checks(view: View, checks: Sequence[Callable[[View], Iterable[Check]]], about: str = "") -> Iterator[Check]:
    """The results of all checks of a view; one that raises does not keep the others from being made."""
    for check in checks:
        try:
            yield from check(view)
        except StratalogError as error:
            yield failed(check.__name__.replace("_", " "), error, about)
