"""The folder that a demo leaves: a pipeline.yaml to read and copy, its lake, its log, and a home for Dagster.

Put here: what lies where in it, and starting afresh. Not here: what fills the lake.
"""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spark_jobs.demo.shop import TABLES
from spark_jobs.errors import ConfigError

SOURCE = "shop"
PASSWORD = "STRATALOG_DEMO_PASSWORD"  # noqa: S105 - the name of the variable that holds it
_MARK = "# Written by `stratalog demo`"
_SIDE_FILES = ("tables", "failures", "runs", "endpoints", "catalog")
"""Names of the files that runs write beside pipeline.yaml."""
_KNOWN = frozenset(
    [
        *("pipeline.yaml", *(f"pipeline.{name}.json" for name in _SIDE_FILES)),
        *("lake", "dagster", "binlogs", "next", "exported", "server", "reports", ".lock"),
    ]
)

_PIPELINE = """\
{mark}, which writes it anew each time: copy it to another folder and change it there.
# `stratalog check -c pipeline.yaml --connect` lists whatever is wrong with it.

# Where the tables are kept: a folder, or s3a://bucket/prefix (stratalog docs object-stores).
lake: ./lake

sources:
  {source}:
{origin}
    # earliest, latest, or a position like mysql-bin.000042:1337
    start: earliest

# In order, the last pattern that matches a table decides. Without any: all tables but the system's.
tables:
{tables}

# Rows go to a downstream table of the same name unless a route says otherwise:
# routes:
#   - {{from: "{source}.orders", to: sales.orders}}
"""
_LIVE = """\
    # A live server. ${{...}} is read from the environment, so that no secret stands in this file.
    mysql:
      host: {host}
      port: {port}
      user: {user}
      password: "${{{password}}}\""""
_MOVES = """
    # Another server with the same transactions may answer there: continue with its log, by GTID.
    on_new_server: continue"""
_FILES = """\
    # A folder of binlog files{because}.
    # A live server is written like this:
    #   mysql: {{host: db.example.org, port: 3306, user: repl, password: "${{SHOP_PASSWORD}}"}}
    files: ./binlogs"""


@contextmanager
def alone_in(path: Path) -> Iterator[None]:
    """Context in which a folder, which is made if there is none, is this process's alone.

    Raises ConfigError where it cannot be written, and where another demo is at work in it.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = (path / ".lock").open("w")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror}): name another folder by --dir") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(f"{path}: another demo is at work in it; name another folder by --dir") from None
        yield


class DemoFolder:
    """A demo's folder by its path; nothing is made before ``afresh``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "pipeline.yaml"
        self.lake = path / "lake"
        self.binlogs = path / "binlogs"
        self.next = path / "next"
        self.exported = path / "exported"
        self.server = path / "server"
        self.dagster = path / "dagster"

    @contextmanager
    def afresh(self) -> Iterator[None]:
        """Remove what an earlier demo left; the folder is ours alone inside the ``with`` block.

        Raises ConfigError for a folder with anything in it that no demo has made, and where another demo is at work.
        """
        self._require_ours()
        with alone_in(self.path):
            self._clear()
            self._write_dagster_home()
            yield

    def read_from_server(self, host: str, port: int, user: str, *, moves: bool = False) -> None:
        """Write a pipeline.yaml that names a live server; ``moves``: another one may take over its address."""
        origin = _LIVE.format(host=host, port=port, user=user, password=PASSWORD)
        self._write_config(origin + _MOVES if moves else origin)

    def read_from_files(self, because: str) -> None:
        """Write a pipeline.yaml that names the folder's own binlog files; ``because`` says how they came there."""
        self.binlogs.mkdir(exist_ok=True)
        self._write_config(_FILES.format(because=because))

    def keep_log(self, data: Path, base: str) -> None:
        """Move a stopped server's binlog files into the folder; pipeline.yaml then names them, and no server."""
        self.binlogs.mkdir(exist_ok=True)
        for file in sorted(data.glob(f"{base}.[0-9]*")):
            shutil.move(file, self.binlogs / file.name)
        self.read_from_files(": those that the demo's server wrote, kept when it was stopped")

    def _require_ours(self) -> None:
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise ConfigError(f"{self.path}: is not a folder; name another one by --dir")
        names = {entry.name for entry in self.path.iterdir()}
        if strange := sorted(names - _KNOWN):
            raise ConfigError(
                f"{self.path}: holds {', '.join(strange)}, which no demo has made; the demo removes what is in its"
                " folder, so name an empty one by --dir"
            )
        if names - {".lock"} and not self._is_marked():
            raise ConfigError(f"{self.path}: its pipeline.yaml is not a demo's; name an empty folder by --dir")

    def _is_marked(self) -> bool:
        try:
            return self.config.read_text(encoding="utf-8").startswith(_MARK)
        except (OSError, UnicodeDecodeError):
            return False

    def _clear(self) -> None:
        """pipeline.yaml, by which the folder is known as ours, is removed last."""
        for name in sorted(_KNOWN - {".lock", "pipeline.yaml"}):
            _remove(self.path / name)
        self.config.unlink(missing_ok=True)

    def _write_dagster_home(self) -> None:
        self._write_config(_FILES.format(because=""))
        self.dagster.mkdir()
        shutil.copy(Path(__file__).with_name("dagster.yaml"), self.dagster)

    def _write_config(self, origin: str) -> None:
        listed = "\n".join(f'  - "{pattern}"' for pattern in TABLES)
        text = _PIPELINE.format(mark=_MARK, source=SOURCE, origin=origin, tables=listed)
        self.config.write_text(text, encoding="utf-8")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
