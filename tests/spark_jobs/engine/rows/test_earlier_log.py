"""Which log before windows tells what row images leave out."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.bronze.index import OF_TABLE
from spark_jobs.engine.rows.earlier_log import log_before, newest_slices, numbered_from
from spark_jobs.lake.commit import CommitKind
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.silver.commit import SilverCommit
from tests.binlogs.partial_changes import TABLE

OTHER = replace(TABLE, columns=TABLE.columns[:2])


def at(offset: int) -> Position:
    return Position("b.000001", offset)


def window(start: int, stop: int) -> Range:
    return Range(at(start), at(stop))


def commit(stop: int, start: int | None = None, kind: CommitKind = CommitKind.LIVE) -> SilverCommit:
    begin = None if start is None else at(start)
    return SilverCommit(at(stop), "batch", kind=kind, start=begin, definition=TABLE)


LIVE = [commit(200, 100), commit(300, 200), commit(400, 300)]


@pytest.mark.parametrize(
    "commits, windows, oldest, skips, expected",
    [
        (LIVE, [window(400, 500)], 0, [], [window(100, 400)]),
        (LIVE, [window(400, 500)], 250, [], [window(250, 400)]),
        (LIVE, [window(200, 300)], 0, [], [window(100, 200)]),
        (LIVE, [window(100, 200), window(300, 400)], 0, [], [window(200, 300)]),
        (LIVE, [window(100, 200)], 0, [], []),
        (LIVE, [window(400, 500)], 0, [220], [window(300, 400)]),
        (LIVE, [window(400, 500)], 0, [320], []),
        (LIVE, [window(400, 500)], 0, [420], [window(100, 400)]),
        ([*LIVE, commit(400, kind=CommitKind.MAINTENANCE)], [window(400, 500)], 0, [], [window(100, 400)]),
        ([*LIVE, commit(400, kind=CommitKind.REDO)], [window(400, 500)], 0, [], [window(100, 400)]),
        (
            [LIVE[0], commit(210, 200, CommitKind.CHANGE), commit(400, 210)],
            [window(400, 500)],
            0,
            [],
            [window(210, 400)],
        ),
        ([*LIVE[:2], commit(300, kind=CommitKind.MEND), LIVE[2]], [window(400, 500)], 0, [], [window(300, 400)]),
        ([*LIVE, commit(400, kind=CommitKind.LOAD)], [window(400, 500)], 0, [], [window(100, 400)]),
        ([LIVE[0], LIVE[2]], [window(400, 500)], 0, [], [window(300, 400)]),
        ([replace(LIVE[0], definition=OTHER), *LIVE[1:]], [window(400, 500)], 0, [], [window(200, 400)]),
        ([], [window(400, 500)], 0, [], []),
    ],
)
def test_it_is_the_log_of_windows_since_anything_else_changed_rows(
    commits: list[SilverCommit],
    windows: list[Range],
    oldest: int,
    skips: list[int],
    expected: list[Range],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    listed = [*enumerate(commits)][::-1]
    monkeypatch.setattr(Table, "since", lambda *_: listed)
    monkeypatch.setattr(SilverCommit, "of", staticmethod(lambda checkpoint: checkpoint))
    found = log_before(Table(str(tmp_path), plain=True), TABLE, windows, at(oldest), [*map(at, skips)])
    assert [*found.ranges] == expected


LOAD = commit(400, 250, CommitKind.LOAD)


@pytest.mark.parametrize(
    "commits, windows, oldest, skips, log, loads",
    [
        ([*LIVE, LOAD], [window(400, 500)], 0, [], [window(100, 400)], [window(250, 400)]),
        ([*LIVE, LOAD, commit(500, 400)], [window(500, 600)], 0, [], [window(100, 500)], [window(250, 400)]),
        ([LIVE[0], LOAD], [window(400, 500)], 0, [], [window(100, 400)], [window(250, 400)]),
        ([LOAD], [window(400, 500)], 0, [], [window(250, 400)], [window(250, 400)]),
        ([commit(400, 400, CommitKind.LOAD)], [window(400, 500)], 0, [], [], [window(400, 400)]),
        ([*LIVE, LOAD], [window(100, 200), window(200, 300)], 0, [], [], [window(250, 400)]),
        ([*LIVE, LOAD], [window(400, 500)], 260, [], [window(260, 400)], []),
        ([*LIVE, LOAD], [window(400, 500)], 0, [320], [], []),
        ([*LIVE, LOAD], [window(400, 500)], 0, [120], [window(200, 400)], [window(250, 400)]),
        ([*LIVE, LOAD, commit(401, 400, CommitKind.CHANGE)], [window(401, 500)], 0, [], [], []),
        ([*LIVE, LOAD, commit(400, kind=CommitKind.MEND)], [window(400, 500)], 0, [], [], []),
        ([*LIVE, LOAD, commit(300, 100), commit(400, 300)], [window(300, 400)], 0, [], [window(100, 300)], []),
        (
            [*LIVE, LOAD, commit(401, 400, CommitKind.CHANGE), commit(500, 401), commit(600, 500)],
            [window(200, 400), window(500, 600)],
            0,
            [],
            [window(100, 200), window(401, 500)],
            [window(250, 400)],
        ),
        ([*LIVE[:2], commit(301, 300, CommitKind.CHANGE), LOAD], [window(400, 500)], 0, [], [], []),
        (
            [*LIVE[:2], commit(301, 300, CommitKind.CHANGE), commit(380, 301), LOAD],
            [window(400, 500)],
            0,
            [],
            [window(301, 400)],
            [],
        ),
        ([replace(LIVE[0], definition=OTHER), LOAD], [window(400, 500)], 0, [], [window(250, 400)], [window(250, 400)]),
        ([*(replace(part, definition=OTHER) for part in LIVE), LOAD], [window(400, 500)], 0, [], [], []),
        (
            [*LIVE, LOAD, commit(500, 400), commit(600, 450, CommitKind.LOAD)],
            [window(600, 700)],
            0,
            [],
            [window(100, 600)],
            [window(250, 400), window(450, 600)],
        ),
    ],
)
def test_a_load_tells_of_rows_where_no_log_since_it_began_is_missing(
    commits: list[SilverCommit],
    windows: list[Range],
    oldest: int,
    skips: list[int],
    log: list[Range],
    loads: list[Range],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    listed = [*enumerate(commits)][::-1]
    monkeypatch.setattr(Table, "since", lambda *_: listed)
    monkeypatch.setattr(SilverCommit, "of", staticmethod(lambda checkpoint: checkpoint))
    found = log_before(Table(str(tmp_path), plain=True), TABLE, windows, at(oldest), [*map(at, skips)])
    assert ([*found.ranges], [*found.loads]) == (log, loads)


def test_slices_are_read_from_the_newest_on() -> None:
    columns = {field.name: pa.nulls(3, field.type) for field in OF_TABLE}
    columns |= {"bytes": pa.array([10, 20, 30], pa.int64()), "window": pa.array([0, 0, 1], pa.int32())}
    slices = pa.table(columns, OF_TABLE)
    sizes = {limit: newest_slices(slices, limit).column("bytes").to_pylist() for limit in (1, 30, 31, 50, 51)}
    assert sizes == {1: [30], 30: [30], 31: [20, 30], 50: [20, 30], 51: [10, 20, 30]}
    assert numbered_from(slices, 2).column("window").to_pylist() == [2, 2, 3]
