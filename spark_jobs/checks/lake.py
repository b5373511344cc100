"""Checks of the lake: whether it can be made and written.

Put here: trying that without leaving anything. Not here: what a run writes (spark_jobs/lake/table.py).
"""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from deltalake.fs import DeltaStorageHandler

from spark_jobs.checks import Check, ok, problem, run_checks, warning
from spark_jobs.lake.layout import local_path, no_folder
from spark_jobs.lake.table import object_store

_STORES = ("s3://", "abfss://", "abfs://", "az://", "gs://")
"""Object stores that are written without Spark."""


def check_lake(root: str) -> Iterator[Check]:
    """The results about a lake's root."""
    return run_checks(root, CHECKS)


def writable(root: str) -> Iterator[Check]:
    """Writes a small file where the lake is, or where its folder would be made, and removes it again."""
    path = object_store(root.rstrip("/"))
    local = local_path(root)
    if local:
        yield _local(local)
    elif path.startswith(_STORES):
        yield _remote(path)
    else:
        yield warning("writable", f"{root}: not tried", "only Spark can write there: the first run shows it")


def _local(path: Path) -> Check:
    file = no_folder(str(path))
    if file:
        return problem("writable", f"{file} is no folder", f"name a folder that {path} can be made in, as lake:")
    existing = next((folder for folder in (path, *path.parents) if folder.exists()), path)
    trial = existing / _name()
    try:
        trial.mkdir()
        try:
            (trial / "file").write_bytes(b"stratalog")
            (trial / "file").unlink()
        finally:
            trial.rmdir()
    except OSError as error:
        return problem(
            "writable",
            f"{existing}: {error.strerror}",
            "let the user who runs Stratalog write there, or name another folder as lake:",
        )
    return ok("writable", str(path) if existing == path else f"{path}, which a run makes")


def _remote(path: str) -> Check:
    name = _name()
    try:
        store = DeltaStorageHandler(path)
        with store.open_output_stream(name) as stream:
            stream.write(b"stratalog")
        store.delete_file(name)
    except Exception as error:  # noqa: BLE001 - deltalake raises bare exceptions of many kinds for what a store answers
        text = " ".join(str(error).split())
        return problem(
            "writable",
            f"{path}: {text[:300]}",
            "check the credentials and the endpoint that the environment gives (AWS_…, AZURE_…, GOOGLE_…)",
        )
    return ok("writable", f"{path}, by this process; Spark has credentials of its own")


def _name() -> str:
    return f".stratalog-check-{uuid.uuid4().hex[:12]}"


CHECKS: tuple[Callable[[str], Iterator[Check]], ...] = (writable,)
