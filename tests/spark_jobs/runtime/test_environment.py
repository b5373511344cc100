from pathlib import Path

import pytest

from spark_jobs.errors import ConfigError
from spark_jobs.runtime import environment


def test_what_tasks_import_is_needed_and_what_the_driver_alone_imports_is_not() -> None:
    names = {package.metadata["Name"].lower() for package in environment._dependencies()}
    assert {"stratalog", "numba", "llvmlite", "numpy", "pyarrow", "pyspark", "deltalake", "pymysql"} <= names
    assert not names & {"dagster", "dagster-webserver", "delta-spark", "pytest", "ruff", "grpcio-status"}


def test_what_executors_have_of_spark_is_left_out() -> None:
    paths = {name for name, _ in environment._packaged()}
    assert "pyspark/worker.py" in paths
    assert not [name for name in paths if name.startswith("pyspark/jars/") or name.endswith((".pyc", ".pth"))]


@pytest.mark.parametrize("name", ["stratalog.zip", "stratalog", "stratalog.tar"])
def test_an_archive_that_spark_would_not_unpack_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"name it like stratalog\.tar\.gz"):
        environment.package(tmp_path / name)
    assert not list(tmp_path.iterdir())
