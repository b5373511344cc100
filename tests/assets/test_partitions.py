"""Which files Dagster knows, and in which order."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from assets import partitions
from assets.partitions import register_files
from spark_jobs.bronze import files as log_files
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.bronze.files import BinlogFile
from spark_jobs.lake.commit import Head
from spark_jobs.log.position import Position
from tests.lakes.code_location import CodeLocation, location

pytestmark = pytest.mark.dagster
PARTITIONS = "binlog_files_shop"


def partitions_of(shop: CodeLocation) -> list[str]:
    return list(shop.instance.get_dynamic_partitions(PARTITIONS))


@pytest.fixture
def form(tmp_path: Path) -> Iterator[CodeLocation]:
    with location(
        tmp_path, sources={"shop": {"files": "./binlogs"}, "archive": {"files": "./binlogs"}}
    ) as code_location:
        yield code_location


def test_an_archive_that_cannot_be_listed_leaves_its_files_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bronze = Bronze("a.000003", "a.000004")
    monkeypatch.setattr("spark_jobs.lake.layout.lake_of", lambda _: bronze)
    monkeypatch.setattr(log_files, "held_files", bronze.list)
    archive = tmp_path / "archive"
    archive.mkdir()
    for name in ("a.000000", "a.000002", "a.000001", "a.000007"):
        (archive / name).touch()
    with location(tmp_path, sources={"shop": {"files": "./binlogs", "archive": "./archive"}}) as code_location:
        for number in (1, 2):
            register_files(code_location.instance, code_location.lineage)
            assert partitions_of(code_location) == [f"a.00000{at}" for at in range(5)], number
        archive.rename(tmp_path / "unmounted")
        register_files(code_location.instance, code_location.lineage)
        assert partitions_of(code_location) == [f"a.00000{at}" for at in range(5)]
        assert bronze.listed == [None], "bronze is not read for what the archive has"
        (tmp_path / "unmounted").rename(archive)
        (archive / "a.000001").unlink()
        register_files(code_location.instance, code_location.lineage)
        assert partitions_of(code_location) == ["a.000002", "a.000003", "a.000004"]


class Bronze:
    """A bronze table of which only the files are known, and how often they are listed."""

    def __init__(self, *files: str) -> None:
        self.files = [BinlogFile.parse(file) for file in files]
        self.listed: list[object] = []

    def bronze(self, _: str) -> "Bronze":
        return self

    def head(self) -> Head | None:
        if not self.files:
            return None
        first, last = (f"{file}:4" for file in (self.files[0], self.files[-1]))
        return Head(
            1, 1, BronzeCommit(Position.parse(last), "batch", begin=Position.parse(first), oldest=Position.parse(first))
        )

    def list(self, table: object, head: Head, beyond: tuple[BinlogFile, BinlogFile] | None = None) -> list[BinlogFile]:
        self.listed.append(beyond)
        return [file for file in self.files if beyond is None or file < beyond[0] or file > beyond[1]]


@pytest.mark.parametrize(
    "before, now, is_whole",
    [
        pytest.param([], [], True, marks=pytest.mark.thorough),
        ([], ["a.000001", "a.000002"], True),
        (["a.000001", "a.000002"], ["a.000001", "a.000002", "a.000003", "2/b.000001"], False),  # behind the end
        pytest.param(
            ["a.000003"], ["a.000001", "a.000002", "a.000003"], False, marks=pytest.mark.thorough
        ),  # older ones, out of an archive
        pytest.param(
            ["a.000001", "a.000002", "a.000003"], ["a.000002", "a.000003"], False, marks=pytest.mark.thorough
        ),  # gc removed one
        (["a.000002", "a.000001"], ["a.000001", "a.000002"], True),  # out of order
        pytest.param(["a.000001", "by hand"], ["a.000001"], True, marks=pytest.mark.thorough),
        pytest.param(["a.999999"], ["a.999999", "a.1000000"], False, marks=pytest.mark.thorough),
    ],
)
def test_files_are_registered_in_the_order_of_the_log(
    form: CodeLocation, monkeypatch: pytest.MonkeyPatch, before: list[str], now: list[str], is_whole: bool
) -> None:
    bronze = Bronze(*now)
    monkeypatch.setattr("spark_jobs.lake.layout.lake_of", lambda _: bronze)
    monkeypatch.setattr(log_files, "held_files", bronze.list)
    monkeypatch.setattr(partitions, "_AT_ONCE", 2)
    form.instance.add_dynamic_partitions(PARTITIONS, before)
    register_files(form.instance, form.lineage)
    assert partitions_of(form) == now
    assert all((beyond is None) is is_whole for beyond in bronze.listed), "no more is read than what is not known"
    bronze.listed.clear()
    register_files(form.instance, form.lineage)
    assert bronze.listed == [], "nothing is read where nothing is new"
