from pathlib import Path

import pytest

from spark_jobs.bronze.index import read_index
from spark_jobs.log.position import Range
from spark_jobs.silver.timeline import inputs
from spark_jobs.silver.timeline.inputs import first_rows
from tests.binlogs.slicing import bronze_of, rows_at
from tests.binlogs.timelines import ID, NAME, NOTE, OLD, at, definition


def test_a_slice_with_no_row_behind_its_table_map_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    slices = {400: [], 450: [OLD], 700: [definition(ID, NOTE)]}
    index = read_index(*bronze_of(tmp_path / "bronze", [rows_at([(start, "rows", "t") for start in slices])]))
    monkeypatch.setattr(inputs, "definitions_of", lambda _file, start, *_, **__: slices[start])
    parts = [Range(at(10), at(100)), Range(at(300), at(600)), Range(at(600), at(900)), Range(at(440), at(500))]
    assert first_rows(index)(NAME, parts) == {1: OLD, 2: definition(ID, NOTE), 3: OLD}
