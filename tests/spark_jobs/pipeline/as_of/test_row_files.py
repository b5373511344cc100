import json
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from spark_jobs.config.model import Pipeline
from spark_jobs.errors import ConfigError, StratalogError
from spark_jobs.pipeline.as_of import row_files
from spark_jobs.pipeline.as_of.api import as_of
from spark_jobs.pipeline.as_of.row_files import target_of, write_files
from spark_jobs.pipeline.as_of.table_rows import QueryRows
from spark_jobs.pipeline.as_of.tables_at import tables_at

AT = "mysql-bin.000002:4320"


def file_of(pipeline: Pipeline, table: str, form: str, folder: Path) -> Path:
    with tables_at(pipeline, "shop", [table], AT) as source_at:
        path, count = write_files(source_at.tables[0].selection(), form, folder)
    assert count == len(as_of(pipeline, table, AT))
    assert isinstance(path, Path)
    return path


def test_files_have_the_rows_of_the_table(pipeline: Pipeline, tmp_path: Path) -> None:
    truth = as_of(pipeline, "shop.goods", AT)
    path = file_of(pipeline, "shop.goods", "parquet", tmp_path / "parquet")
    assert path.name == "shop.goods.parquet"
    assert pq.read_table(path).sort_by("id") == truth
    path = file_of(pipeline, "shop.goods", "delta", tmp_path / "delta")
    assert deltalake.DeltaTable(str(path)).to_pyarrow_table().sort_by("id").to_pylist() == truth.to_pylist()
    path = file_of(pipeline, "shop.goods", "jsonl", tmp_path / "jsonl")
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert sorted(lines, key=lambda row: int(row["id"])) == truth.to_pylist()
    path = file_of(pipeline, "shop.goods", "csv", tmp_path / "csv")
    assert [file.name for file in path.parent.iterdir()] == ["shop.goods.csv"], "no part is left"
    texts = pa_csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    assert pa_csv.read_csv(path, convert_options=texts).sort_by("id").to_pylist() == truth.to_pylist()


def test_values_are_written_as_in_changes(pipeline: Pipeline, tmp_path: Path) -> None:
    path = file_of(pipeline, "shop.orders", "jsonl", tmp_path)
    first = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
    assert (first["id"], first["_total_until_2_3332"]) == (1, "10.00")
    assert first["placed"] == "2026-01-01 10:00:00.125000"


def test_what_is_no_target(pipeline: Pipeline, tmp_path: Path) -> None:
    lake = pipeline.path.parent / "lake"
    (tmp_path / "file").write_text("x")
    for text, problem in (
        (str(lake / "downstream" / "then"), "is of the lake"),
        (str(lake.parent), "is of the lake"),
        ("s3a://bucket:80/x", "must name a bucket"),
        ("file:/x", "name a folder of this machine, or one as s3a://bucket/prefix"),
        (str(Path(__file__).parent), "is not empty"),
        (str(tmp_path / "file"), "is not empty"),
    ):
        with pytest.raises(ConfigError, match=problem):
            target_of(text, pipeline)
    assert target_of(str(tmp_path / "new"), pipeline) == tmp_path / "new"
    (tmp_path / "made").mkdir()
    assert target_of(str(tmp_path / "made"), pipeline) == tmp_path / "made"
    with pytest.raises(StratalogError, match="cannot be written"):
        file_of(pipeline, "shop.goods", "csv", tmp_path / "file" / "below")


def test_a_lake_on_a_store_holds_no_target(pipeline: Pipeline) -> None:
    pipeline = pipeline.model_copy(update={"lake": "s3a://bucket/lake"})
    for text in ("s3://bucket/lake", "s3a://bucket/lake/then", "s3a://bucket"):
        with pytest.raises(ConfigError, match="is of the lake"):
            target_of(text, pipeline)


@pytest.mark.parametrize("size, files", [(1, 3), (1 << 20, 1)])
def test_a_delta_table_has_as_many_files_as_its_rows_take(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, files: int
) -> None:
    """Rows come a row group at a time; what is in memory at once are those of a file."""
    truth = as_of(pipeline, "shop.goods", AT)
    monkeypatch.setattr(row_files, "_FILE_BYTES", size)
    monkeypatch.setattr(QueryRows, "batches", lambda _: iter([truth.slice(at, 1) for at in range(3)]))
    with tables_at(pipeline, "shop", ["shop.goods"], AT) as source_at:
        path, count = write_files(source_at.tables[0].selection(), "delta", tmp_path)
    table = deltalake.DeltaTable(str(path))
    assert (count, len(table.file_uris())) == (3, files)
    assert table.to_pyarrow_table().sort_by("id").to_pylist() == truth.to_pylist()


def test_a_table_without_rows_has_columns(pipeline: Pipeline, tmp_path: Path) -> None:
    with tables_at(pipeline, "shop", ["shop.visits_2"], "mysql-bin.000001:3000") as source_at:
        selection = source_at.tables[0].selection()
        for form in ("csv", "parquet", "delta", "jsonl"):
            assert write_files(selection, form, tmp_path / form)[1] == 0
    assert pq.read_schema(tmp_path / "parquet" / "shop.visits_2.parquet").names == ["id", "n"]
    assert deltalake.DeltaTable(str(tmp_path / "delta" / "shop" / "visits_2")).to_pyarrow_table().num_rows == 0
    assert isinstance(selection.table(), pa.Table)
