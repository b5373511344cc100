"""Which transactions bronze holds; how a move uses it is in test_resume.py."""

import shutil
from pathlib import Path

import pytest

from spark_jobs.bronze.commit import stretches
from spark_jobs.bronze.gtid_state import held_gtids, seen_gtids
from spark_jobs.bronze.log_index import Stretch
from spark_jobs.errors import SourceError
from spark_jobs.lake.layout import Lake
from spark_jobs.lake.table import Table
from spark_jobs.log.gtid import DomainGtids
from spark_jobs.source.files import Files
from spark_jobs.source.protocol import Source
from tests.binlogs.gtid_logs import gtids, land, write_log
from tests.binlogs.segment_spec import Commit, Insert, SegmentSpec
from tests.binlogs.segment_spec import Table as SpecTable
from tests.binlogs.segment_types import INT, VARCHAR


def landed(folder: Path, source: Source, start: str = "earliest") -> tuple[Table, int, Stretch]:
    bronze = Lake(str(folder / "lake")).bronze("shop")
    land(bronze, source, start)
    head = bronze.head()
    assert head is not None
    assert head.checkpoint is not None
    return bronze, head.version, stretches(head.checkpoint)[-1]


def test_what_a_head_names_and_what_comes_behind_it(tmp_path: Path) -> None:
    write_log(tmp_path / "log", [("b:1-9 a:1", ["a:2"]), ("b:1-9 a:1-2", ["a:4", "a:3", "b:17"])], first=5)
    assert held_gtids(*landed(tmp_path, Files("shop", tmp_path / "log"))) == gtids("a:1-4 b:1-9 b:17")


def test_a_transaction_of_many_slices_counts_once(tmp_path: Path) -> None:
    rows = [Insert("shop.t", (n, "x" * 9_000)) for n in range(400)]
    table = SpecTable("shop.t", key=["id"], id=INT.NOT_NULL, text=VARCHAR(9_000))
    changes: list[Insert | Commit] = [
        *rows,
        Commit(),
        Insert("shop.t", (99, "")),
        Commit(),
        Insert("shop.t", (100, "")),
        Commit(),
    ]
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "b.000001").write_bytes(SegmentSpec([table], [*changes]).to_bytes())
    gtids = held_gtids(*landed(tmp_path, Files("shop", tmp_path / "log")))
    assert str(gtids).endswith(":1-3")


def test_where_nothing_tells_what_came_before_it_is_refused(tmp_path: Path) -> None:
    write_log(tmp_path / "log", [("a:1", ["a:2", "a:3"])])
    bronze, version, stretch = landed(tmp_path, Files("shop", tmp_path / "log"), "latest")
    assert held_gtids(bronze, version, stretch) == gtids("a:1-3")
    unknown = Stretch(1, stretch.begin)
    with pytest.raises(SourceError, match=r"^which transactions came before b\.000001:\d+, where bronze begins"):
        held_gtids(bronze, version, unknown)


MARIADB = Path("tests/recorded/mariadb-11.4-transactions.000001")


@pytest.mark.parametrize(
    "gtid_text, expected",
    [
        ("0-7-4", "0-7-4"),
        ("0-7-1", "0-7-1"),  # the file's head names it
        ("0-8-4", ""),  # its number was given again by another server
        ("0-7-900", ""),
        ("0-8-4,5-7-1", ""),
    ],
)
def test_a_transaction_of_mariadbs_is_known_by_its_server_too(tmp_path: Path, gtid_text: str, expected: str) -> None:
    (tmp_path / "log").mkdir()
    shutil.copy(MARIADB, tmp_path / "log" / "b.000001")
    bronze, version, stretch = landed(tmp_path, Files("shop", tmp_path / "log"))
    gtids = seen_gtids(bronze, version, [stretch], stretch.begin, DomainGtids.parse(gtid_text))
    assert gtids == DomainGtids.parse(expected)
