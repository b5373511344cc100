"""The same verbs over a lake in a folder and over one on a store leave equal rows in every layer."""

import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from spark_jobs.config.loader import load
from spark_jobs.delta import vacuum
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.demo.recorded import recorded_files
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.rows import rows_of
from spark_jobs.storage import store_access
from tests.command_result import CommandResult
from tests.fix_cli import Stratalog
from tests.fix_mysql import Database
from tests.fix_store import KIND, Server
from tests.spark_jobs.engine.lake_rows import newest

pytestmark = [pytest.mark.stores, pytest.mark.spark]

BUCKET = "verbs"
"""One for all tests of a process, since its JVM reads its settings once."""
MADE: set[tuple[Server, str]] = set()
TABLES = ("carts", "orders", "products")
CONF = {
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="module", autouse=True)
def session_ended() -> Iterator[None]:
    """The session that the verbs share in this process is stopped before its JVM ends."""
    yield
    if session := SparkSession.getActiveSession():
        session.stop()


@pytest.fixture
def lakes(store_server: Server, store_keys: None, tmp_path: Path) -> dict[str, dict[str, Any]]:
    """Keys of pipeline.yaml for the lake on a store, which has to come first, and for the one in a folder."""
    if (store_server, BUCKET) not in MADE:
        store_server.make_bucket(BUCKET)
        MADE.add((store_server, BUCKET))
    store = store_server.store(BUCKET)
    store_access.register_store(store)
    return {
        "store": {"lake": f"{store.root}/{tmp_path.name} ä", "store": store_server.keys()},
        "folder": {"lake": str(tmp_path / "lake")},
    }


def write_config(folder: Path, **keys: Any) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "pipeline.yaml"
    path.write_text(yaml.safe_dump({"spark": {"master": "local[2]", "conf": CONF}, **keys}))
    return path


def live_keys(database: Database, start: str) -> dict[str, Any]:
    """Keys of pipeline.yaml for the tables of a test's schema."""
    server = database.server
    mysql = {"host": server.host, "port": server.port, "user": server.user, "password": "${SHOP_PASSWORD}"}
    return {"sources": {"shop": {"mysql": mysql, "start": start}}, "tables": [f"{database.name}.*"]}


def require_done(ran: CommandResult) -> CommandResult:
    assert ran.status == 0, ran.err + ran.out
    return ran


def contents(path: str, leaving: tuple[str, ...] = ()) -> Counter[str]:
    """The rows of a table's newest version, each with how often it is there."""
    snapshot = snapshot_of(path)
    assert snapshot, path
    names = [name for name in snapshot.schema.names if name not in leaving]
    return Counter(
        repr(sorted((name, _comparable_cell(cell)) for name, cell in row.items()))
        for batch in rows_of(path, snapshot.version, names, None, rows=1000)
        for row in batch.to_pylist(maps_as_pydicts="lossy")
    )


def _comparable_cell(cell: Any) -> Any:
    return sorted(cell.items()) if isinstance(cell, dict) else cell


def test_recorded_logs_give_equal_rows_in_every_layer(
    lakes: dict[str, dict[str, Any]], stratalog: Stratalog, tmp_path: Path, summary: list[str]
) -> None:
    statuses, rows = {}, {}
    *first, last = recorded_files()
    for name, keys in lakes.items():
        folder = tmp_path / f"of-{name}"
        path = write_config(
            folder, **keys, sources={"shop": {"files": "./binlogs"}}, tables=[f"shop.{table}" for table in TABLES]
        )
        (folder / "binlogs").mkdir()
        for file in first:
            shutil.copy(file, folder / "binlogs")
        require_done(stratalog("run", "-c", path))
        shutil.copy(last, folder / "binlogs")
        require_done(stratalog("run", "-c", path))
        span = ("--from", "mysql-bin.000002:4", "--to", "mysql-bin.000003:4")
        require_done(stratalog("backfill", "-c", path, "--source", "shop", *span, "--table", "shop.carts"))
        require_done(stratalog("reset", "-c", path, "--source", "shop", "--table", "shop.orders", "--yes"))
        require_done(stratalog("run", "-c", path))
        require_done(stratalog("maintain", "-c", path))
        require_done(stratalog("gc", "-c", path, "--dry-run"))
        require_done(stratalog("export", "-c", path, "--source", "shop", "--to", folder / "exported"))
        for file in recorded_files():
            assert (folder / "exported" / file.name).read_bytes() == file.read_bytes()
        status = json.loads(require_done(stratalog("status", "-c", path, "--json")).out)
        statuses[name] = {table["table"]: table["downstream"] for table in status["sources"]["shop"]["tables"]}
        lake = lake_of(load(path))
        tables = {f"downstream {table}": lake.downstream("shop", table).path for table in TABLES}
        tables |= {f"silver {table}": lake.silver("shop", "shop", table).path for table in TABLES}
        tables |= {"bronze": lake.bronze("shop").path, "schema": lake.schema("shop").path}
        rows[name] = {table: contents(location) for table, location in tables.items()}
    assert statuses["store"] == statuses["folder"]
    for table, expected in rows["folder"].items():
        assert rows["store"][table] == expected, table
        assert expected, table
    summary.append(
        f"{sum(map(Counter.total, rows['store'].values()))} rows in {len(rows['store'])} tables of all layers, "
        f"equal on a store ({KIND}) and in a folder, after run, run, backfill, reset, run, maintain, gc, export, status"
    )


