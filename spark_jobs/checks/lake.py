"""Checks of the lake: it can be created and written.

Put here: trying that without leaving anything. Not here: what a run writes (spark_jobs/lake/table.py).
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from spark_jobs.checks import Check, ok, problem, run_checks, warning
from spark_jobs.errors import ConfigError
from spark_jobs.lake.layout import local_path, no_folder, trial_name, tried
from spark_jobs.storage.files import is_stored, names, reason
from spark_jobs.storage.objects import ObjectPath, create
from spark_jobs.storage.store_access import last_credential


def check_lake(root: str) -> Iterator[Check]:
    """The results about a lake's root."""
    return run_checks(root, CHECKS)


def writable(root: str) -> Iterator[Check]:
    """Write a small file where the lake is, or where its folder would be made, and remove it again."""
    local = local_path(root)
    if local:
        yield _local(local)
    elif is_stored(root):
        yield _remote(ObjectPath.parse(root))
    else:
        yield warning("writable", f"{root}: not tried", "only Spark can write there: the first run shows it")


def _local(path: Path) -> Check:
    """Make a folder and a file in the nearest folder that exists, and remove them again."""
    # A file in the place of a folder cannot be cured by permissions.
    file = no_folder(str(path))
    if file:
        return problem("writable", f"{file} is no folder", f"name a folder that {path} can be made in, as lake:")
    existing, reason_text = tried(path)
    if reason_text:
        return problem(
            "writable",
            f"{existing}: {reason_text}",
            "let the user who runs Stratalog write there, or name another folder as lake:",
        )
    return ok("writable", str(path) if existing == path else f"{path}; a run creates it")


def _remote(lake: ObjectPath) -> Check:
    """Create an object twice, list, read and remove it: what a run, and maintenance, need of a store."""
    # Two creations of one name: the store has to refuse the second one.
    trial = lake / trial_name()
    try:
        names(lake)
        is_exclusive = create(trial, b"first") and not create(trial, b"second")
        trial.read_bytes()
        trial.unlink()
        is_left = trial.exists()
    except OSError as error:
        problem_text, _, remedy = reason(error).partition("; ")
        remedy = remedy or "check store: in the configuration, and the network"
        return problem("writable", f"{lake}: {problem_text}", remedy)
    except ConfigError as error:
        problem_text, _, remedy = str(error).partition("; ")
        return problem("writable", problem_text, remedy or "correct store: in the configuration")
    # Both answers are right only in a store with conditional writes and consistent listings.
    if not is_exclusive:
        return problem(
            "writable",
            f"{lake}: the store overwrites objects in spite of If-None-Match",
            "use a store with conditional writes: two writers could lose each other's commits",
        )
    if is_left:
        return problem("writable", f"{lake}: an object is there after its removal", "use a store that is consistent")
    kind, origin = last_credential(lake.root) or ("", "")
    return ok("writable", f"{lake}, by conditional puts, with the {kind} of {origin}")


CHECKS: tuple[Callable[[str], Iterator[Check]], ...] = (writable,)
