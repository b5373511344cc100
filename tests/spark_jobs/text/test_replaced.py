import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spark_jobs.text.replaced import replace_text


@contextmanager
def little_room(size: int) -> Iterator[None]:
    """No file of this process may get longer, as on a disk that is full."""
    limits, before = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)


def test_a_text_without_room_leaves_the_one_before_and_nothing_beside(tmp_path: Path) -> None:
    file = tmp_path / "notes.json"
    replace_text(file, "before")
    with little_room(10), pytest.raises(OSError, match="File too large"):
        replace_text(file, "x" * 20_000)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.json"]
    assert file.read_text() == "before"
    replace_text(file, "after")
    assert file.read_text() == "after"
