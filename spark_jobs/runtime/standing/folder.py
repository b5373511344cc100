"""Files by which runs and keepers of standing sessions know of each other, in a folder of this user.

Put here: the files, their locks, and what of them is believed. Not here: starting and ending (attach.py, keeper.py).

Each session has a folder, named by what its server was started with (``attach.py::key_of``):

    lock            held by whoever looks, attaches or ends; for moments
    keeper          held by the keeper for as long as it lives; its process id
    state.json      of a server that listens: process, port, times
    token           which every call to the server has to carry
    runs/           a file for each run that is attached, held by it for as long as it is
    log, log.1      what the server said; the older half
    scratch/        Spark's temporary files

Locks are ``flock``: they end with the process that has them, however that ends. No secret is in a name
or in state.json.
"""

import fcntl
import json
import os
import signal
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

IS_SUPPORTED = sys.platform == "linux"
"""Linux's own means to know who listens at a port, and that a server ends with its keeper."""
LOG_BYTES = 1 << 20
"""Bytes of each of the two files of a log, at most."""
_PRIVATE = 0o700
_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_POLL = 0.05
_LISTENING = "0A"


class Unusable(Exception):
    """A standing session cannot be had; the text says why, and what would help."""


@dataclass(frozen=True, slots=True)
class State:
    """A server that listens. Times are seconds since 1970."""

    server: int
    """Process id of the server."""
    port: int
    began: float
    keep: float
    """Seconds without a run after which it ends."""
    code: str
    """The version of Stratalog with a sum over its code."""
    spark: str
    """The version of Spark."""


@dataclass(frozen=True, slots=True)
class AttachedRun:
    """A run that has the server now."""

    pid: int
    since: float
    command: str


def sessions_root() -> Path:
    """The folder of this user's sessions, made where it is missing. Raises Unusable where others can use it."""
    root = Path(tempfile.gettempdir(), f"stratalog-{os.getuid()}")
    try:
        root.mkdir(_PRIVATE, exist_ok=True)
        require_private(root)
    except OSError as error:
        raise Unusable(f"{root}: {error.strerror or error}") from error
    return root


def require_private(path: Path) -> None:
    """Check that a file or folder is this user's, closed to others, and no link. Raises Unusable."""
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode) or status.st_uid != os.getuid():
        raise Unusable(f"{path} belongs to another user or is a link; remove it, or set TMPDIR to a folder of your own")
    if status.st_mode & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        raise Unusable(f"{path} has mode {mode:o}, so that other users reach it; remove it")


