from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import StaticTable
from pyiceberg.table.metadata import TableMetadataV3

from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.config.run_files import RunFile
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.downstream import publication
from spark_jobs.downstream.publication import Entry
from spark_jobs.errors import ConfigError, LakeError
from spark_jobs.iceberg import metadata_files
from spark_jobs.iceberg.table_view import show
from spark_jobs.lake.layout import lake_of
from spark_jobs.pipeline import iceberg_catalog, iceberg_tables
from tests.lakes.iceberg_readers import by_delta, in_order
from tests.services.iceberg_rest import RestCatalog, rest_catalog
from tests.spark_jobs.delta.tables import MAPPED, append, begin

TYPES = {"key": "BIGINT", "text": "STRING", "vector": "ARRAY<FLOAT>", "_raw": "MAP<STRING, STRING>"}


@pytest.fixture
def server() -> Iterator[RestCatalog]:
    with rest_catalog() as catalog:
        yield catalog


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Entry]:
    """What the lake's ``published`` table has, by table: one version of ``a`` and ``B``."""
    entries: dict[str, Entry] = {}
    monkeypatch.setattr(publication, "read", lambda lake, source: list(entries.values()))
    for name in ("a", "B"):
        path = lake_of(pipeline_of(tmp_path)).downstream("s", name).path
        append(begin(path, MAPPED, TYPES), range(3))
        entries[name] = Entry("shop", "s", name, "current", downstream=path, downstream_version=0)
    return entries


def pipeline_of(folder: Path, uri: str | None = None, **keys: Any) -> Pipeline:
    document = {"path": folder / "pipeline.yaml", "lake": str(folder), "sources": {"shop": {"files": str(folder)}}}
    if uri:
        properties = {"properties": {"type": "rest", "uri": uri}}
        document |= {"iceberg": True, "iceberg_catalog": {"name": "lake", "namespace": "lake.{schema}"} | properties}
    return Pipeline.model_validate(document | keys)


def advance(published: dict[str, Entry], name: str) -> str:
    """One more published version of a table; its path."""
    path = str(published[name].downstream)
    snapshot = snapshot_of(path)
    assert snapshot
    published[name] = replace(published[name], downstream_version=append(snapshot, [100 + snapshot.version]).version)
    return path


def locations(server: RestCatalog) -> dict[str, str]:
    """File names of metadata by namespace and name."""
    return {f"{key[0]}.{key[1]}".replace("\x1f", "."): at.rpartition("/")[2] for key, at in server.tables.items()}


def by_catalog(server: RestCatalog, name: str) -> Any:
    return in_order(load_catalog("x", type="rest", uri=server.uri).load_table(("lake", "s", name)).scan().to_arrow())


@pytest.mark.parametrize("knows_overwrite", [True, False])
def test_names_follow_published_versions(
    tmp_path: Path, published: dict[str, Entry], server: RestCatalog, *, knows_overwrite: bool
) -> None:
    server.knows_overwrite = knows_overwrite
    pipeline = pipeline_of(tmp_path, server.uri)
    iceberg_tables.show_tables(pipeline, "shop")
    assert locations(server) == {"lake.s.a": "v1.metadata.json", "lake.s.B": "v1.metadata.json"}
    path = advance(published, "a")
    assert iceberg_tables.is_pending(pipeline, "shop")
    iceberg_tables.show_tables(pipeline, "shop")
    assert locations(server) == {"lake.s.a": "v2.metadata.json", "lake.s.B": "v1.metadata.json"}
    assert by_catalog(server, "a") == by_delta(path)
    # nothing new: nothing is asked
    server.requests.clear()
    iceberg_tables.show_tables(pipeline, "shop")
    assert server.requests == []
    assert not iceberg_tables.is_pending(pipeline, "shop")


