"""The file-system and commit calls of a run, numbered, with a fault at one of them.

Put here: the calls that are numbered, and what a fault does at one. Not here: which faults are chosen, or what is
expected behind them.

Calls are wrapped where they leave Python: ``pathlib``, ``os``, pyarrow's Parquet files, deltalake's tables, requests to
an Iceberg catalog. A call counts where its path lies in the lake, and the thread has an actor (a process of the
pipeline). The catalog is another machine: a power cut takes nothing of it.
"""

import errno
import io
import json
import os
import random
import shutil
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, Self, cast
from unittest.mock import patch
from urllib.parse import urlsplit

import deltalake
import pyarrow.parquet as pq
import requests
from deltalake.exceptions import TableNotFoundError

from spark_jobs.delta import kept, log_files
from tests.faults.tracing import Recorder
from tests.services.iceberg_rest import RestCatalog, answer

CALLS = {
    "link": 6,
    "write": 4,
    "fsync": 4,
    "open to write": 3,
    "unlink": 3,
    "checkpoint": 3,
    "mkdir": 2,
    "read": 2,
    "read the log": 2,
    "list": 2,
    "open Parquet": 2,
    "read Parquet": 2,
    "open to read": 1,
    "stat": 1,
}
"""Calls by name, and how often each gets a fault."""
ASK, TELL = "ask the catalog", "tell the catalog"
CATALOG_CALLS = {ASK: 8, TELL: 24}
"""The same of requests to a catalog, which some pipelines have: half of their faults."""
_WRITES = {"mkdir", "open to write", "write", "fsync", "link", "checkpoint"}
KINDS = (
    "killed before the call",
    "killed after the call",
    "power cut",
    "answer lost",
    "answer lost, sent again",
    "input/output error",
    "disk full",
    "another run in between",
    "taken over by a later run",
)


def calls_of(kind: str, weights: Mapping[str, int] = CALLS) -> list[str]:
    """Names of the calls that may have a fault of a kind. weights: of the calls that there are."""
    if kind == "answer lost, sent again":  # as NFS and proxies do with a request that has no answer
        return [name for name in weights if name in ("link", TELL)]
    return [name for name in weights if kind != "disk full" or name in _WRITES]


class Killed(BaseException):
    """The process is gone. No code catches it, and none of its calls does anything any more."""


@dataclass
class Actor:
    """One process of the pipeline: its calls so far, and the fault that it gets."""

    faults: dict[tuple[str, int], str] = field(default_factory=dict)
    """Kinds of faults, by the name of the call that fails and its number among the calls of that name."""
    rivals: Callable[[str], None] = lambda _kind: None
    """Of a delay: what others do meanwhile."""
    step: Callable[[], None] = lambda: None
    """Before every call."""
    calls: Counter[str] = field(default_factory=Counter)
    """Calls so far, by name."""
    failed: list[tuple[str, str, str]] = field(default_factory=list)
    """The calls that failed: name, kind, which one."""
    kept: Any = None
    """Logs that the process has kept from its earlier runs (``delta/kept.py``), if it follows."""
    is_dead: bool = False
    is_full: bool = False
    is_inside: bool = False


