"""Files of the lake by path, wherever it is: the one interface of what runs without Spark.

Put here: choosing between a file system (local.py) and an object store (objects.py). Not here: either.
"""

import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote

import pyarrow as pa

from spark_jobs.config.store import store_scheme
from spark_jobs.storage import local, objects
from spark_jobs.storage.objects import ObjectPath, StoreError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(/.*)")

PROBE = ".stratalog-probe-"
"""Prefix of objects that show whether a store takes conditional puts."""

StoredPath = Path | ObjectPath
"""A file, or a folder, of the lake."""


def scheme_of(path: str) -> str:
    """The scheme of a path; ``file`` for one without."""
    match = _SCHEME.fullmatch(path)
    return match[1].lower() if match else "file"


def is_stored(path: str) -> bool:
    """True if a path is on a file system or on a store that is read and written here."""
    return scheme_of(path) == "file" or store_scheme(path) is not None


@lru_cache(maxsize=4_096)
def stored_path(path: str) -> StoredPath:
    """The file or folder that a path names; ``is_stored`` holds."""
    match = _SCHEME.fullmatch(path)
    if match is None:
        return Path(path)
    return ObjectPath.parse(path) if store_scheme(path) else Path(unquote(re.sub(r"^/+", "/", match[2])))


def create(target: StoredPath, content: bytes, *, is_first: bool = False) -> bool:
    """Create a file with its content, durably; False where another writer has created it. Raises OSError.

    It appears complete or not at all. is_first: whether it is the first of its folder, which another writer may have
    made just now.
    """
    if isinstance(target, Path):
        return local.create(target, content, is_first=is_first)
    return objects.create(target, content)


def replace(target: StoredPath, content: bytes) -> None:
    """Replace a file's content, durably; a reader sees the old content or the new one. Raises OSError."""
    if isinstance(target, Path):
        local.replace(target, content)
    else:
        with objects.durable(target) as sink:
            sink.write(content)


def write_all(folder: StoredPath, contents: Mapping[str, bytes]) -> None:
    """Write new files into a folder; all are durable when it returns, and some may be there where it raises.

    Raises OSError.
    """
    if isinstance(folder, Path):
        local.write_all(folder, contents)
    else:
        objects.write_all(folder, contents)


def link(source: StoredPath, target: StoredPath) -> None:
    """Give a file that is never changed a second name, durably; one that it has already is no error. Raises OSError.

    A store gets a copy.
    """
    if isinstance(source, Path) and isinstance(target, Path):
        local.link(source, target)
    else:
        assert isinstance(source, ObjectPath)
        assert isinstance(target, ObjectPath)
        objects.copy(source, target)


@contextmanager
def durable(target: StoredPath) -> Iterator[BinaryIO]:
    """A new file, durable after the ``with`` block; what is raised inside leaves none. Raises OSError."""
    if isinstance(target, ObjectPath):
        with objects.durable(target) as sink:
            yield sink
        return
    try:
        with local.durable(target) as sink:
            yield sink
    except BaseException:
        target.unlink(missing_ok=True)
        raise


@cache
def _bucket_keeps_first(root: str, prefix: str) -> bool:
    return objects.keeps_first(ObjectPath.parse(f"{root}/{prefix}") / f"{PROBE}{uuid.uuid4().hex}")


def why_not_exclusive(folder: StoredPath) -> str | None:
    """Reasons why commits in a folder could overwrite each other.

    None where they cannot. Asked once of a bucket and process.

    Raises OSError.
    """
    if isinstance(folder, Path):
        return None
    if _bucket_keeps_first(folder.root, folder.key.partition("/")[0]):
        return None
    return (
        "the store overwrites objects in spite of If-None-Match, so that two writers could lose each other's commits; "
        "use a store with conditional writes"
    )


def names(folder: StoredPath) -> list[str] | None:
    """The names in a folder, as a store has them those of objects; None where there is none. Raises OSError."""
    return local.names(folder) if isinstance(folder, Path) else objects.names(folder)


def walk(folder: StoredPath) -> Iterator[tuple[str, float]]:
    """The files in a folder and those below it: their names relative to it, and when they were written.

    Seconds since 1970, by the clock of the file system or store. Raises OSError.
    """
    return local.walk(folder) if isinstance(folder, Path) else objects.walk(folder)


def age(file: StoredPath) -> float:
    """Seconds since a file was written. Raises OSError."""
    return local.age(file) if isinstance(file, Path) else objects.age(file)


def mark(file: StoredPath) -> object:
    """Mark of a file as it is now, which changes with its content; None where there is no file. Raises OSError."""
    return local.mark(file) if isinstance(file, Path) else objects.mark(file)


def readable(file: StoredPath) -> Path | pa.NativeFile:
    """A file as Arrow reads it. Raises OSError."""
    return file if isinstance(file, Path) else objects.opened(file)


def content(file: StoredPath, start: int, length: int) -> bytes:
    """Bytes of a file, fewer at its end. Raises OSError."""
    if isinstance(file, ObjectPath):
        return file.read_range(start, length)
    with file.open("rb") as opened:
        opened.seek(start)
        return opened.read(length)


def reason(error: OSError) -> str:
    """Reason why a file could not be read or written: with its name, or with what to do about its store."""
    return str(error) if isinstance(error, StoreError) else f"{error.strerror}: {error.filename}"
