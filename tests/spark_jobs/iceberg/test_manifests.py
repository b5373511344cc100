import random
import re
from itertools import pairwise
from typing import Any

import pytest

from spark_jobs.iceberg.avro_files import ADDED, DATA, DELETED, DELETES, EXISTING, File, entries_of
from spark_jobs.iceberg.manifests import FileChanges, Folder, Manifests, NotAsLogged, Numbers

SCHEMA: dict[str, Any] = {"type": "struct", "schema-id": 0, "fields": []}


class Memory:
    """Files of a folder, and which of them were read."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.loaded: list[str] = []
        self.folder = Folder(self.load, self.files.__setitem__, "file:///t/metadata")

    def load(self, name: str) -> bytes:
        self.loaded.append(name)
        return self.files[name]

    def entries(self, manifests: Manifests, content: int) -> dict[str, Any]:
        items = [item for item in manifests.listed if item.content == content]
        entries = [entry for item in items for entry in entries_of(self.files[item.path.rpartition("/")[2]], item)]
        live = [entry for entry in entries if entry.is_live]
        assert len({entry.file.data_file for entry in live}) == len(live)
        return {entry.file.data_file: entry for entry in live}


def path_of(at: int) -> str:
    return f"file:///t/part-{at}.parquet"


def number_in(path: str) -> int:
    return int(re.sub(r"\D", "", path))


def data(at: int) -> File:
    return File(DATA, path_of(at), "PARQUET", 10, 100)


def vector(at: int, count: int) -> File:
    return File(DELETES, "file:///t/v.puffin", "PUFFIN", count, 99, referenced=path_of(at), offset=4, length=5)


def added(*numbers: int) -> FileChanges:
    return FileChanges(added={path_of(at): data(at) for at in numbers})


def numbers(at: int, first_row: int = 0) -> Numbers:
    return Numbers(1000 + at, at + 1, first_row)


def test_files_come_and_go() -> None:
    memory = Memory()
    first = Manifests(memory.folder).after(added(1, 2), numbers(0), SCHEMA)
    assert first.total(DATA) == (2, 20)
    changes = FileChanges({path_of(3): data(3)}, {path_of(1)}, {path_of(2): vector(2, 4), path_of(1): None})
    second = first.after(changes, numbers(1, 20), SCHEMA)
    assert (second.total(DATA), second.total(DELETES), second.added_rows) == ((2, 20), (1, 4), 10)
    live = memory.entries(second, DATA)
    assert {path: (entry.status, entry.sequence) for path, entry in live.items()} == {
        path_of(2): (EXISTING, 1),
        path_of(3): (ADDED, 2),
    }
    (item,) = (item for item in second.listed if item.content == DATA)
    assert (item.files, item.min_sequence, item.first_row_id) == ((1, 1, 1), 1, 20)
    removed = [e for e in entries_of(memory.files[item.path.rpartition("/")[2]], item) if e.status == DELETED]
    assert [(entry.file.data_file, entry.snapshot, entry.file.first_row_id) for entry in removed] == [
        (path_of(1), 1001, 0)
    ]
    third = second.after(FileChanges(vectors={path_of(2): vector(2, 6)}), numbers(2, 30), SCHEMA)
    assert (third.total(DELETES), memory.entries(third, DELETES)[path_of(2)].file.records) == ((1, 6), 6)
    assert [item for item in third.listed if item.content == DATA] == [item]
    fourth = third.after(FileChanges(removed={path_of(2), path_of(3)}, vectors={path_of(2): None}), numbers(3), SCHEMA)
    assert (fourth.total(DATA), fourth.total(DELETES)) == ((0, 0), (0, 0))
    assert {item.files[2] for item in fourth.listed} == {1, 2}
    assert fourth.after(FileChanges(), numbers(4), SCHEMA).listed == []


def test_a_file_that_is_named_again_is_the_same() -> None:
    memory = Memory()
    first = Manifests(memory.folder).after(added(1), numbers(0), SCHEMA)
    second = first.after(added(1), numbers(1, 10), SCHEMA)
    assert (second.total(DATA), second.added_rows) == ((1, 10), 0)


def test_a_file_that_no_manifest_has_cannot_go() -> None:
    first = Manifests(Memory().folder).after(added(1), numbers(0), SCHEMA)
    with pytest.raises(NotAsLogged, match=r"part-7\.parquet: was removed"):
        first.after(FileChanges(removed={path_of(7)}), numbers(1), SCHEMA)


def test_the_work_is_that_of_the_files_that_change() -> None:
    memory = Memory()
    first = Manifests(memory.folder).after(added(*range(5000)), numbers(0), SCHEMA)
    manifests = [item for item in first.listed if item.content == DATA]
    assert len(manifests) == 128
    fresh = Manifests(memory.folder, first.listed)
    before = len(memory.files)
    second = fresh.after(FileChanges({path_of(6000): data(6000)}, {path_of(17)}), numbers(1), SCHEMA)
    assert len(memory.loaded) == 2
    assert len(memory.files) - before == 2
    assert second.total(DATA) == (5000, 50_000)


def test_entries_are_as_if_one_manifest_had_all() -> None:
    rng, memory = random.Random(5), Memory()
    live: dict[str, int | None] = {}
    manifests, first_row = Manifests(memory.folder), 0
    ids: dict[str, int] = {}
    for at in range(40):
        size = rng.choice([0, 3, 3, 3, 200, 600])
        new = [path_of(at * 1000 + number) for number in range(size)]
        candidates = sorted(live)
        removed = set(rng.sample(candidates, min(len(candidates), rng.choice([0, 1, 5, len(live)]))))
        marked = rng.sample(sorted(live.keys() - removed), min(len(live) - len(removed), 4))
        changes = FileChanges({path: data(number_in(path)) for path in new}, removed)
        changes.vectors = {path: None for path in removed if live[path]}
        changes.vectors |= {path: vector(number_in(path), at + 1) for path in marked}
        live = {path: count for path, count in live.items() if path not in removed}
        live |= dict.fromkeys(new) | dict.fromkeys(marked, at + 1)
        manifests = Manifests(memory.folder, manifests.listed).after(changes, numbers(at, first_row), SCHEMA)
        first_row += manifests.added_rows
        entries = memory.entries(manifests, DATA)
        assert set(entries) == set(live)
        vectors = {path: entry.file.records for path, entry in memory.entries(manifests, DELETES).items()}
        assert vectors == {path: count for path, count in live.items() if count}
        for path, entry in entries.items():  # a row has one id as long as it is there
            assert ids.setdefault(path, entry.file.first_row_id or 0) == (entry.file.first_row_id or 0)
        spans = sorted((entry.file.first_row_id or 0) for entry in entries.values())
        assert all(later - earlier >= 10 for earlier, later in pairwise(spans))
        assert not spans or spans[-1] + 10 <= first_row
