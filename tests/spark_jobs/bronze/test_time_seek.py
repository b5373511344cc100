"""Times in slices, compared with all transactions of the files."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from spark_jobs.binlog import read_commits
from spark_jobs.bronze.data_files import DataFiles
from spark_jobs.bronze.time_seek import LastCommit, last_commit_before
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position, Range
from tests.binlogs import gtid_logs, mariadb_logs
from tests.binlogs.gtid_logs import ServerFolder, land
from tests.lakes.row_logs import cut_at

SECOND = 1_700_000_000
MYSQL = [
    gtid_logs.file_of("", ["a:1", "a:2"], "b.000002"),
    gtid_logs.file_of("a:1-2", ["a:3", "-", "b:1"], "", SECOND + 2),
]
MARIADB = [
    mariadb_logs.file_of("", "0-1-1 0-1-2", "b.000002"),
    mariadb_logs.file_of("0-1-2", "0-1-3 1-1-1 0-1-4", second=SECOND + 2),
]


@pytest.mark.parametrize("target", [1, 700, 1 << 20])
@pytest.mark.parametrize("files", [MYSQL, MARIADB])
def test_each_time_in_each_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: list[bytes], target: int
) -> None:
    folder, table = tmp_path / "log", Lake(str(tmp_path / "lake")).bronze("shop")
    folder.mkdir()
    all_commits: list[tuple[Position, Position, int]] = []
    for number, content in enumerate(files, 1):
        name = f"b.{number:06d}"
        (folder / name).write_bytes(content)
        for commits in read_commits([content], name):
            columns = (commits.start.tolist(), commits.stop.tolist(), commits.committed.tolist())
            all_commits += [
                (Position(name, start), Position(name, stop), micros)
                for start, stop, micros in zip(*columns, strict=True)
            ]
    assert len(all_commits) == 5
    cut_at(monkeypatch, target)
    land(table, ServerFolder(folder, None, "one"))
    head = table.head()
    assert head
    held_files = DataFiles(table, head.version)
    ends = [*(start for start, _, _ in all_commits), all_commits[-1][1]]
    for first, after in ((0, 2), (0, 5), (2, 5)):  # parts of files
        part, inside = Range(ends[first], ends[after]), all_commits[first:after]
        for halves in range(-1, 12):
            moment = datetime.fromtimestamp(SECOND, UTC) + timedelta(seconds=halves / 2)
            logged_moment = moment if files is MYSQL else moment.replace(microsecond=0)
            limit = round(logged_moment.timestamp() * 1_000_000)
            earlier = [(stop, micros) for _, stop, micros in inside if micros < limit]
            expected = LastCommit(earlier[-1][0], len(earlier) == len(inside), earlier[-1][1]) if earlier else None
            assert last_commit_before(held_files, part, moment) == expected, (part, moment)
