from pathlib import Path
from typing import Any

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.config.loader import from_keys
from spark_jobs.config.model import Pipeline
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.table import Table
from spark_jobs.operations.observation.lineage import _input_datasets, _stored_dataset, datasets_in_scope, datasets_of
from spark_jobs.telemetry.openlineage import Dataset

NAMES = [TableName("shop", "a"), TableName("shop", "b")]


def pipeline_of(folder: Path, **source: Any) -> Pipeline:
    return from_keys({"lake": "./lake", "sources": {"shop": source}}, folder / "pipeline.yaml")


def test_tables_of_a_server_are_by_host_and_name(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path, mysql={"host": "db.internal", "user": "u", "password": "p"})
    assert _input_datasets(pipeline, "shop", NAMES) == [
        Dataset("mysql://db.internal:3306", "shop.a"),
        Dataset("mysql://db.internal:3306", "shop.b"),
    ]


def test_of_several_endpoints_the_first_names_the_tables(tmp_path: Path) -> None:
    endpoints = [{"host": "one", "port": 3307}, {"host": "two"}]
    pipeline = pipeline_of(tmp_path, mysql={"user": "u"}, endpoints=endpoints)
    assert _input_datasets(pipeline, "shop", NAMES[:1]) == [Dataset("mysql://one:3307", "shop.a")]


def test_a_folder_of_files_is_one_dataset(tmp_path: Path) -> None:
    assert _input_datasets(pipeline_of(tmp_path, files="./binlogs"), "shop", NAMES) == [
        Dataset("file", f"{tmp_path}/binlogs")
    ]


@pytest.mark.parametrize(
    "path, dataset",
    [
        ("/lake/bronze/shop", Dataset("file", "/lake/bronze/shop")),
        ("s3a://bucket/lake/bronze/shop", Dataset("s3://bucket", "lake/bronze/shop")),
        ("hdfs://namenode:8020/lake", Dataset("hdfs://namenode:8020", "lake")),
    ],
)
def test_tables_of_the_lake_are_by_path(path: str, dataset: Dataset) -> None:
    assert _stored_dataset(Table(path, plain=False)) == dataset


def test_an_empty_lake_has_bronze_to_write(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path, files="./binlogs")
    inputs, outputs = datasets_in_scope(pipeline, lake_of(pipeline), "shop")
    assert (inputs, [dataset.name for dataset in outputs]) == (
        [Dataset("file", f"{tmp_path}/binlogs")],
        [f"{tmp_path}/lake/bronze/shop"],
    )
    assert datasets_of(pipeline, lake_of(pipeline), "shop", None) == ([], [])
