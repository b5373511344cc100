"""The recorded lake: tables with DDL, masks, routes, a stop, and one without a key, whose log bronze has."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_jobs.config.model import Pipeline
from tests.lakes.recorded_lake import recorded


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Pipeline]:
    with recorded(tmp_path / "recorded") as (pipeline, _):
        yield pipeline
