"""One table's rows of keys: counted, and its older files with them. Whole forgets: tests/pipeline/test_forget.py."""

from pathlib import Path

import pytest

from spark_jobs.delta import commits, data_files
from spark_jobs.errors import LakeError
from spark_jobs.operations.forgetting.keys import ForgottenKeys
from spark_jobs.operations.forgetting.lake_rows import HeldRows, files_that_hold
from tests.spark_jobs.delta.tables import append, begin, newest, rows

KEYS = ForgottenKeys(("key",), ((5,), (205,)))


def test_rows_of_the_newest_version_and_older_files(tmp_path: Path) -> None:
    first = append(append(begin(str(tmp_path / "t")), range(10)), range(100, 110))
    held_rows = HeldRows.of(first, KEYS)
    assert (len(held_rows.files), held_rows.rows, held_rows.marked) == (1, 1, 0)
    assert files_that_hold(first, KEYS) == []
    file = data_files.write(first.path, rows(first.schema, range(5)), first.schema, first.configuration)
    second = newest(first.path, commits.commit(first, adds=[file], removes=held_rows.files))
    assert HeldRows.of(second, KEYS).files == ()
    assert [str(old) for old in files_that_hold(second, KEYS)] == [str(held_rows.files[0].location(first.path))]


def test_a_file_that_nobody_can_read_is_named(tmp_path: Path) -> None:
    table = append(begin(str(tmp_path / "t")), range(10))
    Path(table.path, "part-x.parquet").write_bytes(b"none")
    with pytest.raises(LakeError, match=r"part-x\.parquet: a file that no version names cannot be read"):
        files_that_hold(table, KEYS)
