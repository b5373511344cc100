import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.config.model import Pipeline
from spark_jobs.config.run_files import RunFile
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.downstream import publication
from spark_jobs.downstream.publication import Entry
from spark_jobs.errors import LakeError
from spark_jobs.lake.layout import lake_of
from spark_jobs.pipeline import iceberg_tables
from tests.lakes.iceberg_readers import by_delta, by_duckdb
from tests.spark_jobs.delta.tables import MAPPED, append, begin

TYPES = {"key": "BIGINT", "text": "STRING", "_raw": "MAP<STRING, STRING>"}


def pipeline_of(folder: Path, **keys: Any) -> Pipeline:
    document = {"path": folder / "pipeline.yaml", "lake": str(folder), "sources": {"shop": {"files": str(folder)}}}
    return Pipeline.model_validate(document | keys)


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Entry]:
    """What the lake's ``published`` table has, by table; two tables, of one version each."""
    entries: dict[str, Entry] = {}
    monkeypatch.setattr(publication, "read", lambda lake, source: list(entries.values()))
    lake = lake_of(pipeline_of(tmp_path))
    for name in ("a", "b"):
        path = lake.downstream("s", name).path
        append(begin(path, MAPPED, TYPES), range(3))
        entries[name] = Entry("shop", "s", name, "current", downstream=path, downstream_version=0)
    return entries


def further(published: dict[str, Entry], name: str, *, is_published: bool = True) -> str:
    """One more version of a table; its path."""
    path = str(published[name].downstream)
    snapshot = snapshot_of(path)
    assert snapshot
    version = append(snapshot, [100 + snapshot.version]).version
    if is_published:
        published[name] = replace(published[name], downstream_version=version)
    return path


def test_tables_are_shown_once_for_each_published_version(tmp_path: Path, published: dict[str, Entry]) -> None:
    pipeline = pipeline_of(tmp_path, iceberg=True)
    assert iceberg_tables.is_pending(pipeline, "shop")
    iceberg_tables.show_tables(pipeline, "shop")
    assert not iceberg_tables.is_pending(pipeline, "shop")
    path = further(published, "a")
    assert iceberg_tables.is_pending(pipeline, "shop")
    iceberg_tables.show_tables(pipeline, "shop")
    assert by_duckdb(path) == by_delta(path)
    versions = json.loads(RunFile.ICEBERG.path_for(pipeline.path).read_text())["shop"]
    assert {Path(at).name: version for at, version in versions.items()} == {"a": 1, "b": 0}


def test_a_file_that_is_lost_or_damaged_costs_a_look_at_each_table(
    tmp_path: Path, published: dict[str, Entry], caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = pipeline_of(tmp_path, iceberg=True)
    iceberg_tables.show_tables(pipeline, "shop")
    file = RunFile.ICEBERG.path_for(pipeline.path)
    before = sorted(path.name for path in tmp_path.rglob("metadata/*"))
    for content in (None, "[1]", "{"):
        file.unlink() if content is None else file.write_text(content)
        iceberg_tables.show_tables(pipeline, "shop")
        assert not iceberg_tables.is_pending(pipeline, "shop")
    assert sorted(path.name for path in tmp_path.rglob("metadata/*")) == before
    assert "all tables are looked at again" in caplog.text


def test_one_that_cannot_be_shown_does_not_stop_the_others(tmp_path: Path, published: dict[str, Entry]) -> None:
    path = str(tmp_path / "downstream/s/plain")
    append(begin(path, {}, TYPES), range(2))
    published["0"] = Entry("shop", "s", "plain", "current", downstream=path, downstream_version=0)
    pipeline = pipeline_of(tmp_path, iceberg=True)
    for _ in range(2):
        with pytest.raises(LakeError, match="plain: cannot be shown as Iceberg: it has no column mapping"):
            iceberg_tables.show_tables(pipeline, "shop")
        assert iceberg_tables.is_pending(pipeline, "shop")
    assert len(by_duckdb(str(published["a"].downstream))) == 3


def test_tables_are_chosen_by_pattern(tmp_path: Path, published: dict[str, Entry]) -> None:
    rules = [{"tables": "s.*", "iceberg": True}, {"tables": "s.b", "iceberg": False}]
    iceberg_tables.show_tables(pipeline_of(tmp_path, downstream=rules), "shop")
    assert {path.parent.parent.name for path in tmp_path.rglob("metadata/version-hint.text")} == {"a"}
    iceberg_tables.show_tables(pipeline_of(tmp_path, iceberg=True, downstream=rules[1:]), "shop")
    assert {path.parent.parent.name for path in tmp_path.rglob("metadata/version-hint.text")} == {"a"}


def test_without_the_key_nothing_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication, "read", lambda *_: pytest.fail("read"))
    iceberg_tables.show_tables(pipeline_of(tmp_path), "shop")
    assert not iceberg_tables.is_pending(pipeline_of(tmp_path), "shop")


def test_maintenance_removes_the_metadata_of_a_table_that_is_not_shown_any_more(
    tmp_path: Path, published: dict[str, Entry]
) -> None:
    pipeline = pipeline_of(tmp_path, iceberg=True)
    path = further(published, "a", is_published=False)
    iceberg_tables.expire(pipeline, path, 24, ())
    assert by_duckdb(path) == by_delta(path)
    iceberg_tables.expire(pipeline_of(tmp_path), path, 24, ())
    assert list(tmp_path.rglob("version-hint.text")) == []
