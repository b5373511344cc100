"""Notes about sources: a small JSON file beside pipeline.yaml, with an object per source.

Put here: reading one and replacing it. Not here: what is kept (runs.py, failures.py).
"""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from spark_jobs.text.replaced import replace_text

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

log = logging.getLogger(__name__)

Note = TypeVar("Note")


def read_notes(path: Path, make: Callable[..., Note], kind: str) -> dict[str, Note]:
    """Notes by source. A file that cannot be read is left alone, with a warning that says what it should be."""
    try:
        entries: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        return {name: make(**fields) for name, fields in entries.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        log.warning("%s: not a list of %s, and left alone: %s", path, kind, error)
        return {}


def replace_notes(path: Path, notes: "Mapping[str, DataclassInstance]", level: int = logging.WARNING) -> None:
    """Replace the file whole, so that a reader never sees half of it. One that cannot be written is a log line."""
    try:
        replace_text(path, json.dumps({name: asdict(note) for name, note in notes.items()}, indent=1) + "\n")
    except OSError as error:
        log.log(level, "%s: cannot be written: %s", path, error.strerror)