class Disk:
    """A lake's folder and what of it would be there after a power cut."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = f"{root}/"
        self.random = random.Random(seed)
        self.recorder = Recorder(root)
        self.catalog = RestCatalog()
        """An Iceberg catalog; half of them do not know how to replace an entry."""
        self.catalog.knows_overwrite = seed % 2 == 0
        self.opened: dict[tuple[Any, ...], Any] = {}
        """Tables that deltalake has opened, by all that their logs consist of: opening takes a third of a run."""
        self._local = threading.local()
        self.of_threads: Actor | None = None
        """The actor of threads that have none of their own."""
        self._names: set[str] = set()
        """Files and folders whose names are not durable."""
        self._contents: set[str] = set()
        """Files with content that is not."""

    @contextmanager
    def acting(self, actor: Actor | None) -> Iterator[None]:
        """Calls of this thread are the actor's."""
        before, self._local.actor = getattr(self._local, "actor", None), actor
        try:
            yield
        finally:
            self._local.actor = before

    @property
    def _actor(self) -> Actor | None:
        """The actor of this thread."""
        return getattr(self._local, "actor", self.of_threads)

    @property
    def logs(self) -> Any:
        """The logs that this thread's actor keeps: those of the process, as ``delta/kept.py`` asks for them."""
        actor = self._actor
        return actor and actor.kept

    def call(self, name: str, path: object, function: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        """A call that leaves the process. half: the part of it that is done where the disk is full then."""
        actor = self._actor
        if actor is None or actor.is_inside or not f"{path}/".startswith(self.root):
            return function()
        if actor.is_dead:
            raise Killed
        actor.step()
        actor.calls[name] += 1
        if actor.is_full and name in _WRITES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        number = actor.calls[name]
        kind = actor.faults.pop((name, number), None)
        if kind is None:
            return self._performed(actor, function)
        actor.failed.append((name, kind, f"{kind}, call {number}: {name} {str(path).removeprefix(self.root)}"))
        return self._failing(actor, kind, path, function, half)

    def _performed(self, actor: Actor, function: Callable[[], Any]) -> Any:
        actor.is_inside = True
        try:
            return function()
        finally:
            actor.is_inside = False

    def _failing(  # noqa: C901 - one case a kind
        self, actor: Actor, kind: str, path: object, function: Callable[[], Any], half: Callable[[], Any] | None
    ) -> Any:
        match kind:
            case "killed before the call" | "power cut":
                if half is not None and self.random.random() < 0.5:
                    self._die_in(actor, half)
                elif self.random.random() < 0.5:
                    self._die_in(actor, function)
                actor.is_dead = True
                raise Killed
            case "killed after the call":
                self._die_in(actor, function)
            case "answer lost":
                try:
                    _drop(self._performed(actor, function))
                except Exception:
                    actor.failed.pop()  # its answer is an error without a fault
                    raise
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
            case "answer lost, sent again":
                self._performed(actor, function)
                return self._performed(actor, function)
            case "input/output error":
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
            case "disk full":
                if half is not None:
                    self._performed(actor, half)
                actor.is_full = True
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        with self.acting(None):
            actor.rivals(kind)
        return self._performed(actor, function)

    def _die_in(self, actor: Actor, function: Callable[[], Any]) -> NoReturn:
        """The last call of a process, which gets neither its answer nor its error."""
        try:
            _drop(self._performed(actor, function))
        except Exception as error:  # the process is gone before it sees it
            raise Killed from error
        finally:
            actor.is_dead = True
        raise Killed

    def cut_power(self) -> None:
        """Takes away what need not be there: each name that is not durable, and content, or none of it."""
        for path in map(Path, sorted(self._contents)):
            if path.exists() and self.random.random() < 0.5:
                os.truncate(path, self.random.randint(0, path.stat().st_size))
        for path in map(Path, sorted(self._names, reverse=True)):
            if self.random.random() < 0.5:
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
        self.recorder.power_cut()
        self.forget()

    def forget(self) -> None:
        """All that is there stays: time has passed."""
        self._names.clear()
        self._contents.clear()

    def add_name(self, path: Path, *, has_content: bool = True) -> None:
        """A name was made that is not durable yet."""
        if self._actor is not None and str(path).startswith(self.root):
            self._names.add(str(path))
            if not has_content:
                self._contents.add(str(path))

    def synced(self, path: str) -> None:
        """A file's content, or the names in a folder, are durable."""
        self._contents.discard(path)
        self._names -= {name for name in self._names if name.rpartition("/")[0] == path}

    @contextmanager
    def wrapped(self) -> Iterator[None]:
        """Calls are numbered while the context lasts."""
        with ExitStack() as stack:
            for owner, name, replacement in self._replacements():
                stack.enter_context(patch.object(owner, name, replacement))
            yield

    def _replacements(self) -> list[tuple[Any, str, Any]]:  # noqa: C901, PLR0915 - one function a call
        disk, call = self, self.call
        mkdir, open_, read_bytes, unlink, exists, stat = (
            getattr(Path, name) for name in ("mkdir", "open", "read_bytes", "unlink", "exists", "stat")
        )
        link, fsync, scandir, open_fd = os.link, os.fsync, os.scandir, os.open
        parquet, parquet_read, row_group = pq.ParquetFile.__init__, pq.ParquetFile.read, pq.ParquetFile.read_row_group
        opened, checkpoint = deltalake.DeltaTable.__init__, deltalake.DeltaTable.create_checkpoint
        load_version = deltalake.DeltaTable.load_as_version

        def making(path: Path, *args: Any, **kwargs: Any) -> None:
            def absent() -> list[Path]:
                return [parent for parent in (path, *path.parents) if not os.path.lexists(parent)]

            def make() -> None:
                made = absent()  # others may have made some while this call waited
                mkdir(path, *args, **kwargs)
                for parent in made:
                    disk.add_name(parent)

            if absent():
                call("mkdir", path, make)

        def opening(path: Path, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            if mode not in ("xb", "wb"):
                return call("open to read", path, lambda: open_(path, mode, *args, **kwargs))

            def open_sink() -> Any:
                file = open_(path, mode, *args, **kwargs)
                disk.add_name(path, has_content=False)
                return file

            return _Sink(disk, path, call("open to write", path, open_sink))

        def linking(source: Any, target: Any) -> None:
            def make_link() -> None:
                with open(source, "rb") as file:  # noqa: PTH123 - not one of the numbered calls
                    content = file.read() if str(target).startswith(disk.root) else b""
                try:
                    link(source, target)
                except FileExistsError:
                    disk.recorder.linked(str(target), content, is_created=False)
                    raise
                disk.recorder.linked(str(target), content, is_created=True)
                # The second name is of the same content, durable or not.
                disk.add_name(Path(target), has_content=str(source) not in disk._contents)

            call("link", target, make_link)

        def syncing(handle: Any) -> None:
            path = str(Path(f"/proc/self/fd/{handle}").readlink())
            # durability is the model's here, and disks need not be waited for
            call("fsync", path, lambda: disk.synced(path)) if f"{path}/".startswith(disk.root) else fsync(handle)

        def parquet_opened(self: Any, source: Any, *args: Any, **kwargs: Any) -> None:
            self.faulty = source
            call("open Parquet", source, lambda: parquet(self, source, *args, **kwargs))

        def delta_opened(self: Any, table_uri: Any, *args: Any, **kwargs: Any) -> None:
            self.faulty = table_uri

            def load_log() -> None:
                self.faulty_key = key = _state_of(str(table_uri), args, kwargs)
                if key in disk.opened:
                    self._storage_options, self._table = None, disk.opened[key]
                else:
                    opened(self, table_uri, *args, **kwargs)
                    disk.opened[key] = self._table

            call("read the log", table_uri, load_log)

        def at_version(self: Any, version: Any) -> None:
            disk.opened.pop(self.faulty_key, None)
            load_version(self, version)

        def checkpointed(self: Any, *args: Any, **kwargs: Any) -> Any:
            hint = Path(self.faulty) / "_delta_log" / "_last_checkpoint"

            def half() -> None:  # the process is gone between the checkpoint and what names it
                before = hint.read_bytes() if hint.exists() else None
                checkpoint(self, *args, **kwargs)
                hint.unlink() if before is None else hint.write_bytes(before)

            return call("checkpoint", self.faulty, lambda: checkpoint(self, *args, **kwargs), half)

        def sending(_: Any, request: requests.PreparedRequest, **_settings: Any) -> requests.Response:
            path = urlsplit(request.url or "").path
            body = cast("str | bytes", request.body or b"")
            content = body.encode() if isinstance(body, str) else body

            def answered() -> requests.Response:
                status, document = answer(disk.catalog, request.method or "", path, None, content)
                response = requests.Response()
                response.status_code, response.request, response.url = status, request, request.url or ""
                response.raw = io.BytesIO(b"" if document is None else json.dumps(document).encode())
                return response

            try:
                name = ASK if request.method in ("GET", "HEAD") else TELL
                return cast("requests.Response", call(name, f"{disk.root}catalog{path}", answered))
            except OSError as error:
                raise requests.ConnectionError(*error.args, request=request) from error

        names = random.Random(self.random.random())

        class Names:
            """In the place of the system's random numbers: a seed repeats its names."""

            def __new__(cls) -> Self:
                return cast("Self", names)

        return [
            (uuid, "uuid4", lambda: uuid.UUID(int=names.getrandbits(128), version=4)),
            (log_files, "SystemRandom", Names),
            (kept, "_KeptHere", disk),
            (Path, "mkdir", making),
            (Path, "open", opening),
            (Path, "read_bytes", lambda path: call("read", path, lambda: read_bytes(path))),
            (Path, "unlink", lambda path, *args, **kw: call("unlink", path, lambda: unlink(path, *args, **kw))),
            (Path, "exists", lambda path: call("stat", path, lambda: exists(path))),
            (Path, "stat", lambda path, **kw: call("stat", path, lambda: stat(path, **kw))),
            (os, "link", linking),
            (os, "fsync", syncing),
            (os, "scandir", lambda path=".": call("list", path, lambda: scandir(path))),
            (os, "open", lambda path, *args, **kw: call("open to read", path, lambda: open_fd(path, *args, **kw))),
            (pq.ParquetFile, "__init__", parquet_opened),
            (
                pq.ParquetFile,
                "read",
                lambda self, *args, **kw: call("read Parquet", self.faulty, lambda: parquet_read(self, *args, **kw)),
            ),
            (
                pq.ParquetFile,
                "read_row_group",
                lambda self, *args, **kw: call("read Parquet", self.faulty, lambda: row_group(self, *args, **kw)),
            ),
            (deltalake.DeltaTable, "__init__", delta_opened),
            (deltalake.DeltaTable, "create_checkpoint", checkpointed),
            (deltalake.DeltaTable, "load_as_version", at_version),
            (requests.adapters.HTTPAdapter, "send", sending),
        ]


def _state_of(path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """What a table that deltalake opens is made from. Raises TableNotFoundError where there is nothing, as it does."""
    try:
        entries = [(entry.name, entry.stat()) for entry in _scandir(f"{path}/_delta_log")]
    except FileNotFoundError:
        raise TableNotFoundError(path) from None
    files = sorted((name, about.st_ino, about.st_size, about.st_mtime_ns) for name, about in entries)
    return path, args, repr(kwargs), *files


_scandir = os.scandir


def _drop(answer: Any) -> None:
    """Closes what a call opened for a process that does not get it."""
    if hasattr(answer, "close"):
        answer.close()


class _Sink:
    """A file that is written; each write is a call, and may be done by half."""

    def __init__(self, disk: Disk, path: Path, file: Any) -> None:
        self._disk = disk
        self._path = path
        self._file = file
        self.mode = file.mode

    @property
    def closed(self) -> bool:
        return bool(self._file.closed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, content: Any) -> Any:
        content = bytes(content)
        half = content[: len(content) // 2]
        return self._disk.call("write", self._path, lambda: self._file.write(content), lambda: self._file.write(half))

    def flush(self) -> None:
        self._file.flush()

    def fileno(self) -> int:
        return int(self._file.fileno())

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        self._file.close()