@pytest.mark.mysql
@pytest.mark.azure
@pytest.mark.google
def test_a_server_is_loaded_and_verified(
    lakes: dict[str, dict[str, Any]],
    stratalog: Stratalog,
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database.execute("CREATE TABLE older (id INT PRIMARY KEY, note VARCHAR(20))")
    database.execute("INSERT INTO older VALUES (1, 'a'), (2, 'b'), (3, NULL)")
    file, offset = database.execute("SHOW MASTER STATUS")[0][:2]
    database.execute("UPDATE older SET note = 'changed' WHERE id = 2")
    monkeypatch.setenv("SHOP_PASSWORD", database.server.password)
    path = write_config(tmp_path / "live", **lakes["store"], **live_keys(database, f"{file}:{offset}"))
    checked = require_done(stratalog("check", "-c", path, "--connect"))
    assert "by conditional puts" in " ".join(checked.out.split())
    require_done(stratalog("run", "-c", path))
    require_done(stratalog("load", "-c", path, "--source", "shop"))
    database.execute("DELETE FROM older WHERE id = 1")
    verified = require_done(stratalog("verify", "-c", path))
    assert "older" in verified.out
    actual = contents(
        lake_of(load(path)).downstream(database.name, "older").path, ("_position", "_committed_at", "_raw")
    )
    assert actual == Counter(["[('id', 2), ('note', 'changed')]", "[('id', 3), ('note', None)]"])


def objects(server: Server, paths: dict[str, str]) -> dict[str, set[str]]:
    """The objects of each table outside of its log, relative to it, by a listing of the server."""
    prefixes = {layer: path.removeprefix(f"{server.store(BUCKET).root}/") for layer, path in paths.items()}
    listed = {layer: server.names(BUCKET, prefix) for layer, prefix in prefixes.items()}
    return {
        layer: {name.removeprefix(f"{prefixes[layer]}/") for name in names if "/_" not in name}
        for layer, names in listed.items()
    }


@pytest.mark.mysql
def test_gc_and_maintain_remove_objects_that_nobody_needs(
    lakes: dict[str, dict[str, Any]],
    store_server: Server,
    stratalog: Stratalog,
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    summary: list[str],
) -> None:
    """Log that every reader has read, and versions older than forty days: what is left is right."""
    database.execute("FLUSH BINARY LOGS")
    start = database.execute("SHOW MASTER STATUS")[0][0]
    database.execute("CREATE TABLE counted (id INT PRIMARY KEY, note VARCHAR(20))")
    monkeypatch.setenv("SHOP_PASSWORD", database.server.password)
    keys = lakes["store"] | live_keys(database, f"{start}:4") | {"retention": {"bronze": "0m", "versions": "1d"}}
    path = write_config(tmp_path / "live", **keys)
    lake = lake_of(load(path))
    paths = {
        "bronze": lake.bronze("shop").path,
        "silver": lake.silver("shop", database.name, "counted").path,
        "downstream": lake.downstream(database.name, "counted").path,
    }

    def run(number: int) -> None:
        """A file of the log, with a new row and a change of the first one."""
        database.execute(f"INSERT INTO counted VALUES ({number}, 'new')")
        database.execute(f"UPDATE counted SET note = 'changed by {number}' WHERE id = 1")
        database.execute("FLUSH BINARY LOGS")
        require_done(stratalog("run", "-c", path))

    def maintain_later() -> None:
        """As if no commit and no object were younger than forty days."""
        with monkeypatch.context() as later:
            later.setattr(vacuum, "time", SimpleNamespace(time=lambda: time.time() + 40 * 86_400))
            require_done(stratalog("maintain", "-c", path))

    def require_right(count: int) -> None:
        assert "counted" in require_done(stratalog("verify", "-c", path)).out
        rows = [(1, f"changed by {count}"), *((number, "new") for number in range(2, count + 1))]
        expected = Counter(f"[('id', {number}), ('note', '{note}')]" for number, note in rows)
        assert contents(paths["downstream"], ("_position", "_committed_at", "_raw")) == expected

    for number in range(1, 4):
        run(number)
    before = objects(store_server, paths)
    removed = require_done(stratalog("gc", "-c", path)).out
    last_file = database.execute("SHOW MASTER STATUS")[0][0]
    assert f"bronze begins at {last_file}:4" in removed
    assert all(names >= before[layer] for layer, names in objects(store_server, paths).items()), "versions name them"
    maintain_later()
    require_right(3)

    # What maintenance wrote together is what the next merge compares with; the files before it are named until then.
    run(4)
    maintain_later()
    after = objects(store_server, paths)
    assert after["bronze"] == {file.path for file in newest(paths["bronze"]).files}
    counts = {layer: len(before[layer] - after[layer]) for layer in paths}
    assert all(counts.values()), counts
    require_right(4)
    status = json.loads(require_done(stratalog("status", "-c", path, "--json")).out)["sources"]["shop"]
    assert [(table["state"], table["complete"]) for table in status["tables"]] == [("current", True)]
    require_done(stratalog("export", "-c", path, "--source", "shop", "--to", tmp_path / "exported"))
    exported = sorted((tmp_path / "exported").iterdir())
    assert exported[0].name == last_file
    run(5)
    require_right(5)
    for file in exported:
        assert (database.server.data / file.name).read_bytes().startswith(file.read_bytes()), file
    sizes = ", ".join(f"{layer} {len(before[layer])} objects, {count} of them gone" for layer, count in counts.items())
    summary.append(
        f"gc and maintain on a store ({KIND}): {removed.strip()}; {sizes}; verify, status, export, run right"
    )
