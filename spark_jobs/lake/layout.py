"""Path of each table of a lake: ``bronze/<source>``, ``silver/<source>/<schema>/<table>``, ``downstream/…``.

Put here: names of tables to paths and back. Not here: what is done with a table (table.py).
"""

import re
import uuid
from pathlib import Path

from spark_jobs.config.model import Pipeline
from spark_jobs.config.store import store_of
from spark_jobs.errors import ConfigError, TableStopped, about
from spark_jobs.lake.table import Table
from spark_jobs.storage.store_access import register_store

_NO_FOLDER = re.compile(r"[/\\%#?\x00-\x1f]")


class Lake:
    """The paths under one root: ``bronze/<source>``, ``silver/<source>/<schema>/<table>``, ``downstream/…``."""

    def __init__(self, root: str, *, plain: bool = False) -> None:
        self.root = root.rstrip("/")
        self.plain = plain

    def bronze(self, source: str) -> "Table":
        return self._table("bronze", source)

    def schema(self, source: str) -> "Table":
        """Table of a source's schema history, by table and position."""
        return self._table("schema", source)

    def clock(self, source: str) -> "Table":
        """Transactions of a source's log that count as committed later than they say."""
        return self._table("clock", source)

    def skips(self, source: str) -> "Table":
        """The quarantined events of a source's log, by table."""
        return self._table("skips", source)

    def cascades(self, source: str) -> "Table":
        """Changes that a source's server made by foreign keys and did not log, as they were derived."""
        return self._table("cascades", source)

    def verified(self, source: str) -> "Table":
        """Table of the last comparison of each table with its server."""
        return self._table("verified", source)

    def load(self, source: str, schema: str, table: str) -> "Table":
        """Rows of a table that is being loaded."""
        with about(f"{source}: {schema}.{table}"):
            return self._table("loads", source, schema, table)

    def silver(self, source: str, schema: str, table: str) -> "Table":
        with about(f"{source}: {schema}.{table}"):
            return self._table("silver", source, schema, table)

    def downstream(self, schema: str, table: str) -> "Table":
        with about(f"{schema}.{table}"):
            return self._table("downstream", schema, table)

    def subscriptions(self, source: str) -> str:
        """The folder of the records of a source's consumer groups."""
        return "/".join([self.root, "subscriptions", _folder(source)])

    def published(self) -> "Table":
        return self._table("published")

    def _table(self, *names: str) -> "Table":
        return Table("/".join([self.root, *map(_folder, names)]), self.plain)


def downstream_name(path: str) -> tuple[str, str]:
    """Schema and table of the downstream table at a path."""
    schema, table = path.rsplit("/", 2)[1:]
    return schema, table


def _folder(name: str) -> str:
    """A name as one folder. Raises TableStopped for one that no path holds as it is.

    Such a name would be percent-encoded, but deltalake decodes what looks encoded in a path and then finds no table.
    """
    if _NO_FOLDER.search(name) or name in (".", "..", "_delta_log"):
        raise TableStopped(
            f"{name!r}: a schema or table with / \\ % # ? or a control character in its name, or named like a folder "
            "of Delta's own, has no place in the lake yet; leave it out with a pattern that begins with !"
        )
    return name


def lake_of(pipeline: Pipeline) -> Lake:
    """The lake of a pipeline: its tables by layer, source and name, such as ``downstream("shop", "orders")``.

    Raises ConfigError where a file takes the place of its folder: such a lake would read as an empty one.
    """
    file = no_folder(pipeline.lake)
    if file:
        raise ConfigError({"lake": f"{file} is no folder; name a folder that {pipeline.lake} can be made in"})
    register_store(store_of(pipeline.lake, pipeline.store))
    return Lake(pipeline.lake, plain=pipeline.compat == "plain")


def no_folder(root: str) -> Path | None:
    """Path that is no folder and stands where a local lake's folder, or one above it, is to be; None without one."""
    path = local_path(root)
    if path is None:
        return None
    try:
        nearest = next(
            (parent for parent in (path, *path.parents) if parent.exists() or parent.is_symlink()), path.parent
        )
        return None if nearest.is_dir() else nearest
    except OSError:  # it may not be looked at: whoever reads there says so
        return None


def require_folder(root: str) -> None:
    """Check that a local lake that is not there yet can be made. Raises ConfigError. Nothing is left behind."""
    path = local_path(root)
    if path is None or _is_there(path / "bronze"):
        return
    existing, problem = tried(path)
    if problem:
        raise ConfigError(
            {
                "lake": f"{path} cannot be made: {existing}: {problem}; let the user who runs Stratalog write there, "
                "or name another folder as lake:"
            }
        )


def tried(path: Path) -> tuple[Path, str | None]:
    """The nearest folder above a path that exists, and why nothing can be written there; None where it can be.

    A folder and a file are made in it, and removed again: permissions alone do not tell.
    """
    existing = next((folder for folder in (path, *path.parents) if _is_there(folder)), path)
    trial = existing / trial_name()
    try:
        trial.mkdir()
        try:
            (trial / "file").write_bytes(b"stratalog")
            (trial / "file").unlink()
        finally:
            trial.rmdir()
    except OSError as error:
        return existing, error.strerror
    return existing, None


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # it may not be looked at
        return False


def trial_name() -> str:
    """A name that no lake has."""
    return f".stratalog-check-{uuid.uuid4().hex[:12]}"


def local_path(root: str) -> Path | None:
    """The folder of a lake; None where it is in an object store."""
    path = root.rstrip("/").removeprefix("file://")
    return None if "://" in path else Path(path)
