"""The last run of each source: when, how it ended, how long each layer took; a small file beside pipeline.yaml.

Put here: reading and writing the file. Not here: why runs failed (failures.py), or what a run is (observation.py).
The lake does not tell it: a run without news commits nothing, and one that fails may not either.
"""

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

log = logging.getLogger(__name__)

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


def runs_file(config: Path) -> Path:
    """The file of a pipeline.yaml."""
    return config.with_suffix(".runs.json")


def read(config: Path) -> dict[str, LastRun]:
    """By source. A file that cannot be read is left alone, with a warning."""
    path = runs_file(config)
    try:
        text = path.read_text(encoding="utf-8")
        return {name: LastRun(**fields) for name, fields in json.loads(text).items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        log.warning("%s: not a list of runs, and left alone: %s", path, error)
        return {}


def note(config: Path, source: str, run: str, status: Status, seconds: Mapping[str, float]) -> None:
    """Keeps what is known of a run by now. The durations of a run that is there already are added to.

    A file that cannot be written is a warning, at the end of the run.
    """
    path, listed = runs_file(config), read(config)
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    before = listed.get(source)
    last = before if before and before.run == run else LastRun(run, "running", now)
    ended = None if status == "running" else now
    listed[source] = replace(last, status=status, ended=ended, seconds={**last.seconds, **seconds})
    # Replaced whole, so that a reader never sees half of it.
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        draft.write_text(json.dumps({name: asdict(entry) for name, entry in listed.items()}, indent=1) + "\n", "utf-8")
        draft.replace(path)
    except OSError as error:
        log.log(logging.WARNING if ended else logging.DEBUG, "%s: cannot be written: %s", path, error.strerror)
