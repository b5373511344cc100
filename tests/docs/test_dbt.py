"""The example of a dbt project over the tutorial's tables, by DuckDB and by Spark, and its asset keys in Dagster."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from assets.keys import downstream_key
from spark_jobs.errors import ConfigError
from spark_jobs.runtime.provision import delta_jars
from tests.services.dbt_environment import installed

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
REVENUE = [
    ["2026-11-02", "EUR", "61.90", "2"],
    ["2026-11-04", "EUR", "120.00", "1"],
    ["2026-11-05", "SEK", "80.00", "1"],
]
ROWS_BY_DUCKDB = """
import duckdb, json
rows = duckdb.connect("reports.duckdb").execute("SELECT * FROM revenue ORDER BY day, currency").fetchall()
print(json.dumps([[str(value) for value in row] for row in rows]))
"""
GRAPH = """
import json
from definitions import defs
graph = defs.resolve_asset_graph()
print(json.dumps({key.to_user_string(): [parent.to_user_string() for parent in graph.get(key).parent_keys]
                  for key in graph.materializable_asset_keys}))
"""


@pytest.fixture(scope="module")
def python() -> Path:
    """Python of the environment with dbt."""
    try:
        return installed()
    except ConfigError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a pipeline whose lake has the tutorial's tables."""
    folder = tmp_path_factory.mktemp("dbt {")  # a blank and a brace, which stay as they are in paths
    shutil.copytree(EXAMPLES / "tutorial", folder / "binlogs", ignore=lambda *_: ["shop.sql"])
    (folder / "pipeline.yaml").write_text("lake: ./lake\nsources: {shop: {files: ./binlogs}}\n")
    stratalog(folder, "run")
    return folder


@pytest.fixture
def project(lake: Path, tmp_path: Path) -> Path:
    return shutil.copytree(EXAMPLES / "dbt", tmp_path / "project")


def stratalog(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "stratalog", *arguments]
    ended = subprocess.run(
        command, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, text=True, check=True, stdout=subprocess.PIPE
    )
    return ended.stdout


def in_environment(python: Path, folder: Path, program: str, *arguments: str, **variables: str) -> str:
    """What a command of the environment with dbt prints."""
    extensions = next(python.parents[1].glob("lib/python*/site-packages/duckdb_ext/extensions"))
    environment = os.environ | {
        "DUCKDB_EXTENSIONS": str(extensions),
        "PATH": os.pathsep.join([str(python.parent), os.environ["PATH"]]),
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        **variables,
    }
    ended = subprocess.run(
        [python.with_name(program), *arguments],
        cwd=folder,
        env=environment,
        text=True,
        check=False,
        capture_output=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_models_by_duckdb_have_the_lakes_rows(python: Path, lake: Path, project: Path) -> None:
    (project / "models" / "sources.yml").write_text(stratalog(lake, "dbt", "sources"))
    printed = in_environment(python, project, "dbt", "build", "--profiles-dir", ".")
    assert "PASS=3 WARN=0 ERROR=0" in printed
    assert json.loads(in_environment(python, project, "python", "-c", ROWS_BY_DUCKDB)) == REVENUE


def test_models_follow_the_tables_in_dagsters_graph(python: Path, lake: Path, project: Path) -> None:
    (project / "models" / "sources.yml").write_text(stratalog(lake, "dbt", "sources", "--key-prefix", "mysql"))
    in_environment(python, project, "dbt", "parse", "--profiles-dir", ".")
    (line,) = in_environment(python, project, "python", "-c", GRAPH).splitlines()
    orders = dg.AssetKey(["mysql", *downstream_key(("shop", "orders")).path])
    assert json.loads(line) == {"revenue": [orders.to_user_string()]}


@pytest.mark.long
def test_models_by_spark_have_the_lakes_rows(python: Path, lake: Path, project: Path) -> None:
    (project / "models" / "sources.yml").write_text(stratalog(lake, "dbt", "sources", "--adapter", "spark"))
    packages = project / "packages"
    packages.mkdir()
    for name in ("pyspark", "py4j"):
        (packages / name).symlink_to(Path(sys.modules[name].__file__ or "").parent)
    variables = {
        "PYTHONPATH": str(packages),
        "DELTA_JARS": ",".join(map(str, delta_jars())),
        "DBT_TARGET": "spark",
    }
    printed = in_environment(python, project, "dbt", "build", "--profiles-dir", ".", **variables)
    assert "PASS=3 WARN=0 ERROR=0" in printed
    (file,) = project.glob("spark-warehouse/reports.db/revenue/_delta_log/*0.json")
    assert '"numRecords":3' in file.read_text().replace("\\", "")
