import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.demo.recorded import EXPECTED, LOGS, compare_with_recording, recorded_files, run_recorded
from spark_jobs.demo.report import DemoReport
from spark_jobs.lake.layout import lake_of
from spark_jobs.pipeline.run import run_source


def test_the_recording_is_whole_and_small() -> None:
    assert [file.name for file in recorded_files()] == [f"mysql-bin.00000{number}" for number in (1, 2, 3, 4)]
    assert {file.stem for file in EXPECTED.iterdir()} == {"carts", "customers", "order_lines", "orders", "products"}
    assert sum(file.stat().st_size for file in LOGS.rglob("*") if file.is_file()) < 1_500_000


@pytest.fixture(scope="module")
def demo(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DemoReport:
    return run_recorded(tmp_path_factory.mktemp("recorded") / "demo")


@pytest.fixture(scope="module")
def pipeline(demo: DemoReport) -> Pipeline:
    return load(demo.folder.config)


@pytest.mark.spark
@pytest.mark.long
def test_every_row_is_as_recorded(demo: DemoReport) -> None:
    assert demo.equal, demo.text()
    assert demo.totals.runs == 2
    assert sum(comparison.rows for comparison in demo.compared.values()) > 1_500


TAMPERED = {
    "orders": ("UPDATE {} SET total = total + 0.01 WHERE id = 3", "different: id Decimal('3'): total is "),
    "carts": ("UPDATE {} SET code = upper(code) WHERE code = 'cart-1eef'", "missing: code 'cart-1eef'"),
    "products": ("UPDATE {} SET _raw = NULL WHERE id = 9000001", "_raw is None and should be "),
    "customers": ("DELETE FROM {} WHERE id = 3", "missing: id 3"),
}


@pytest.mark.spark
@pytest.mark.long
def test_what_is_changed_behind_its_back_is_found(spark: SparkSession, demo: DemoReport, tmp_path: Path) -> None:
    shutil.copytree(demo.folder.path, tmp_path / "copy")
    pipeline = load(tmp_path / "copy" / "pipeline.yaml")
    for table, (statement, _) in TAMPERED.items():
        spark.sql(statement.format(lake_of(pipeline).downstream("shop", table).sql))
    comparisons = {name.table: comparison for name, comparison in compare_with_recording(pipeline).items()}
    assert {table for table, comparison in comparisons.items() if not comparison.is_equal} == set(TAMPERED)
    for table, (_, message) in TAMPERED.items():
        assert any(message in line for line in comparisons[table].samples), comparisons[table]


@pytest.mark.spark
@pytest.mark.long
def test_one_more_file_moves_the_lake_on(spark: SparkSession, demo: DemoReport, pipeline: Pipeline) -> None:
    for file in demo.folder.next.iterdir():
        file.rename(demo.folder.binlogs / file.name)
    extracted, outcome = run_source(spark, pipeline, "shop")
    assert extracted.range.start == demo.totals.ranges[-1].stop
    assert extracted.range.stop.file == "mysql-bin.000004"
    assert not outcome.stopped
    comparisons = compare_with_recording(pipeline)
    assert not all(comparison.is_equal for comparison in comparisons.values())
