"""Reason why the last run of a source failed: a small file beside pipeline.yaml, until a run succeeds.

``status`` shows it. A run that fails leaves nothing in the lake, so that nothing else would tell.

Put here: why, since when and how often. Not here: when runs were (runs.py), the file (source_notes.py), tables that
have stopped, which ``published`` holds.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from spark_jobs.config.run_files import RunFile
from spark_jobs.errors import LostRace, StratalogError
from spark_jobs.operations.observation.source_notes import read_notes, replace_notes
from spark_jobs.text.remedies import advised


@dataclass(frozen=True, slots=True)
class Failure:
    """A source's runs have failed since then, so many; the message is that of the last."""

    since: str
    runs: int
    message: str


def read(config: Path) -> dict[str, Failure]:
    """Failures by source. A file that cannot be read is left alone, with a warning."""
    return read_notes(RunFile.FAILURES.path_for(config), Failure, "failures")


@contextmanager
def noted(config: Path, source: str, *, is_last: bool) -> Iterator[None]:
    """Keep why work on a source failed.

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
        _write_failure(
            config, source, Failure(before.since if before else now, before.runs + 1 if before else 1, advised(error))
        )
        raise
    if is_last:
        _write_failure(config, source, None)


def _write_failure(config: Path, source: str, failure: Failure | None) -> None:
    """Replace what is known of a source's failures; None where it has none any more."""
    failures = read(config)
    if failure is None and source not in failures:
        return
    remaining = {name: failure for name, failure in failures.items() if name != source} | (
        {source: failure} if failure else {}
    )
    replace_notes(RunFile.FAILURES.path_for(config), remaining)
