from pathlib import Path

import pyarrow as pa

from spark_jobs.delta import commits, data_files, deletion_vectors
from spark_jobs.delta.snapshot import DELETION_VECTORS, Snapshot, new_table, snapshot_of
from spark_jobs.delta.version_copy import copy_version, is_readable


def table_of(path: Path) -> Snapshot:
    """Three versions: two files, a deletion vector for the first, a file row."""
    from pyroaring import BitMap64

    design = new_table(str(path), {"id": "INT"}, {DELETION_VECTORS: "true"})
    (path / "_delta_log").mkdir(parents=True)
    for start in (0, 10):
        rows = pa.table({"id": pa.array(range(start, start + 3), pa.int32())})
        file = data_files.write(str(path), rows, design.schema, design.configuration)
        commits.commit(snapshot_of(str(path)) or design, adds=[file])
    now = snapshot_of(str(path))
    assert now
    vectors = deletion_vectors.write(str(path), [BitMap64([1])])
    commits.commit(now, dv_updates=[(now.files[0], vectors[0])])
    newest = snapshot_of(str(path))
    assert newest
    return newest


def ids(version: Snapshot) -> list[int]:
    found_ids: list[int] = []
    for file in version.files:
        rows = data_files.read_columns(version.path, file, ["id"], version.schema)
        living = deletion_vectors.living_rows_mask(version.path, file.deletion_vector, len(rows))
        found_ids += rows.filter(pa.array(living)).column(0).to_pylist()
    return sorted(found_ids)


def test_a_copy_is_read_and_committed_upon_and_the_table_stays(tmp_path: Path) -> None:
    newest = table_of(tmp_path / "table")
    for version, rows in ((1, [0, 1, 2, 10, 11, 12]), (2, [0, 2, 10, 11, 12])):
        origin, folder = snapshot_of(newest.path, version), tmp_path / f"copy {version}"
        assert origin
        copy_version(origin, folder)
        copied = snapshot_of(str(folder))
        assert copied
        assert (copied.version, ids(copied)) == (version, rows)
        row = pa.table({"id": pa.array([99], pa.int32())})
        file = data_files.write(str(folder), row, copied.schema, copied.configuration)
        commits.commit(copied, adds=[file], removes=[copied.files[0]])
    assert snapshot_of(newest.path) == newest
    assert ids(newest) == [0, 2, 10, 11, 12]


def test_a_version_whose_files_are_gone_is_not_readable(tmp_path: Path) -> None:
    newest = table_of(tmp_path / "table")
    assert is_readable(newest)
    next((tmp_path / "table").glob("deletion_vector*.bin")).unlink()
    assert not is_readable(newest)
    before = snapshot_of(newest.path, 1)
    assert before
    assert is_readable(before)
