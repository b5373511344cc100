from datetime import UTC, datetime
from pathlib import Path

import pytest

from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.downstream import commit_clock, publication
from spark_jobs.downstream.commit_clock import Clock
from spark_jobs.downstream.publication import Entry
from spark_jobs.downstream.watermark import watermark
from spark_jobs.lake.commit import Head
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.operations.retention.gc import LogReaders

ROUTE = 'routes: [{from: "shop.people*", to: world.people, sources: [eu, us], keys: shared}]'


def at(minute: int) -> datetime:
    return datetime(2026, 11, 22, 12, minute, tzinfo=UTC)


def entry(source: str, table: str, merged: int | None, position: int = 90, silver: int | None = 1) -> Entry:
    merged_text = None if merged is None else f"bin.000001:{merged}"
    return Entry(
        source, "shop", table, "current", position=f"bin.000001:{position}", merged=merged_text, silver_version=silver
    )


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """Sources whose order times have reached a minute each tenth byte of their log, and that were read up to 90."""
    path = tmp_path / "pipeline.yaml"
    path.write_text(f"lake: ./lake\nsources: {{eu: {{files: a}}, us: {{files: b}}, asia: {{files: c}}}}\n{ROUTE}\n")
    monkeypatch.setattr(
        commit_clock,
        "order_time_at",
        lambda lake, source, position: at(position.offset // 10) if position.offset else None,
    )
    monkeypatch.setattr(publication, "surveyed_to", lambda lake, source: Position("bin.000001", 90))
    return load(path, {})


@pytest.mark.parametrize(
    "entries, minute",
    [
        ([entry("eu", "people", 90), entry("us", "people", 90)], 9),
        ([entry("eu", "people", 90), entry("us", "people", 30)], 3),
        ([entry("eu", "people", 50), entry("eu", "people2", 40), entry("us", "people", 90)], 4),
        ([entry("eu", "people", 50), entry("eu", "pets", 10), entry("asia", "people", 20)], 5),
        ([entry("eu", "people", None, 60, silver=None), entry("us", "people", 90)], 6),
        ([entry("eu", "people", None), entry("us", "people", 90)], None),
        ([entry("eu", "people", 0), entry("us", "people", 90)], None),
    ],
)
def test_a_table_is_complete_up_to_the_least_of_its_sources_times(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, entries: list[Entry], minute: int | None
) -> None:
    def of(source: str) -> list[Entry]:
        return [entry for entry in entries if entry.source == source]

    monkeypatch.setattr(publication, "read", lambda lake, source: of(source))
    lake, into = Lake("lake"), ("world", "people")
    assert watermark(pipeline, lake, into) == (None if minute is None else at(minute))
    if of("eu"):
        monkeypatch.setattr(publication, "read", lambda lake, source: [] if source == "eu" else of(source))
        moment = watermark(pipeline, lake, into, {"eu": of("eu")})
        assert moment == (None if minute is None else at(minute)), "what a run is about to publish counts"


def test_gc_waits_for_order_times_where_keys_are_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, begin = tmp_path / "pipeline.yaml", Position("bin.000001", 4)
    head = Head(1, 1, BronzeCommit(Position("bin.000009", 4), "b", begin=begin))

    def readers(routes: str) -> dict[str, Position]:
        path.write_text(f"lake: ./lake\nsources: {{eu: {{files: a}}, us: {{files: b}}}}\n{routes}\n")
        assert head.checkpoint
        pipeline = load(path, {})
        readers = LogReaders(pipeline, lake_of(pipeline), "eu")
        return {reader.name: reader.position for reader in readers.every_one(head, head.checkpoint)}

    assert readers("routes: []") == {"silver": begin}
    assert readers(ROUTE) == {"silver": begin, "clock": begin}
    clock = Clock("eu", Table("t", plain=False), 1, begin, Position("bin.000007", 9), None, has_late=False)
    monkeypatch.setattr(commit_clock, "clock_of", lambda lake, source: clock)
    assert readers(ROUTE)["clock"] == clock.position