def test_a_catalog_that_is_down_stops_nothing_and_the_next_run_registers(
    tmp_path: Path, published: dict[str, Entry], server: RestCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = pipeline_of(tmp_path, server.uri)
    server.is_down = True
    iceberg_tables.show_tables(pipeline, "shop")
    assert "Iceberg catalog lake: the catalog is down" in caplog.text or "ServiceUnavailable" in caplog.text
    refusal = iceberg_catalog.refusal(pipeline, "shop")
    assert refusal
    path = advance(published, "a")
    iceberg_tables.show_tables(pipeline, "shop")
    # the tables go on, and the refusal keeps its beginning
    later_refusal = iceberg_catalog.refusal(pipeline, "shop")
    assert later_refusal
    assert later_refusal.since == refusal.since
    present = metadata_files.newest(path)
    assert present
    assert present.number == 2
    assert iceberg_tables.is_pending(pipeline, "shop")
    server.is_down = False
    iceberg_tables.show_tables(pipeline, "shop")
    assert locations(server) == {"lake.s.a": "v2.metadata.json", "lake.s.B": "v1.metadata.json"}
    assert iceberg_catalog.refusal(pipeline, "shop") is None


def test_a_table_that_could_not_be_shown_is_registered_once_it_is(
    tmp_path: Path, published: dict[str, Entry], server: RestCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entry shows an earlier version until then, which is not taken for the published one."""
    pipeline = pipeline_of(tmp_path, server.uri)
    iceberg_tables.show_tables(pipeline, "shop")
    path = advance(published, "a")

    def failing(path: str) -> Any:
        raise LakeError(f"{path}: cannot be written")

    with monkeypatch.context() as context:
        context.setattr(iceberg_tables, "show", failing)
        with pytest.raises(LakeError, match="cannot be written"):
            iceberg_tables.show_tables(pipeline, "shop")
    assert locations(server)["lake.s.a"] == "v1.metadata.json"
    iceberg_tables.show_tables(pipeline, "shop")
    assert locations(server)["lake.s.a"] == "v2.metadata.json"
    assert by_catalog(server, "a") == by_delta(path)
    assert not iceberg_tables.is_pending(pipeline, "shop")


def test_a_run_that_was_killed_before_it_registered_is_made_good(
    tmp_path: Path, published: dict[str, Entry], server: RestCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = pipeline_of(tmp_path, server.uri)

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(iceberg_catalog, "connect", killed)
        with pytest.raises(KeyboardInterrupt):
            iceberg_tables.show_tables(pipeline, "shop")
    assert server.tables == {}
    assert iceberg_tables.is_pending(pipeline, "shop")
    iceberg_tables.show_tables(pipeline, "shop")
    assert len(server.tables) == 2
    # also between the catalog and the file
    advance(published, "a")
    with monkeypatch.context() as context:
        context.setattr(iceberg_catalog, "_write", killed)
        with pytest.raises(KeyboardInterrupt):
            iceberg_tables.show_tables(pipeline, "shop")
    iceberg_tables.show_tables(pipeline, "shop")
    assert locations(server)["lake.s.a"] == "v2.metadata.json"
    assert_done(pipeline, monkeypatch)


def assert_done(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed run was to change is looked at by every run for an hour, and no longer."""
    assert iceberg_tables.is_pending(pipeline, "shop")
    with monkeypatch.context() as context:
        context.setattr(iceberg_catalog, "_ALIVE", timedelta(seconds=-2))
        iceberg_tables.show_tables(pipeline, "shop")
    assert not iceberg_tables.is_pending(pipeline, "shop")


@pytest.mark.parametrize("by", ["a run", "maintenance"])
def test_an_entry_that_a_killed_process_set_back_is_registered_again(
    tmp_path: Path, published: dict[str, Entry], server: RestCatalog, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """It had read the newest metadata before another run wrote a newer one and registered that."""
    pipeline = pipeline_of(tmp_path, server.uri)
    iceberg_tables.show_tables(pipeline, "shop")
    advance(published, "a")
    newest, path = metadata_files.newest, str(published["a"].downstream)

    def overtaken(path: str) -> Any:
        if not path.endswith("a"):
            return newest(path)
        monkeypatch.setattr(metadata_files, "newest", newest)
        read = newest(path)
        advance(published, "a")
        iceberg_tables.show_tables(pipeline, "shop")
        assert locations(server)["lake.s.a"] == "v3.metadata.json"
        monkeypatch.setattr(metadata_files, "newest", killed)
        return read

    def killed(_: str) -> None:
        raise KeyboardInterrupt

    show(path)
    monkeypatch.setattr(metadata_files, "newest", overtaken)
    register = iceberg_catalog.register_tables if by == "a run" else iceberg_catalog.register_path
    with pytest.raises(KeyboardInterrupt):
        register(pipeline, "shop" if by == "a run" else path)
    monkeypatch.setattr(metadata_files, "newest", newest)
    assert locations(server)["lake.s.a"] == "v2.metadata.json"
    iceberg_tables.show_tables(pipeline, "shop")
    assert locations(server)["lake.s.a"] == "v3.metadata.json"
    assert_done(pipeline, monkeypatch)


def test_a_name_that_a_killed_run_removed_is_registered_again(
    tmp_path: Path, published: dict[str, Entry], server: RestCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version of the table is the registered one, and the name is gone."""
    pipeline = pipeline_of(tmp_path, server.uri)
    iceberg_tables.show_tables(pipeline, "shop")
    remove_entry = iceberg_catalog._remove_entry

    def killed(*arguments: Any) -> None:
        remove_entry(*arguments)
        raise KeyboardInterrupt

    rules = [{"tables": "s.a", "iceberg": False}]
    with monkeypatch.context() as context:
        context.setattr(iceberg_catalog, "_remove_entry", killed)
        with pytest.raises(KeyboardInterrupt):
            iceberg_tables.show_tables(pipeline_of(tmp_path, server.uri, downstream=rules), "shop")
    assert locations(server) == {"lake.s.B": "v1.metadata.json"}
    assert iceberg_tables.is_pending(pipeline, "shop")
    iceberg_tables.show_tables(pipeline, "shop")
    assert locations(server) == {"lake.s.a": "v1.metadata.json", "lake.s.B": "v1.metadata.json"}
    assert_done(pipeline, monkeypatch)


def test_a_table_of_somebody_else_is_left_alone(
    tmp_path: Path, published: dict[str, Entry], server: RestCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    iceberg_tables.show_tables(pipeline_of(tmp_path, iceberg=True), "shop")
    foreign_metadata = server.tables["lake\x1fs", "a"] = metadata_of(published, "B")
    pipeline = pipeline_of(tmp_path, server.uri)
    iceberg_tables.show_tables(pipeline, "shop")
    assert f"lake.s.a: is a table at {foreign_metadata} already, and is left alone" in caplog.text
    assert server.tables["lake\x1fs", "a"] == foreign_metadata
    assert locations(server)["lake.s.B"] == "v1.metadata.json"
    # neither is it removed, once the table is not shown any more
    rules = [{"tables": "s.a", "iceberg": False}]
    iceberg_tables.show_tables(pipeline_of(tmp_path, server.uri, downstream=rules), "shop")
    assert server.tables["lake\x1fs", "a"] == foreign_metadata


def metadata_of(published: dict[str, Entry], name: str) -> str:
    return f"{metadata_files.location(str(published[name].downstream))}/metadata/v1.metadata.json"


def test_names_go_with_the_tables_that_are_not_shown_any_more(
    tmp_path: Path, published: dict[str, Entry], server: RestCatalog
) -> None:
    pipeline = pipeline_of(tmp_path, server.uri)
    iceberg_tables.show_tables(pipeline, "shop")
    rules = [{"tables": "s.a", "iceberg": False}]
    iceberg_tables.show_tables(pipeline_of(tmp_path, server.uri, downstream=rules), "shop")
    assert locations(server) == {"lake.s.B": "v1.metadata.json"}


def test_maintenance_registers_before_it_removes_what_was_registered(
    tmp_path: Path, published: dict[str, Entry], server: RestCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = pipeline_of(tmp_path, server.uri)
    path = str(published["a"].downstream)
    for _ in range(3):
        iceberg_tables.show_tables(pipeline, "shop")
        advance(published, "a")
    iceberg_tables.show_tables(pipeline, "shop")
    monkeypatch.setattr("spark_jobs.iceberg.expiry._AHEAD_SECONDS", 90_000)  # all is as old as that
    server.is_down = True
    iceberg_tables.expire(pipeline, path, 1, ())
    # the catalog still names the former file, so it stays
    assert locations(server)["lake.s.a"] == "v4.metadata.json"
    assert by_catalog_of_files(server, "a") == by_delta(path)
    assert iceberg_tables.is_pending(pipeline, "shop")
    server.is_down = False
    iceberg_tables.expire(pipeline, path, 1, ())
    assert locations(server)["lake.s.a"] == "v5.metadata.json"
    assert [file.name for file in Path(path, "metadata").glob("v*.json")] == ["v5.metadata.json"]
    assert by_catalog(server, "a") == by_delta(path)


def test_a_table_whose_rows_are_forgotten_stays_the_same_for_those_who_read_it(
    tmp_path: Path, published: dict[str, Entry], server: RestCatalog
) -> None:
    """Readers refuse another uuid when they refresh, and keep files of metadata by their names."""
    pipeline = pipeline_of(tmp_path, server.uri)
    iceberg_tables.show_tables(pipeline, "shop")
    path = advance(published, "a")
    iceberg_tables.show_tables(pipeline, "shop")
    opened = load_catalog("x", type="rest", uri=server.uri).load_table(("lake", "s", "a"))
    iceberg_tables.renew(pipeline, path)
    assert locations(server)["lake.s.a"] == "v3.metadata.json"
    assert isinstance(opened.metadata, TableMetadataV3)
    uuid, sequence = opened.metadata.table_uuid, opened.metadata.last_sequence_number
    opened.refresh()
    assert isinstance(opened.metadata, TableMetadataV3)
    assert in_order(opened.scan().to_arrow()) == by_delta(path)
    assert opened.metadata.table_uuid == uuid
    assert opened.metadata.last_sequence_number == sequence + 1
    assert [snapshot.snapshot_id for snapshot in opened.metadata.snapshots] == [1_000_000_001]
    assert opened.metadata.metadata_log == []
    # Nothing is there that says of earlier versions; later ones go on.
    assert [file.name for file in Path(path, "metadata").glob("*.json")] == ["v3.metadata.json"]
    assert len([*Path(path, "metadata").glob("snap-*.avro")]) == 1
    path = advance(published, "a")
    iceberg_tables.show_tables(pipeline, "shop")
    assert locations(server)["lake.s.a"] == "v4.metadata.json"
    assert by_catalog(server, "a") == by_delta(path)


def test_rows_are_forgotten_while_the_catalog_is_down(
    tmp_path: Path, published: dict[str, Entry], server: RestCatalog
) -> None:
    pipeline = pipeline_of(tmp_path, server.uri)
    iceberg_tables.show_tables(pipeline, "shop")
    path = str(published["a"].downstream)
    server.is_down = True
    iceberg_tables.renew(pipeline, path)
    # The catalog reads the file that it names before it replaces the entry.
    assert sorted(file.name for file in Path(path, "metadata").glob("*.json")) == [
        *("v1.metadata.json", "v2.metadata.json")
    ]
    assert len([*Path(path, "metadata").glob("snap-*.avro")]) == 1
    assert iceberg_tables.is_pending(pipeline, "shop")
    server.is_down = False
    iceberg_tables.show_tables(pipeline, "shop")
    assert locations(server)["lake.s.a"] == "v2.metadata.json"
    assert by_catalog(server, "a") == by_delta(path)


def by_catalog_of_files(server: RestCatalog, name: str) -> Any:
    return in_order(StaticTable.from_metadata(server.tables["lake\x1fs", name]).scan().to_arrow())


def test_secrets_come_from_the_environment(
    tmp_path: Path, published: dict[str, Entry], server: RestCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.token = "a-token-of-the-test"
    pipeline = pipeline_of(tmp_path, server.uri)
    settings = pipeline.iceberg_catalog
    assert settings
    with pytest.raises(LakeError, match="no such token"):
        iceberg_catalog.probe(settings)
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TOKEN", server.token)
    iceberg_catalog.probe(settings)
    iceberg_tables.show_tables(pipeline, "shop")
    assert len(server.tables) == 2
    assert server.token not in RunFile.ICEBERG_CATALOG.path_for(pipeline.path).read_text()


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"properties": {"token": "x"}}, "token is for the environment: PYICEBERG_CATALOG__NAME__TOKEN"),
        (
            {"properties": {"s3.secret-access-key": "x"}},
            "s3.secret-access-key is for the environment: PYICEBERG_CATALOG__NAME__S3__SECRET_ACCESS_KEY",
        ),
        ({"properties": {"type": "jdbc"}}, "type: jdbc is none of rest, glue, hive"),
        ({"name": "My Lake"}, "small letters, digits and -"),
        ({"namespace": "{table}"}, r"\{table\} stands for nothing"),
    ],
)
def test_settings_that_are_refused(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pipeline_of(tmp_path, iceberg=True, iceberg_catalog=settings)


def test_a_catalog_for_no_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text("lake: ./lake\nsources: {shop: {files: .}}\niceberg_catalog: {}\n")
    with pytest.raises(ConfigError, match="there is no table to register: set iceberg: true"):
        load(tmp_path / "pipeline.yaml")


def test_a_catalog_without_a_type_says_how_to_give_it_one(tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path, iceberg=True, iceberg_catalog={})
    assert pipeline.iceberg_catalog
    with pytest.raises(Exception, match="PYICEBERG_CATALOG__DEFAULT__URI"):
        iceberg_catalog.probe(pipeline.iceberg_catalog)
