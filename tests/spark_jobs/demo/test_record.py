from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spark_jobs.demo.record import record
from spark_jobs.demo.recorded import EXPECTED, recorded_files

pytestmark = pytest.mark.mysql


def test_a_recording_made_anew_is_like_the_one_that_is_shipped(tmp_path: Path) -> None:
    record(tmp_path)
    assert [file.name for file in sorted(tmp_path.glob("mysql-bin.*"))] == [file.name for file in recorded_files()]
    for shipped in EXPECTED.iterdir():
        recorded, original = pq.read_table(tmp_path / "expected" / shipped.name), pq.read_table(shipped)
        assert recorded.schema.equals(original.schema, check_metadata=True)
        assert recorded.num_rows == original.num_rows
