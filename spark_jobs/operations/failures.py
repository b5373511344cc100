"""Why the last run of a source failed: a small file beside pipeline.yaml, until a run succeeds.

``status`` shows it. A run that fails leaves nothing in the lake, so that nothing else would tell.

Put here: reading and writing the file. Not here: tables that have stopped, which ``published`` holds.
"""

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from spark_jobs.errors import LostRace, StratalogError
from spark_jobs.text.remedies import advised

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Failure:
    """A source's runs have failed since then, so many; the message is that of the last."""

    since: str
    runs: int
    message: str


def failures_file(config: Path) -> Path:
    """The file of a pipeline.yaml."""
    return config.with_suffix(".failures.json")


def read(config: Path) -> dict[str, Failure]:
    """By source. A file that cannot be read is left alone, with a warning."""
    path = failures_file(config)
    if not path.exists():
        return {}
    try:
        return {name: Failure(**fields) for name, fields in json.loads(path.read_text(encoding="utf-8")).items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        log.warning("%s: not a list of failures, and left alone: %s", path, error)
        return {}


@contextmanager
def noted(config: Path, source: str, *, is_last: bool) -> Iterator[None]:
    """Keeps why work on a source failed.

    is_last: the work ends a run, so that its success removes what was kept before. A race that was lost to another
    writer is no failure.
    """
    try:
        yield
    except LostRace:
        raise
    except StratalogError as error:
        before = read(config).get(source)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        _write(
            config, source, Failure(before.since if before else now, before.runs + 1 if before else 1, advised(error))
        )
        raise
    if is_last:
        _write(config, source, None)


def _write(config: Path, source: str, failure: Failure | None) -> None:
    """Replaces the file whole, so that a reader never sees half of it. One that cannot be written is a warning."""
    path, failures = failures_file(config), read(config)
    if failure is None and source not in failures:
        return
    remaining = {name: failure for name, failure in failures.items() if name != source} | (
        {source: failure} if failure else {}
    )
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        draft.write_text(
            json.dumps({name: asdict(failure) for name, failure in remaining.items()}, indent=1) + "\n", "utf-8"
        )
        draft.replace(path)
    except OSError as error:
        log.warning("%s: cannot be written: %s", path, error.strerror)