@dataclass(frozen=True, slots=True)
class SessionFolder:
    """The folder of one session."""

    path: Path

    @property
    def log(self) -> Path:
        return self.path / "log"

    @property
    def scratch(self) -> Path:
        return self.path / "scratch"

    @contextmanager
    def locked(self, until: float) -> Iterator[None]:
        """Context in which nobody else looks, attaches or ends.

        until: by ``time.monotonic``. Raises Unusable where somebody has the lock for longer.
        """
        with self._opened("lock") as descriptor:
            while not _is_taken(descriptor):
                if time.monotonic() >= until:
                    raise Unusable(f"a process that does not continue has {self.path / 'lock'}; end it")
                time.sleep(_POLL)
            yield

    def keeper_lock(self) -> int | None:
        """A descriptor that holds the keeper's lock, to be handed to one; None where a keeper lives."""
        descriptor = os.open(self.path / "keeper", _OPEN, 0o600)
        if _is_taken(descriptor):
            os.ftruncate(descriptor, 0)
            return descriptor
        os.close(descriptor)
        return None

    def has_keeper(self) -> bool:
        with self._opened("keeper") as descriptor:
            return not _is_taken(descriptor)

    def keeper(self) -> int | None:
        """The process id of the keeper that lives, which leads the group of all processes of the session."""
        text = (self.path / "keeper").read_text(encoding="ascii") if self.has_keeper() else ""
        return int(text) if text else None

    def state(self) -> State | None:
        """State that the keeper wrote once the server listened; None before, and from its end on. Raises Unusable."""
        path = self.path / "state.json"
        try:
            require_private(path)
            return State(**json.loads(path.read_bytes()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):  # half a file, or another version's
            return None

    def token(self) -> str:
        """The secret of the session. Raises Unusable if others may read the file, OSError if there is none."""
        path = self.path / "token"
        require_private(path)
        return path.read_text(encoding="ascii")

    def publish(self, state: State, token: str) -> None:
        """Let runs know of a server that listens."""
        _write_private(self.path / "token", token)
        _write_private(self.path / "state.json", json.dumps(asdict(state)))

    def withdraw(self) -> None:
        """Withdraw the session, so that no run attaches from now on. The caller has the lock."""
        (self.path / "state.json").unlink(missing_ok=True)
        (self.path / "token").unlink(missing_ok=True)

    def attach(self) -> int:
        """A descriptor that says, while it is open, that this process has the server. The caller has the lock."""
        folder = self.path / "runs"
        folder.mkdir(_PRIVATE, exist_ok=True)
        path = folder / f"{os.getpid()}-{time.time_ns()}"
        descriptor = os.open(path, _OPEN | os.O_EXCL, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            run = AttachedRun(os.getpid(), time.time(), _command())
            os.write(descriptor, json.dumps(asdict(run)).encode())
        except OSError:
            os.close(descriptor)
            path.unlink(missing_ok=True)
            raise
        return descriptor

    def runs(self) -> list[AttachedRun]:
        """The runs that are attached; files of others are removed. The caller has the lock."""
        attached = []
        for path in sorted(self.path.glob("runs/*")):
            with suppress(FileNotFoundError, ValueError), path.open("rb") as file:
                if _is_taken(file.fileno()):
                    path.unlink()
                else:
                    attached.append(AttachedRun(**json.loads(file.read())))
        return attached

    def end(self, patience: float) -> None:
        """End a keeper and its server: first as they like, then at once. The caller has withdrawn the state."""
        keeper = self.keeper()
        if keeper is None:
            return
        with suppress(ProcessLookupError):
            os.kill(keeper, signal.SIGTERM)
        until = time.monotonic() + patience
        while self.has_keeper() and time.monotonic() < until:
            time.sleep(_POLL)
        if self.has_keeper():
            with suppress(ProcessLookupError):
                os.killpg(keeper, signal.SIGKILL)
            while self.has_keeper():
                time.sleep(_POLL)

    @contextmanager
    def _opened(self, name: str) -> Iterator[int]:
        descriptor = os.open(self.path / name, _OPEN, 0o600)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def session_folder(name: str) -> SessionFolder:
    """The folder of the session with this name, made where it is missing. Raises Unusable."""
    path = sessions_root() / name
    try:
        path.mkdir(_PRIVATE, exist_ok=True)
        require_private(path)
    except OSError as error:
        raise Unusable(f"{path}: {error.strerror or error}") from error
    return SessionFolder(path)


def session_folders() -> list[SessionFolder]:
    """The folders of this user's sessions that have a living keeper. Raises Unusable."""
    paths = [path for path in sorted(sessions_root().iterdir()) if path.is_dir() and not path.is_symlink()]
    return [folder for folder in map(SessionFolder, paths) if folder.has_keeper()]


def is_listening(pid: int, port: int) -> bool:
    """True if a process of this user is who listens at a port of 127.0.0.1: another may have taken it over."""
    try:
        descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:  # it ended, or is another user's
        return False
    sockets = set()
    for descriptor in descriptors:
        with suppress(OSError):  # closed since
            sockets.add(str(descriptor.readlink()))
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                is_port = int(fields[1].rpartition(":")[2], 16) == port
                if is_port and fields[3] == _LISTENING and f"socket:[{fields[9]}]" in sockets:
                    return True
    return False


def _is_taken(descriptor: int) -> bool:
    """Take a lock, if nobody has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write_private(path: Path, text: str) -> None:
    """Replace a file, which this user alone can read."""
    half = path.with_name(f".{path.name}")
    half.unlink(missing_ok=True)
    with os.fdopen(os.open(half, _OPEN | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(text)
    half.replace(path)


def _command() -> str:
    """Command of this process in two words, without its options: they are of no use to others, and may be secret."""
    verb = [word for word in sys.argv[1:2] if word.isalpha()]
    program = Path(sys.argv[0]).name
    return " ".join(["stratalog" if program in {"__main__.py", "stratalog"} else program, *verb])
