"""Files of a table written again: which, and that the rows stay."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from spark_jobs.delta import commits, data_files, deletion_vectors
from spark_jobs.delta.snapshot import DataFile, Snapshot, snapshot_of
from spark_jobs.engine.jobs import rewrite
from spark_jobs.lake.commit import APPLICATION, Checkpoint, CommitKind, new_batch
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from tests.fix_hypothesis import examples
from tests.spark_jobs.delta.tables import begin, newest, rows

MIB = 1 << 20


def sized(snapshot: Snapshot, sizes: Sequence[float], dead: Sequence[float] = ()) -> Snapshot:
    """The snapshot with files of so many MiB, of which parts are dead, as if they were there."""
    files = []
    for at, size in enumerate(sizes):
        part = dead[at] if at < len(dead) else 0
        action: dict[str, Any] = {"path": f"f{at}", "size": int(size * MIB), "modificationTime": at}
        action["stats"] = '{"numRecords": 100}'
        if part:
            vector = {"storageType": "u", "pathOrInlineDv": "v", "offset": 1, "sizeInBytes": 36}
            action["deletionVector"] = vector | {"cardinality": int(100 * part)}
        files.append(DataFile(action))
    return snapshot.with_files(files)


CASES: list[tuple[Sequence[float], Sequence[float], bool, list[list[int]]]] = [
    ([], [], False, []),
    ([0.1], [], False, []),
    ([0.1, 0.1, 0.1], [], False, [[0, 1, 2]]),
    ([100, 0.1], [], False, []),
    ([40, 40, 0.5], [], False, []),  # 40 is too large to be written for the sake of 0.5
    ([40, 0.5, 0.5, 0.5], [], False, [[1, 2, 3]]),
    ([40, 6], [], False, [[0, 1]]),
    ([30, 30, 30, 30], [], False, [[0, 1], [2, 3]]),
    ([100, 0.1], [0.04], False, []),
    ([100, 0.1], [0.05], False, [[0]]),
    ([100, 0.1], [0.01], True, [[0]]),
    ([40, 0.5], [0.5], False, [[0, 1]]),
    ([0.5], [0.01], True, [[0]]),
]


@pytest.mark.parametrize("sizes, dead, purge, groups", CASES)
def test_which_files_are_worth_it(
    tmp_path: Path, sizes: Sequence[float], dead: Sequence[float], purge: bool, groups: list[list[int]]
) -> None:
    snapshot = sized(begin(str(tmp_path / "t")), sizes, dead)
    chosen_groups = rewrite.groups_of(3, snapshot, ("key",), purge=purge)
    assert [[int(file.path[1:]) for file in group.files] for group in chosen_groups] == groups
    assert {group.unit for group in chosen_groups} <= {3}


def stored(folder: Path, contents: Sequence[Sequence[int]], dead: Sequence[set[int]]) -> Table:
    """A table with files of these keys, of which some rows are marked."""
    snapshot = begin(str(folder))
    files = [
        data_files.write(snapshot.path, rows(snapshot.schema, list(keys)), snapshot.schema, snapshot.configuration)
        for keys in contents
    ]
    text = Checkpoint(Position("b.000001", 4), new_batch()).to_json()
    version = commits.commit(snapshot, adds=files, transaction=(APPLICATION, 1), user_metadata=text)
    snapshot = newest(snapshot.path, version)
    marks = [(file, numbers) for file, numbers in zip(snapshot.files, dead, strict=True) if numbers]
    vectors = deletion_vectors.write(snapshot.path, [BitMap64(numbers) for _, numbers in marks], snapshot.configuration)
    updates = [(file, vector) for (file, _), vector in zip(marks, vectors, strict=True)]
    if updates:
        commits.commit(snapshot, dv_updates=updates, transaction=(APPLICATION, 2), user_metadata=text)
    return Table(str(folder), plain=False)


def living(table: Table) -> list[int]:
    """The keys of a table, file by file."""
    snapshot = snapshot_of(table.path)
    assert snapshot is not None
    keys: list[int] = []
    for file in snapshot.files:
        numbers = data_files.read_columns(table.path, file, ["key"], snapshot.schema).column(0).to_pylist()
        alive = deletion_vectors.living_rows_mask(table.path, file.deletion_vector, len(numbers))
        keys += [number for number, is_alive in zip(numbers, alive, strict=True) if is_alive]
    return keys


def rewrite_files(table: Table, sort_key: tuple[str, ...], *, purge: bool = False) -> list[rewrite.Rewritten]:
    snapshot = snapshot_of(table.path)
    assert snapshot is not None
    return list(rewrite.work(rewrite.groups_of(0, snapshot, sort_key, purge=purge)))


@st.composite
def contents(draw: st.DrawFn) -> tuple[list[list[int]], list[set[int]]]:
    files = draw(st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=6, unique=True), min_size=1, max_size=5))
    return files, [draw(st.sets(st.integers(0, len(keys) - 1), max_size=len(keys) - 1)) for keys in files]


@examples(25)
@given(contents(), st.booleans())
def test_rows_stay_and_are_sorted(
    tmp_path_factory: pytest.TempPathFactory, files: tuple[list[list[int]], list[set[int]]], purge: bool
) -> None:
    table = stored(tmp_path_factory.mktemp("table"), *files)
    before, head = living(table), table.head()
    assert head is not None
    results = rewrite_files(table, ("key",), purge=purge)
    if results:
        rewrite.commit(table, results)
        after = table.head()
        assert after is not None
        assert after.checkpoint is not None
        assert (after.version, after.counter) == (head.version + 1, head.counter + 1)
        assert (after.checkpoint.kind, after.position) == (CommitKind.MAINTENANCE, head.position)
        assert [not rewrite_files(table, ("key",), purge=purge), len(table.file_sizes())] == [True, 1]
        assert living(table) == sorted(before)
    assert sorted(living(table)) == sorted(before)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return stored(tmp_path / "t", [[5, 1], [4, 2], [9, 3]], [set(), {1}, set()])


def test_files_without_a_key_keep_their_order(table: Table) -> None:
    rewrite.commit(table, rewrite_files(table, ()))
    assert living(table) == [5, 1, 4, 9, 3]


def test_a_file_without_a_living_row_leaves_none(tmp_path: Path) -> None:
    table = stored(tmp_path / "t", [[1], [2, 3]], [set(), {0, 1}])
    assert len(table.file_sizes()) == 1, "Delta names no file without a row"


def test_what_another_writer_changed_since_is_left_as_it_is(table: Table) -> None:
    results = rewrite_files(table, ("key",))
    snapshot = snapshot_of(table.path)
    assert snapshot is not None
    (vector,) = deletion_vectors.write(table.path, [BitMap64([0])], snapshot.configuration)
    text = Checkpoint(Position("b.000001", 9), new_batch()).to_json()
    counter = (APPLICATION, snapshot.transactions[APPLICATION] + 1)
    commits.commit(snapshot, dv_updates=[(snapshot.files[0], vector)], transaction=counter, user_metadata=text)
    head = table.head()
    rewrite.commit(table, results)
    assert table.head() == head
    assert sorted(living(table)) == [1, 3, 4, 9]


def test_what_was_appended_since_stays_beside_it(table: Table) -> None:
    results = rewrite_files(table, ("key",))
    snapshot = snapshot_of(table.path)
    assert snapshot is not None
    file = data_files.write(table.path, rows(snapshot.schema, [7]), snapshot.schema, snapshot.configuration)
    text = Checkpoint(Position("b.000001", 9), new_batch()).to_json()
    counter = (APPLICATION, snapshot.transactions[APPLICATION] + 1)
    commits.commit(snapshot, adds=[file], transaction=counter, user_metadata=text)
    rewrite.commit(table, results)
    head = table.head()
    assert head is not None
    assert (head.position, len(table.file_sizes())) == (Position("b.000001", 9), 2)
    assert sorted(living(table)) == [1, 3, 4, 5, 7, 9]


def test_a_damaged_file_stops_its_group_by_name(table: Table) -> None:
    snapshot = snapshot_of(table.path)
    assert snapshot is not None
    path = Path(str(snapshot.files[0].location(table.path)))
    path.write_bytes(b"no Parquet")
    (result,) = rewrite_files(table, ("key",))
    assert result.file is None
    assert result.error is not None
    assert path.name in result.error
