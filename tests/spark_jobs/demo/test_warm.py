from pathlib import Path

import pytest

from spark_jobs.demo import warm
from spark_jobs.errors import DecodeError


def test_it_decodes_the_recording() -> None:
    assert warm.compile_decoder() > 1000


def test_a_damaged_recording_is_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = warm._LOG.read_bytes()
    monkeypatch.setattr(warm, "_LOG", tmp_path / "mysql-bin.000002")
    warm._LOG.write_bytes(content[:5000] + b"\xff" + content[5001:])
    with pytest.raises(DecodeError):
        warm.compile_decoder()
