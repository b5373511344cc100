"""Files of changes: where they lie, what they have, and how a commit names them."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.delta import change_data, commits, data_files
from spark_jobs.delta.snapshot import new_table, snapshot_of
from tests.spark_jobs.engine.lake_rows import MAPPED

FED = MAPPED | {"delta.enableChangeDataFeed": "true"}


def test_a_commit_names_a_file_of_changes(tmp_path: Path) -> None:
    table = new_table(str(tmp_path), {"id": "INT"}, FED)
    rows = pa.table({"id": pa.array([1], pa.int32())})
    file = data_files.write(table.path, rows, table.schema, table.configuration)
    changes = rows.append_column(change_data.CHANGE_TYPE, pa.array([change_data.INSERT]))
    changed = change_data.write(table.path, changes, table.schema, table.configuration)
    commits.commit(table, adds=[file], changes=[changed])
    # The file has the columns' physical names, and the kind of each change beside them.
    stored = pq.read_table(tmp_path / changed.path)
    assert changed.path.startswith("_change_data/cdc-")
    assert stored.column_names == [table.schema.column("id").physical_name, "_change_type"]
    assert stored.column("_change_type").to_pylist() == ["insert"]
    content = (tmp_path / "_delta_log" / f"{0:020}.json").read_text(encoding="utf-8")
    (action,) = (json.loads(line)["cdc"] for line in content.splitlines() if line.startswith('{"cdc"'))
    assert action == {"path": changed.path, "partitionValues": {}, "size": changed.size, "dataChange": False}
    # It is no file of the table.
    committed = snapshot_of(table.path)
    assert committed is not None
    assert [present.path for present in committed.files] == [file.path]
    assert committed.has_change_data
    assert "changeDataFeed" in (committed.protocol.writer_features or ())
