"""List of this user's standing sessions, and their end.

Put here: what is measured and refused. Not here: printing (cli/session.py), or the files (folder.py).
"""

import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from spark_jobs.errors import ConfigError, StratalogError
from spark_jobs.runtime.standing.folder import AttachedRun, SessionFolder, Unusable, session_folders

_PATIENCE = 10
"""Seconds for the lock, and for a server's end."""
_ENDING = 30


@dataclass(frozen=True, slots=True)
class StandingSession:
    """One server. Seconds are until now; memory is in bytes, of its JVM and Python workers together."""

    name: str
    pid: int | None
    """Process id of the server; None while it starts."""
    address: str | None
    code: str | None
    spark: str | None
    age: float | None
    idle: float
    """Seconds since a run was attached; 0 while one is."""
    keep: float | None
    memory: int
    runs: list[AttachedRun]
    log: str
    folder: SessionFolder = field(repr=False)

    def as_json(self) -> dict[str, object]:
        """The session's fields as plain values."""
        return {key: value for key, value in asdict(self).items() if key != "folder"}


def sessions() -> list[StandingSession]:
    """All sessions of this user on this machine. Raises ConfigError where their folder is not this user's."""
    try:
        return [_session(folder) for folder in session_folders()]
    except Unusable as error:
        raise ConfigError(str(error)) from error


def stop(session: StandingSession, *, force: bool) -> None:
    """End a session. Raises StratalogError where runs are attached, and ``force`` does not say that they fail."""
    folder = session.folder
    try:
        with folder.locked(time.monotonic() + _PATIENCE):
            runs = folder.runs()
            if runs and not force:
                names = ", ".join(f"{run.command} (process {run.pid})" for run in runs)
                raise StratalogError(
                    f"session {session.name} has runs that are under way: {names}; wait for their end, or stop it "
                    "with --force, and they fail"
                )
            folder.withdraw()
            folder.end(_ENDING)
    except Unusable as error:
        raise StratalogError(str(error)) from error


def _session(folder: SessionFolder) -> StandingSession:
    # Under the lock no run attaches or leaves between the two readings.
    with folder.locked(time.monotonic() + _PATIENCE):
        runs, state, keeper = folder.runs(), folder.state(), folder.keeper()
        last_use = (folder.path / "keeper").stat().st_mtime
    now = time.time()
    return StandingSession(
        name=folder.path.name[:8],
        pid=state.server if state else None,
        address=f"127.0.0.1:{state.port}" if state else None,
        code=state.code if state else None,
        spark=state.spark if state else None,
        age=now - state.began if state else None,
        idle=0.0 if runs else now - last_use,
        keep=state.keep if state else None,
        memory=_memory(keeper),
        runs=runs,
        log=str(folder.log),
        folder=folder,
    )


def _memory(group: int | None) -> int:
    """Bytes of all processes of a session: they are one group, and a worker's shared pages count once."""
    size = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if int(fields[3]) == group:
                size += _proportional(stat.with_name("smaps_rollup"))
        except OSError:  # it ended since
            continue
    return size


def _proportional(rollup: Path) -> int:
    lines = rollup.read_text(encoding="ascii", errors="replace").splitlines()
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:")), 0)
