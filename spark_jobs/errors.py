"""Exceptions of Stratalog, and who has to act on each.

    StratalogError
    ├── ConfigError          you: pipeline.yaml, an option, the machine's set-up
    ├── SourceError          the server or the directory of files
    │   ├── AccessDenied     the server refuses the login, or what the user may not do
    │   └── AnotherLog       the source has another log than bronze
    ├── DecodeError          bytes of the log
    │   ├── Truncated        an event that ends after its bytes do
    │   ├── ChecksumMismatch an event with a wrong CRC32
    │   └── Unsupported      known by name, and not handled
    │       └── PartialImage a row image without all columns
    │           └── PartialWindow a row image that changes of other tasks complete
    ├── TableStopped         one table; the others continue
    │   └── NamesUnknown     the names of its columns are not known
    ├── DeliveryError        the target of a delivery
    │   └── DeliveryDenied   the target refuses the login, or what the user may not do
    └── LakeError            the tables of the lake
        ├── LostRace         another writer committed first
        └── JvmEnded         Spark's JVM or server has ended

Put here: exception classes. Not here: the texts; they belong where the facts are.

Only text survives the way from a Spark task to the driver, so a message carries everything: source, file, offset,
table, column, and what to do. Arguments are positional, because keyword-only ones do not unpickle.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class StratalogError(Exception):
    """The base class of all errors: one message with what is wrong and what to do."""

    exit_status = 1


class ConfigError(StratalogError):
    """The configuration or the command is wrong; nothing was started.

    Holds every problem found, each with the path of its key: ``{"routes[1].to": "missing"}``.
    """

    exit_status = 2

    def __init__(self, problems: dict[str, str] | str) -> None:
        self.problems = {"": problems} if isinstance(problems, str) else problems
        super().__init__("\n".join(f"{key}: {text}" if key else text for key, text in self.problems.items()))

    def __reduce__(self) -> tuple[type["ConfigError"], tuple[dict[str, str]]]:
        return type(self), (self.problems,)


class SourceError(StratalogError):
    """The server or the directory does not give what was asked for."""


class AccessDenied(SourceError):
    """The server refuses a login or a statement until somebody changes the password, the account or its privileges."""


class AnotherLog(SourceError):
    """Another server answers under a source's name, or its file numbers began again; only the user knows why."""


class DecodeError(StratalogError):
    """Bytes of the log cannot be decoded."""


class Truncated(DecodeError):
    """An event, a row or a value reaches beyond the end of its bytes."""


class ChecksumMismatch(DecodeError):
    """The CRC32 of an event differs from that of its bytes."""


class Unsupported(DecodeError):
    """The log has an event, type or feature that this version does not decode; the message names it."""


class PartialImage(Unsupported):
    """A row image without all columns, where all are required."""


class PartialWindow(PartialImage):
    """A row image without all columns, in a task that does not have all slices of the window that complete it."""


class TableStopped(StratalogError):
    """One table cannot continue from a position of its log; its tables hold everything before that.

    at: the position (spark_jobs.log.position.Position) in the process that raises; None where the text alone names it.
    """

    def __init__(self, message: str = "", at: object = None) -> None:
        super().__init__(message)
        self.at = at

    def __reduce__(self) -> tuple[type["TableStopped"], tuple[str, object]]:
        return type(self), (str(self), self.at)


class NamesUnknown(TableStopped):
    """Neither the log nor a definition has the column names of the rows of a table."""


class DeliveryError(StratalogError):
    """The target of a delivery refuses rows, or lacks a table, a column or a privilege."""


class DeliveryDenied(DeliveryError):
    """The target refuses a login or a statement until somebody changes the password, the account or its privileges."""


class LakeError(StratalogError):
    """A table of the lake cannot be read, written or trusted."""


class LostRace(LakeError):
    """Another writer committed first; nothing of this commit is in the table."""


class JvmEnded(LakeError):
    """Spark's JVM ended, or a Connect server is gone: what needs Spark in this process cannot succeed any more."""


def message_under(text: str, *names: object) -> str:
    """A message to be read behind these names: without those of them that it begins with."""
    for name in names:
        text = text.removeprefix(f"{name}: ")
    return text


@contextmanager
def about(label: str) -> Iterator[None]:
    """Prefix errors of the ``with`` block with a source's or a table's name, once."""
    try:
        yield
    except ConfigError:
        raise
    except StratalogError as error:
        if str(error).startswith(f"{label}:"):
            raise
        if isinstance(error, TableStopped):
            raise type(error)(f"{label}: {error}", error.at) from error
        raise type(error)(f"{label}: {error}") from error
