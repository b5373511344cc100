"""Iceberg metadata of tables on a store: read by what it says there, by pyiceberg and DuckDB."""

import site
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyiceberg.table import StaticTable

from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.iceberg import expiry, metadata_files
from spark_jobs.iceberg.table_view import FIRST_ID, show
from tests.fix_store import KIND, Server
from tests.lakes.iceberg_readers import by_delta, in_order, newest_metadata
from tests.services.azurite import ACCOUNT, ACCOUNT_KEY
from tests.services.gateway import ROOT_KEY, ROOT_SECRET
from tests.spark_jobs.delta.tables import MAPPED, append, begin

pytestmark = [pytest.mark.stores, pytest.mark.azure]
TYPES = {"key": "BIGINT", "text": "STRING", "m": "DECIMAL(12,2)", "_raw": "MAP<STRING, STRING>"}


def by_pyiceberg(server: Server, path: str, version: int | None = None) -> Any:
    account = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={ACCOUNT_KEY}"
    keys = {
        "s3": {"s3.endpoint": server.url, "s3.access-key-id": ROOT_KEY, "s3.secret-access-key": ROOT_SECRET},
        "azure": {"adls.connection-string": f"{account};BlobEndpoint={server.url}/{ACCOUNT}"},
    }[KIND]
    table = StaticTable.from_metadata(newest_metadata(path), {**keys, "s3.region": "us-east-1"})
    return in_order(table.scan(snapshot_id=None if version is None else FIRST_ID + version).to_arrow())


def by_duckdb(server: Server, path: str) -> Any:
    (folder,) = Path(site.getsitepackages()[0], "duckdb_ext/extensions").glob(f"v{duckdb.__version__}/*")
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": "1"})
    for extension in ("httpfs", "avro", "iceberg"):
        connection.execute(f"LOAD '{folder / extension}.duckdb_extension'")
    endpoint = server.url.partition("://")[2]
    connection.execute(
        f"CREATE SECRET (TYPE s3, KEY_ID '{ROOT_KEY}', SECRET '{ROOT_SECRET}', ENDPOINT '{endpoint}', "
        "REGION 'us-east-1', URL_STYLE 'path', USE_SSL false)"
    )
    return in_order(connection.execute(f"SELECT * FROM iceberg_scan('{newest_metadata(path)}')").fetch_arrow_table())


def test_tables_on_a_store_are_read_as_delta_reads_them(store_server: Server, bucket: str) -> None:
    path = f"{bucket}/downstream/s/a table"
    append(append(begin(path, MAPPED, TYPES), range(40)), range(40, 60))
    assert show(path).version == 1
    first = by_delta(path)
    snapshot = snapshot_of(path)
    assert snapshot
    append(snapshot, [100])
    assert show(path).snapshots == 1
    assert metadata_files.hint(path) == 2
    assert by_pyiceberg(store_server, path) == by_delta(path)
    assert by_pyiceberg(store_server, path, 1) == first
    if KIND == "s3":
        assert metadata_files.location(path).startswith("s3://")
        assert by_duckdb(store_server, path) == by_delta(path)
    # what maintenance leaves is whole, and all of it goes on demand
    expiry.expire_snapshots(path, 24)
    expiry.remove_unneeded(path, 24)
    assert by_pyiceberg(store_server, path) == by_delta(path)
    expiry.remove(path)
    assert metadata_files.newest(path) is None
