"""Objects of a store: created by conditional puts, read whole or in ranges.

Put here: requests to a store. Not here: how it is reached (store_access.py), or what its refusals mean (messages.py).

A put is durable when it is answered, and its object appears complete or not at all. ``create`` puts with
``If-None-Match: *``: of several writers one succeeds, and the store answers the others that the object exists.
"""

import errno
import io
import logging
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import BinaryIO, TypeVar, cast
from urllib.parse import urlsplit

import obstore
import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

from spark_jobs.config.store import AZURE, S3, store_scheme
from spark_jobs.storage.messages import code_of, is_refusal, meaning
from spark_jobs.storage.store_access import client

log = logging.getLogger(__name__)

_WHOLE = 8 << 20
"""Bytes of an object up to which it is read by one request."""
_BLOCK = 1 << 20
"""Bytes that are read of a larger one at least."""
_BLOCKS = 8
_SPOOLED = 32 << 20
"""Bytes of an object that is written which stay in memory; what is longer waits in a temporary file."""
_AT_ONCE = 16
"""Objects that are put at once."""
_TRIES = 5
_WAIT_SECONDS = 0.2
Result = TypeVar("Result")


class StoreError(OSError):
    """A request to an object store that failed; ``strerror`` says what is wrong and what to do."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(errno.EIO, meaning(path, text) or _short(text), path)

    def __str__(self) -> str:
        return f"{self.strerror}"

    def __reduce__(self) -> tuple[type["StoreError"], tuple[str, str]]:
        return type(self), (str(self.filename), str(self.strerror))


@dataclass(frozen=True, slots=True)
class ObjectPath:
    """An object, or the prefix of several, with as much of a ``Path`` as the lake needs."""

    bucket: str
    key: str
    """Key without a slash at its ends."""
    scheme: str = S3

    @classmethod
    def parse(cls, path: str) -> "ObjectPath":
        """The object of ``s3a://bucket/key``, or ``abfss://container@account.dfs.core.windows.net/key``."""
        parts = urlsplit(path, allow_fragments=False)
        rest = path[path.index("://") + 3 + len(parts.netloc) :]
        return cls(parts.netloc, "/".join(part for part in rest.split("/") if part), store_scheme(path) or S3)

    def __truediv__(self, name: str) -> "ObjectPath":
        return replace(self, key="/".join(part for part in (self.key, *name.split("/")) if part))

    def __str__(self) -> str:
        return f"{self.root}/{self.key}"

    @property
    def root(self) -> str:
        """The address of the bucket."""
        return f"{self.scheme}://{self.bucket}"

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    @property
    def parent(self) -> "ObjectPath":
        return replace(self, key=self.key.rpartition("/")[0])

    def read_bytes(self) -> bytes:
        """The content of the object. Raises FileNotFoundError, StoreError."""
        return bytes(self.answer(lambda: obstore.get(client(self.root), self.key).bytes()))

    def read_range(self, start: int, length: int) -> bytes:
        """``length`` bytes of the object from offset ``start`` on. Raises FileNotFoundError, StoreError."""
        return bytes(self.answer(lambda: obstore.get_range(client(self.root), self.key, start=start, length=length)))

    def exists(self) -> bool:
        """True if the object exists. Raises StoreError."""
        try:
            self.answer(lambda: obstore.head(client(self.root), self.key))
        except FileNotFoundError:
            return False
        return True

    def unlink(self, *, missing_ok: bool = False) -> None:
        """Remove the object; one that does not exist is no error to a store. Raises StoreError."""
        try:
            self.answer(lambda: obstore.delete(client(self.root), self.key))
        except FileNotFoundError:
            if not missing_ok:
                raise

    def answer(self, request: Callable[[], Result]) -> Result:
        """The answer to a request. Raises FileNotFoundError, StoreError."""
        try:
            return request()
        except (BaseError, FileNotFoundError) as error:
            raise _error(self, error) from error


def create(target: ObjectPath, content: bytes) -> bool:
    """Create an object with its content; False where it exists with another. Raises StoreError.

    A put without an answer may have been carried out, or refused: a store may close the connection before it has all of
    a large body. The content of the object that exists then shows whose it is; where there is none, the put is sent
    again. So no two writers may put the same content; commits have an id each.
    """
    for tries in range(1, _TRIES + 1):
        try:
            obstore.put(client(target.root), target.key, content, mode="create")
        except (AlreadyExistsError, PreconditionError):
            return target.read_bytes() == content
        except (BaseError, FileNotFoundError) as error:
            if is_refusal(str(error)):
                raise _error(target, error) from error
            with suppress(FileNotFoundError, StoreError):
                return target.read_bytes() == content
            if tries == _TRIES:
                raise _error(target, error) from error
            log.info("%s: no answer to a put, which is sent again", target)
            time.sleep(tries * _WAIT_SECONDS)
        else:
            return True
    raise AssertionError


def keeps_first(target: ObjectPath) -> bool:
    """True if the store refuses a conditional put where the object exists: two puts to an object of nobody's.

    The object is removed, as far as that is allowed. Raises StoreError.
    """
    try:
        return create(target, b"first") and not create(target, b"second")
    finally:
        with suppress(StoreError):
            target.unlink(missing_ok=True)


