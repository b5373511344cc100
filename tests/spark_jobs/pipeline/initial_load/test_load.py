"""What needs no Spark of a load. Whole loads: tests/pipeline/test_load.py."""

from pathlib import Path

import pytest

from spark_jobs.config.loader import load
from spark_jobs.errors import ConfigError
from spark_jobs.pipeline.initial_load.load import require_server


def test_a_source_of_files_has_no_tables_to_load(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text("lake: ./lake\nsources:\n  archive: {files: ./binlogs}\n")
    with pytest.raises(ConfigError, match=r"sources\.archive: is read from binlog files"):
        require_server(load(path), "archive")
