"""The last run of each source: when, how it ended, how long each layer took; a small file beside pipeline.yaml.

Put here: when the last run was and how it ended. Not here: why, and since when nothing goes through, whichever verb
tried (failures.py); what a run is (run_telemetry.py); the file (source_notes.py).
The lake does not tell it: a run without news commits nothing, and one that fails may not either.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from spark_jobs.config.run_files import RunFile
from spark_jobs.operations.observation.source_notes import read_notes, replace_notes

Status = Literal["running", "succeeded", "stopped", "failed"]
"""``stopped``: it ended, and tables have stopped."""


@dataclass(frozen=True, slots=True)
class LastRun:
    """A source's last run. seconds: by layer. ended: None while it runs, or where it was killed."""

    run: str
    status: Status
    started: str
    ended: str | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)


def read(config: Path) -> dict[str, LastRun]:
    """Last runs by source. A file that cannot be read is left alone, with a warning."""
    return read_notes(RunFile.RUNS.path_for(config), LastRun, "runs")


def note(config: Path, source: str, run: str, status: Status, seconds: Mapping[str, float]) -> None:
    """Keep what is known of a run by now. The durations of a run that is there already are added to.

    A file that cannot be written is a warning, at the end of the run.
    """
    listed = read(config)
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    before = listed.get(source)
    last = before if before and before.run == run else LastRun(run, "running", now)
    ended = None if status == "running" else now
    listed[source] = replace(last, status=status, ended=ended, seconds={**last.seconds, **seconds})
    replace_notes(RunFile.RUNS.path_for(config), listed, logging.WARNING if ended else logging.DEBUG)