@contextmanager
def durable(target: ObjectPath) -> Iterator[BinaryIO]:
    """A new object, which exists after the ``with`` block, and does not where something is raised inside."""
    with tempfile.SpooledTemporaryFile(_SPOOLED) as sink:
        yield cast(BinaryIO, sink)
        sink.seek(0)
        try:
            obstore.put(client(target.root), target.key, cast(BinaryIO, sink))
        except (BaseError, FileNotFoundError) as error:
            raise _error(target, error) from error


def copy(source: ObjectPath, target: ObjectPath) -> None:
    """Put the content of an object under another key, a part after the other. Raises FileNotFoundError, StoreError."""
    with durable(target) as sink:
        source.answer(lambda: sink.writelines(obstore.get(client(source.root), source.key).stream()))


def write_all(folder: ObjectPath, contents: Mapping[str, bytes]) -> None:
    """Write new objects under a prefix, as ``files.write_all``: several puts at once. Raises StoreError."""

    def put(name: str) -> None:
        target = folder / name
        try:
            obstore.put(client(target.root), target.key, contents[name])
        except (BaseError, FileNotFoundError) as error:
            raise _error(target, error) from error

    if contents:
        with ThreadPoolExecutor(min(_AT_ONCE, len(contents))) as pool:
            list(pool.map(put, contents))


def names(folder: ObjectPath) -> list[str] | None:
    """The names of the objects directly under a prefix; None where there is none. Raises StoreError."""
    return [name for name, _ in walk(folder) if "/" not in name] or None


def walk(folder: ObjectPath) -> Iterator[tuple[str, float]]:
    """Objects under a prefix, as ``files.walk``. Raises StoreError."""
    prefix = f"{folder.key}/" if folder.key else ""
    try:
        for chunk in obstore.list(client(folder.root), prefix or None, chunk_size=1000):
            for entry in chunk:
                if folder.scheme == AZURE and not entry["size"]:
                    continue  # Hadoop's marker of a folder, or a file of Spark's that is not written yet
                yield entry["path"].removeprefix(prefix), entry["last_modified"].timestamp()
    except (BaseError, FileNotFoundError) as error:
        raise _error(folder, error) from error


def age(target: ObjectPath) -> float:
    """Seconds since an object was written, by this machine's clock. Raises FileNotFoundError, StoreError."""
    modified_at: datetime = target.answer(lambda: obstore.head(client(target.root), target.key))["last_modified"]
    return (datetime.now(UTC) - modified_at).total_seconds()


def mark(target: ObjectPath) -> tuple[object, ...] | None:
    """Mark of an object's present content, as ``files.mark``; None where there is no object. Raises StoreError."""
    try:
        meta = target.answer(lambda: obstore.head(client(target.root), target.key))
    except FileNotFoundError:
        return None
    return meta["e_tag"], meta["size"], meta["last_modified"]


def opened(target: ObjectPath) -> pa.NativeFile:
    """An object for Arrow to read; a small one by one request. Raises FileNotFoundError, StoreError."""
    answer = target.answer(lambda: obstore.get(client(target.root), target.key))
    size = answer.meta["size"]
    if size <= _WHOLE:
        return pa.BufferReader(target.answer(lambda: bytes(answer.bytes())))
    return pa.PythonFile(_Ranges(target, size), "r")


class _Ranges(io.RawIOBase):
    """A large object as a file: blocks of it are requested as they are read, and the last ones are kept."""

    def __init__(self, target: ObjectPath, size: int) -> None:
        self._target, self._size, self._at = target, size, 0
        self._cache: OrderedDict[int, bytes] = OrderedDict()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = start + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        remaining = max(0, self._size - self._at)
        size = remaining if size < 0 else min(size, remaining)
        content = self._content(self._at, size) if size else b""
        self._at += len(content)
        return content

    def _content(self, start: int, size: int) -> bytes:
        for at, block in self._cache.items():
            if at <= start and start + size <= at + len(block):
                self._cache.move_to_end(at)
                return block[start - at : start - at + size]
        at = min(start, max(0, self._size - _BLOCK))  # the end has the footer, which is read first
        length = min(max(start + size - at, _BLOCK), self._size - at)
        block = self._target.read_range(at, length)
        self._cache[at] = block
        while len(self._cache) > _BLOCKS:
            self._cache.popitem(last=False)
        return block[start - at : start - at + size]


def _error(target: ObjectPath, error: Exception) -> OSError:
    """The error of ours for one of obstore's; NotFoundError is about the object where nothing else is missing."""
    text = str(error)
    if isinstance(error, FileNotFoundError) and code_of(text) in (None, "NoSuchKey", "NotFound", "BlobNotFound"):
        return FileNotFoundError(errno.ENOENT, "no such object", str(target))
    return StoreError(str(target), text)


def _short(text: str) -> str:
    """The first line of a client's text, without the request and its address."""
    return " ".join(text.partition("\n")[0].partition(": Error performing")[0].split())[:200]
