"""Errors of Spark, Delta and delta-rs as one message of this project: which table, what is wrong, what to do.

Put here: reading their texts. Not here: what they are asked to do (lake/table.py), or how much of their words a message
may show (text/disclosure.py).
"""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spark_jobs import errors
from spark_jobs.config.store import store_scheme
from spark_jobs.errors import LakeError, StratalogError
from spark_jobs.runtime import connect, executors, jvm, yarn
from spark_jobs.storage.messages import meaning as of_store
from spark_jobs.text.disclosure import foreign

_PY4J = re.compile(r"\AAn error occurred while calling \S+\s*:\s*(?:[\w$.]+(?:Exception|Error): )?")
_NO_WRITE = re.compile(
    r"(?:IOException|FileNotFoundException|FileSystemException)[^\n]*?"
    r"(No space left on device|Disk quota exceeded|Permission denied|Read-only file system|File too large"
    r"|Input/output error|Not a directory)"
)
_NO_FOLDER = re.compile(r"DELTA_CANNOT_CREATE_LOG_PATH|Mkdirs failed to create")
_TRACE = re.compile(r"\s*JVM stacktrace:\n.*", re.DOTALL)
"""Suffix that Spark Connect puts after a message."""
_REMEDIES = {
    "no space left on device": "free space and run again",
    "disk quota exceeded": "free space or raise the quota, and run again",
    "file too large": "raise the limit of the size of files (ulimit -f) and run again",
    "input/output error": "look at the disk, and run again",
}
_ELSEWHERE = "let the user that runs this write there, or set lake: in the configuration to another place"
_STORED_PATH = re.compile(r"(?:s3a|abfss|gs)://[^\s:`'\"]+")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_GAP = re.compile(r'found gap: .*?filename: "(\d+)\.\w+".*?filename: "(\d+)\.\w+"', re.DOTALL)
_DAMAGED = re.compile(
    r"Json error|Invalid JSON|Parquet error|Invalid Checkpoint|No table metadata or protocol|expected `"
    r"|at line \d+ column"
)
"""Message of delta-rs about a log that has damaged files."""
_RAISED = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\w.*)")
"""The last line of a Python worker's traceback: what it raised."""
_FRAMES = re.compile(r"\n\s*0: .*", re.DOTALL)
"""The trace behind a message of delta-rs where RUST_BACKTRACE is set."""


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Error of Spark and Delta inside, as JvmEnded or LakeError; that of a task of ours, as it was.

    path: of the table, opens the message; empty where it is about several.
    """
    try:
        yield
    except Exception as error:
        translation = meaning(error, path)
        if translation is None:
            raise
        raise translation from error


def meaning(error: Exception, path: str = "") -> StratalogError | None:
    """The error of ours in the place of one of Spark's, or of a call to what is gone (JVM, server); None for others."""
    ended = jvm.ended_by(error) or connect.ended_by(error)
    if ended or not is_spark_error(error):
        return ended
    return yarn.ended_by(error) or explained(path, str(error))


def is_spark_error(error: Exception) -> bool:
    """True if Spark raised it; without loading Spark, which takes half a second."""
    kinds = [
        getattr(sys.modules[module], name)
        for module, name in (("pyspark.errors", "PySparkException"), ("py4j.protocol", "Py4JError"))
        if module in sys.modules
    ]
    return isinstance(error, tuple(kinds)) or connect.is_grpc_error(error)


def explained(path: str, text: str) -> StratalogError:
    """The error that a text of Spark's means."""
    prefix = f"{path}: " if path else ""
    # From the most particular to the most general: what a task raised beats what Spark says of it.
    translation = executors.explained(text) or from_task(text)
    if translation:
        return translation
    stored = path if store_scheme(path) else next(iter(_STORED_PATH.findall(text)), "")
    reason = of_store(stored, text)
    if reason:
        return LakeError(f"{path or stored}: {reason}")
    # Files and folders that cannot be read or written have their reason in the operating system's words.
    denial = _NO_WRITE.search(text)
    if denial or _NO_FOLDER.search(text):
        reason = denial[1].lower() if denial else _why_not_made(path)
        verb = "read" if "FAILED_READ_FILE" in text else "written"
        return LakeError(f"{prefix}cannot be {verb}: {reason}; {_REMEDIES.get(reason, _ELSEWHERE)}")
    # A worker's traceback: its last line says what it raised.
    raised = _RAISED.findall(text)
    if raised:
        return LakeError(f"{prefix}a task failed: {foreign(raised[-1])}")
    return LakeError(f"{prefix}{without_java(text)}")


def without_java(text: str, lines: int = 3) -> str:
    """The first lines of a message of Java's as PySpark passes it on, without its classes and traces."""
    return foreign(_PY4J.sub("", _TRACE.sub("", text)), lines)


def from_task(text: str) -> StratalogError | None:
    """The error of ours that is in a failed Spark task's text, if one does: only text comes back."""
    matches = re.findall(r"spark_jobs\.errors\.(\w+): ((?:.|\n)*?)(?=\n\s*\n|\n\tat |\n SQLSTATE: |\Z)", text)
    if not matches:
        return None
    name, message = matches[-1]
    kind: type[StratalogError] = getattr(errors, name, errors.StratalogError)
    return kind(message.strip())


def _why_not_made(path: str) -> str:
    """Reason why a folder cannot be made, as far as this machine's files tell."""
    above = next((parent for parent in Path(path).parents if parent.exists()), Path("/"))
    if not above.is_dir():
        return f"{above} is not a directory"
    return "permission denied" if not os.access(above, os.W_OK) else f"no folder can be made in {above}"


def delta_rs_message(path: str, text: str) -> str:
    """A message of delta-rs about a table: what the store's refusal means, or its words on one line.

    Colours, traces and structures of delta-rs are left out.
    """
    refusal = of_store(path, text)
    if refusal:
        return refusal
    plain = _FRAMES.sub("", _COLOURS.sub("", text))
    gap = _GAP.search(plain)
    if gap:
        first, last = int(gap[1]) + 1, int(gap[2]) - 1
        lacking = f"version {first} is" if first == last else f"versions {first} to {last} are"
        return f"{lacking} missing from its _delta_log; restore the files"
    line = foreign(re.sub(r"\s*\n\s*", " ", plain).replace("↳", "->"))
    return f"{line}; restore the table's _delta_log" if _DAMAGED.search(plain) else line
