"""Tables as they were, of a lake on a store and written to one, are those of the same lake in a folder."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.lake.rows import rows_of
from spark_jobs.pipeline.as_of.api import as_of
from spark_jobs.storage import files
from tests.fix_cli import Stratalog
from tests.fix_store import Server
from tests.lakes.recorded_lake import recorded

pytestmark = pytest.mark.stores

AT = "mysql-bin.000002:2000"
TABLES = ("shop.customers", "shop.orders")


@pytest.fixture
def lakes(store_server: Server, bucket: str, tmp_path: Path) -> Iterator[tuple[Pipeline, Pipeline]]:
    """The recorded lake in a folder, and its files as objects of a bucket."""
    with recorded(tmp_path / "recorded") as (pipeline, _):
        folder = Path(pipeline.lake)
        for file in (file for file in folder.rglob("*") if file.is_file()):
            files.replace(files.stored_path(f"{bucket}/{file.relative_to(folder)}"), file.read_bytes())
        document = yaml.safe_load(pipeline.path.read_text(encoding="utf-8"))
        path = pipeline.path.with_name("stored.yaml")
        path.write_text(yaml.safe_dump(document | {"lake": bucket, "store": store_server.keys()}))
        yield pipeline, load(path)


@pytest.mark.azure
def test_rows_are_those_of_the_lake_in_a_folder(
    lakes: tuple[Pipeline, Pipeline], stratalog: Stratalog, summary: list[str]
) -> None:
    here, stored = lakes
    truth = {table: as_of(here, table, AT) for table in TABLES}
    assert min(map(len, truth.values())) > 1
    assert {table: as_of(stored, table, AT) for table in TABLES} == truth
    target = f"{stored.lake.removesuffix('/lake')}/then ä"
    tables = [word for table in TABLES for word in ("--table", table)]
    for form in ("parquet", "delta", "jsonl"):
        ran = stratalog("at", AT, "-c", stored.path, *tables, "--to", f"{target}/{form}", "--format", form)
        assert ran.status == 0, ran.err
        for table, expected in truth.items():
            folder = f"{target}/{form}/{table.replace('.', '/') if form == 'delta' else f'{table}.{form}'}"
            assert f"{folder}\t{len(expected)} rows of {table} at mysql-bin.000002:1713" in ran.out.splitlines()
            if form == "parquet":
                rows = pq.read_table(files.readable(files.stored_path(folder))).sort_by("id")
                assert rows == expected
            elif form == "delta":
                parts = rows_of(folder, 0, expected.column_names, None, rows=1000)
                ids = sorted(identity for part in parts for identity in part.column("id").to_pylist())
                assert ids == expected.column("id").to_pylist()
            else:
                lines = files.stored_path(folder).read_bytes().decode().splitlines()
                assert sorted(json.loads(line)["id"] for line in lines) == expected.column("id").to_pylist()
    summary.append(f"tables at a position, of a lake on a store and to it: {sum(map(len, truth.values()))} rows equal")


def test_a_target_on_a_store_is_new_and_outside_of_the_lake(
    lakes: tuple[Pipeline, Pipeline], stratalog: Stratalog
) -> None:
    _, stored = lakes
    root = stored.lake.removesuffix("/lake")
    for target, message in (
        (f"{stored.lake}/then", "is of the lake"),
        (root, "is of the lake"),
        (f"{root.replace('://b-', '://none-')}/then", "there is no "),
    ):
        ran = stratalog("at", AT, "-c", stored.path, "--table", "shop.orders", "--to", target)
        assert (ran.status != 0, message in ran.err) == (True, True), ran.err
        assert "Traceback" not in ran.err
    first, second = (
        stratalog("at", AT, "-c", stored.path, "--table", "shop.orders", "--to", f"{root}/then") for _ in range(2)
    )
    assert (first.status, second.status) == (0, 2)
    assert f"to: {root}/then is not empty; name a new folder" in second.err
