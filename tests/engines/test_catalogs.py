"""Registration in real servers of catalogs, and tables read by what the catalog says."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog

from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.errors import ConfigError
from spark_jobs.iceberg.catalogs import connect
from spark_jobs.iceberg.table_view import show
from spark_jobs.pipeline import iceberg_tables
from tests.engines import catalog_servers
from tests.engines.catalog_servers import CatalogServer
from tests.lakes.iceberg_readers import by_delta, in_order
from tests.spark_jobs.delta.tables import append
from tests.spark_jobs.pipeline.test_iceberg_catalog import advance, pipeline_of, published

__all__ = ["published"]
pytestmark = pytest.mark.long


@pytest.fixture(scope="module", params=[catalog_servers.rest, catalog_servers.glue, catalog_servers.hive])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CatalogServer]:
    start: Callable[[Path], CatalogServer] = request.param
    try:
        made = start(tmp_path_factory.mktemp("catalog"))
    except ConfigError as error:
        pytest.skip(str(error))
    with made as running:
        yield running


def test_tables_are_read_by_name_after_each_run(
    tmp_path: Path, published: dict[str, object], server: CatalogServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    catalog = {"name": "lake", "properties": server.properties}
    pipeline = pipeline_of(tmp_path, iceberg=True, iceberg_catalog=catalog)
    client = connect("lake", server.properties)
    reader = load_catalog("lake", **server.properties)
    names = {"a": "a", "B": "B" if server.properties["type"] == "rest" else "b"}
    for _ in range(3):
        iceberg_tables.show_tables(pipeline, "shop")
        for name, listed in names.items():
            path = str(published[name].downstream)  # type: ignore[attr-defined]
            table = reader.load_table(("s", listed))
            assert in_order(table.scan().to_arrow()) == by_delta(path)
        assert not iceberg_tables.is_pending(pipeline, "shop")
        advance(published, "a")  # type: ignore[arg-type]
    # one that another run has changed meanwhile is not overwritten, where the catalog knows conditions
    path = str(published["a"].downstream)  # type: ignore[attr-defined]
    before = client.entry("s", "a")
    assert before
    snapshot = snapshot_of(path)
    assert snapshot
    append(snapshot, [999])
    show(path)
    iceberg_tables.show_tables(pipeline, "shop")
    after = client.entry("s", "a")
    assert after
    assert after.metadata != before.metadata
    # names go with their tables
    rules = [{"tables": "s.a", "iceberg": False}]
    without = pipeline_of(tmp_path, iceberg=True, iceberg_catalog=catalog, downstream=rules)
    iceberg_tables.show_tables(without, "shop")
    assert client.entry("s", "a") is None
    assert client.entry("s", "B")
