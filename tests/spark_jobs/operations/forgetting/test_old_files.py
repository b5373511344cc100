"""Parquet files that the newest version does not name."""

from pathlib import Path

from spark_jobs.delta import commits, data_files
from spark_jobs.operations.forgetting.old_files import unnamed_files
from tests.spark_jobs.delta.tables import append, begin, newest, rows


def test_files_of_older_versions_of_changes_and_of_no_commit(tmp_path: Path) -> None:
    first = append(begin(str(tmp_path / "t")), range(10))
    assert [*unnamed_files(first)] == []
    file = data_files.write(first.path, rows(first.schema, range(3)), first.schema, first.configuration)
    second = newest(first.path, commits.commit(first, adds=[file], removes=first.files))
    orphan = data_files.write(first.path, rows(first.schema, [7]), first.schema, first.configuration)
    changes = Path(first.path, "_change_data", "cdc.parquet")
    changes.parent.mkdir()
    changes.write_bytes(b"")
    commits.write_checkpoint(second.path, second.version)
    old = {str(file.location(first.path)) for file in (*first.files, orphan)} | {str(changes)}
    assert {str(file) for file in unnamed_files(second)} == old
