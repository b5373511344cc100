"""Tables in Hive's metastore, which Spark's own jars have, with Derby as its database; in processes of their own."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from spark_jobs.config.loader import from_keys
from spark_jobs.config.run_files import RunFile
from spark_jobs.operations.catalog import _normalized_location, _read_state, is_pending
from tests.binlogs.segment_spec import Change, Commit, Insert, SegmentSpec, Statement, Table
from tests.binlogs.segment_types import INT

ROOT = Path(__file__).parents[3]
TABLES = [Table(f"shop.{name}", key=["id"], id=INT.NOT_NULL) for name in ("t", "u", "v")]


def log_of(folder: Path, number: int, changes: Sequence[Change]) -> None:
    (folder / "binlogs").mkdir(exist_ok=True)
    content = SegmentSpec(tables=TABLES, changes=list(changes)).to_bytes()
    (folder / "binlogs" / f"bin.{number:06d}").write_bytes(content)


def conf(folder: Path) -> dict[str, str]:
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.defaultJavaOptions": f"-Dderby.system.home={folder}",
        "spark.driver.memory": "1g",
    }


def configured(folder: Path, **keys: object) -> None:
    document = {
        "lake": "./lake",
        "sources": {"shop": {"files": "./binlogs"}},
        "spark": {"master": "local[1]", "conf": conf(folder)},
        "catalog": {"downstream": "lake_{schema}", "silver": "{source}_{schema}_silver"},
    }
    (folder / "pipeline.yaml").write_text(yaml.safe_dump(document | keys), encoding="utf-8")


def run(folder: Path, status: int = 0) -> tuple[str, str]:
    command = [sys.executable, "-m", "stratalog", "run", "-c", "pipeline.yaml"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == status, ended.stderr
    return ended.stdout, ended.stderr


READ = """
import json, sys
from pathlib import Path
from stratalog import load, spark_session

spark = spark_session(load(Path("pipeline.yaml")).spark)
for statement in sys.argv[1:]:
    spark.sql(statement)
names = [(row.namespace, row.tableName) for database in spark.catalog.listDatabases()
         for row in spark.sql(f"SHOW TABLES IN `{database.name}`").collect()]
counts = {f"{database}.{table}": spark.table(f"`{database}`.`{table}`").count() for database, table in names}
print(json.dumps(counts))
spark.stop()
"""


def tables(folder: Path, *statements: str) -> dict[str, int]:
    """What another program finds in the metastore after some statements, with the number of rows."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", READ, *statements]
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    counts: dict[str, int] = json.loads(ended.stdout.splitlines()[-1])
    return counts


@pytest.mark.spark
@pytest.mark.long
def test_tables_are_registered_followed_and_removed(tmp_path: Path) -> None:
    log_of(tmp_path, 1, [Insert("shop.t", (1,)), Insert("shop.u", (1,)), Commit()])
    configured(tmp_path, on_drop="drop")
    out, _ = run(tmp_path)
    names = ["lake_shop.t", "lake_shop.u", "shop_shop_silver.t", "shop_shop_silver.u"]
    (line,) = [line for line in out.splitlines() if line.startswith("catalog: ")]
    assert line == f"catalog: registered {', '.join(f'spark_catalog.{name}' for name in names)}"
    assert tables(tmp_path) == dict.fromkeys(names, 1)
    # Nothing new: neither Spark nor the metastore is asked.
    out, err = run(tmp_path)
    assert ("catalog" in out, "starting Spark" in err) == (False, False)
    # One is dropped, one gets another name, one is new; and what is at a name of another's is left alone.
    statements = [Statement("shop", "DROP TABLE u"), Statement("shop", "RENAME TABLE t TO w")]
    log_of(tmp_path, 2, [*statements, Insert("shop.v", (1,)), Insert("shop.v", (2,)), Commit()])
    tables(tmp_path, "CREATE TABLE lake_shop.v (id INT) USING DELTA", "INSERT INTO lake_shop.v VALUES (7)")
    out, err = run(tmp_path, status=1)
    assert "catalog: spark_catalog.lake_shop.v is a table at " in err
    assert "already, and is left alone; drop it, or choose another database (catalog.downstream)" in err
    names = ["lake_shop.v", "lake_shop.w", "shop_shop_silver.v", "shop_shop_silver.w"]
    assert tables(tmp_path) == dict.fromkeys(names, 1) | dict.fromkeys(names[2:], 2), (
        "silver has a row of where w came from, too"
    )
    # Mended, the next run registers it, although no source has anything new.
    assert tables(tmp_path, "DROP TABLE lake_shop.v").keys() == {*names} - {"lake_shop.v"}
    out, _ = run(tmp_path)
    assert "catalog: registered spark_catalog.lake_shop.v\n" in out
    assert tables(tmp_path)["lake_shop.v"] == 2
    # Without the key, all names go; the lake stays.
    configured(tmp_path, on_drop="drop", catalog=None)
    out, _ = run(tmp_path)
    assert "catalog: removed spark_catalog.lake_shop.v" in out
    assert tables(tmp_path) == {}
    assert (tmp_path / "lake" / "downstream" / "shop" / "v" / "_delta_log").is_dir()


def test_what_was_registered_is_in_a_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keys = {"lake": "./lake", "sources": {"shop": {"files": "."}}}
    path = tmp_path / "pipeline.yaml"
    assert not is_pending(from_keys(keys, path)), "no catalog, and nothing registered"
    wanted_keys = keys | {"catalog": {}, "spark": {"conf": {"spark.sql.catalogImplementation": "hive"}}}
    assert is_pending(from_keys(wanted_keys, path))
    RunFile.CATALOG.path_for(path).write_text('{"basis": [], "tables": [["c", "d", "t", "/lake/t"]]}')
    assert _read_state(path).paths == {("c", "d", "t"): "/lake/t"}
    assert is_pending(from_keys(keys, path)), "the key was taken away"
    RunFile.CATALOG.path_for(path).write_text("{")
    assert _read_state(path).paths == {}
    assert "not a list of registered tables" in caplog.text


@pytest.mark.parametrize("location", ["/lake/t", "file:/lake/t", "file:///lake/t/"])
def test_a_local_path_is_the_same_as_its_url(location: str) -> None:
    assert _normalized_location(location) == "/lake/t"
