"""Files as partitions: their order, their names among several stretches, and the range that some of them make."""

import pytest

from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.bronze.files import BinlogFile, range_of, require_whole
from spark_jobs.errors import ConfigError
from spark_jobs.log.position import Position

HELD = [BinlogFile.parse(text) for text in ("a.000007", "a.000008", "a.000009", "2/b.000003", "2/b.000004")]
INDEX = [{"stretch": 1, "begin": "a.000007:500"}, {"stretch": 2, "begin": "2/b.000003:90"}]
CHECKPOINT = BronzeCommit.from_members(
    {"position": "2/b.000004:77", "batch": "batch", "begin": "a.000007:500", "stretches": INDEX}
)


@pytest.mark.parametrize("text", ["mysql-bin.000042", "2/mysql-bin.000042", "odd.name.1000000"])
def test_a_file_is_written_as_in_a_position(text: str) -> None:
    assert str(BinlogFile.parse(text)) == text
    assert BinlogFile.of(Position.parse(f"{text}:4")) == BinlogFile.parse(text)


@pytest.mark.parametrize("text", ["", "mysql-bin", "mysql-bin.000042:4", "0/mysql-bin.000042"])
def test_what_is_no_file_is_said(text: str) -> None:
    with pytest.raises(ConfigError, match="is no binlog file"):
        BinlogFile.parse(text)


def test_files_are_ordered_by_stretch_and_number_not_by_name() -> None:
    texts = ["a.999999", "a.1000000", "2/a.000001"]
    assert [str(file) for file in sorted(map(BinlogFile.parse, reversed(texts)))] == texts


@pytest.mark.parametrize(
    "first, last, expected",
    [
        ("a.000008", "a.000008", "[a.000008:4, a.000008:99)"),
        ("a.000007", "a.000008", "[a.000007:500, a.000008:99)"),  # bronze begins inside the first
        ("a.000009", "2/b.000003", "[a.000009:4, 2/b.000003:99)"),
        ("2/b.000003", "2/b.000004", "[2/b.000003:90, 2/b.000004:99)"),  # the second stretch does too
    ],
)
def test_a_range_goes_from_the_first_file_to_the_end_of_the_last(first: str, last: str, expected: str) -> None:
    assert str(range_of(BinlogFile.parse(first), BinlogFile.parse(last), 99, CHECKPOINT)) == expected


@pytest.mark.parametrize(
    "files, message",
    [
        (["a.000007", "a.000009"], "between a.000007 and a.000009 bronze holds a.000008 too"),
        (["a.000006", "a.000007"], "bronze does not hold a.000006; it holds a.000007 to 2/b.000004"),
        (["b.000003"], "bronze does not hold b.000003"),
    ],
)
def test_a_hole_and_a_file_that_is_not_held_are_errors(files: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        require_whole([BinlogFile.parse(file) for file in files], HELD)


def test_files_that_follow_each_other_across_stretches_are_whole() -> None:
    require_whole(HELD[1:4], HELD)
