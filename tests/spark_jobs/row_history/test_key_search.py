"""Traces by indexes of keys, against those that decode every slice."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.binlog import TableName
from spark_jobs.bronze.effective_slices import EffectiveSlices
from spark_jobs.changes.table_definitions import HistoryDefinitions
from spark_jobs.delta import index_files
from spark_jobs.errors import ConfigError
from spark_jobs.row_history import key_search, trace
from spark_jobs.row_history.key_search import _hashes, keep_indexes
from tests.binlogs.segment_spec import Change, Commit, Delete, Insert, SegmentSpec, Statement, Table, Update
from tests.binlogs.segment_types import INT, VARCHAR
from tests.lakes.consumers import SOURCE, Shop, order
from tests.lakes.row_logs import ORDERS, cut_at, summary, traced

OTHER = TableName("shop", "other")
HASHES = ("1", 8887001575407956608, 6552976130779330739, 2565182571508307597)


@pytest.fixture(autouse=True)
def _small_files_have_indexes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of one event, and an index of each data file."""
    cut_at(monkeypatch, 1)
    monkeypatch.setattr(key_search, "_LEAST", 1)


@pytest.fixture
def decoded_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files of the slices that a trace decodes; of building an index none."""
    files, real = list[str](), EffectiveSlices._located_slices

    def noting(self: EffectiveSlices, index: Any, row: int) -> Any:
        log_slice = real(self, index, row)
        files.append(log_slice.position.file)
        return log_slice

    monkeypatch.setattr(EffectiveSlices, "_located_slices", noting)
    return files


def indexes(shop: Shop) -> list[Path]:
    return sorted(index_files.index_files(shop.lake.bronze(SOURCE).path))


def decoded(shop: Shop, monkeypatch: pytest.MonkeyPatch, **choice: Any) -> list[dict[str, Any]]:
    """The same trace without indexes."""
    with monkeypatch.context() as patch:
        patch.setattr(key_search, "_LEAST", 1 << 30)
        return traced(shop, **choice)


def test_only_slices_with_changes_of_the_key_are_decoded(tmp_path: Path, decoded_files: list[str]) -> None:
    shop = Shop(tmp_path)
    for number in range(1, 6):
        shop.log([change for at in range(10 * number, 10 * number + 10) for change in order(at)])
    shop.log([Update("shop.orders", (35, "n35"), (99, "x")), Commit()])
    for _ in ("built", "opened"):
        decoded_files.clear()
        assert [entry["file"] for entry in traced(shop, keys=("35",))] == ["b.000003", "b.000006"]
        assert decoded_files == ["b.000003", "b.000006"] * 2  # again, with the key that it moved to
        assert len(indexes(shop)) == 6
    assert traced(shop, keys=("7",)) == []
    # Hashes of keys, and no value of them.
    assert not any(b'"n35"' in path.read_bytes() or b'"35"' in path.read_bytes() for path in indexes(shop))


def test_a_table_that_a_file_does_not_have_is_no_slice_there(tmp_path: Path, decoded_files: list[str]) -> None:
    shop = Shop(tmp_path)
    shop.log(order(1))
    shop.log([Insert("shop.other", (1,)), Commit()])
    assert len(traced(shop, OTHER, keys=("1",))) == 1
    assert decoded_files == ["b.000002"]


def test_hashes_stay_as_they_are() -> None:
    """An index has them: where they become others, ``_TEXTS`` has to become another version."""
    assert (key_search._TEXTS, *_hashes(pa.array(["1", "42", '"a", 7', None])).tolist()) == HASHES


@pytest.mark.parametrize("content", [b"", b"x" * 200, None], ids=["empty", "another", "cut"])
def test_a_damaged_index_is_built_again(tmp_path: Path, content: bytes | None) -> None:
    shop = Shop(tmp_path)
    shop.log([*order(1), *order(2)])
    expected = traced(shop, keys=("2",))
    (path,) = indexes(shop)
    before = path.read_bytes()
    path.write_bytes(before[: len(before) // 2] if content is None else content)
    for _ in ("damaged", "again"):
        assert traced(shop, keys=("2",)) == expected
    assert path.read_bytes() == before


def test_a_part_of_a_file_builds_no_index(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.log([*order(1), *order(2)])
    shop.log(order(3))
    first, second, _ = (entry["transaction"] for entry in traced(shop))
    assert len(traced(shop, keys=("1", "2", "3"), start=second)) == 2
    assert len(indexes(shop)) == 1
    traced(shop, keys=("1",))
    assert len(indexes(shop)) == 2
    # One that is there is asked, and the range counts.
    assert [entry["key"]["id"] for entry in traced(shop, keys=("1", "2"), start=second)] == [2]
    assert [entry["key"]["id"] for entry in traced(shop, keys=("1", "2"), start=first, stop=second)] == [1]


def test_the_key_is_that_of_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that was a number, and then is a text."""
    shop = Shop(tmp_path)
    shop.log(order(1))
    wider = Table("shop.orders", key=["id"], id=VARCHAR(20), note=VARCHAR(20))
    shop.log(
        [Statement("shop", "ALTER TABLE orders MODIFY id VARCHAR(20)"), Update("shop.orders", ("1", "n1"), ("1", "x")),
         Commit()],
        SegmentSpec([wider]),
    )  # fmt: skip
    expected = decoded(shop, monkeypatch, keys=("1",))
    assert [entry["op"] for entry in expected] == ["insert", "ddl", "update"]
    assert traced(shop, keys=("1",)) == traced(shop, keys=("1",)) == expected
    # A text is no key of the first definition, with an index or without.
    for _ in ("built", "opened"):
        with pytest.raises(ConfigError, match=r"--key 'x': id of shop\.orders is int, and this is no value of it"):
            traced(shop, keys=("x",))
    assert [entry["op"] for entry in traced(shop, keys=("x",), start="b.000002:4")] == ["ddl"]


def test_what_the_lake_learns_of_a_table_makes_its_indexes_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path)
    shop.log(order(1))
    facts = ["one"]
    monkeypatch.setattr(HistoryDefinitions, "facts", lambda *_: facts)
    traced(shop, keys=("1",))
    (path,) = indexes(shop)
    before = path.read_bytes()
    traced(shop, keys=("1",))
    assert path.read_bytes() == before
    facts.append("two")
    assert len(traced(shop, keys=("1",))) == 1
    assert path.read_bytes() != before


def test_a_masked_key_is_refused_whether_it_is_there_or_not(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.log(order(1))
    traced(shop, keys=("1",))
    shop.keys = "columns:\n  hidden: {tables: [shop.orders], mask: {id: {constant: 0}}}\n"
    for key in ("1", "2"):
        with pytest.raises(ConfigError, match=r"--key: columns\.hidden keeps values of column id out"):
            traced(shop, keys=(key,))
        assert len(traced(shop, keys=(key,), is_raw=True)) == (key == "1")


def test_a_renamed_table_has_indexes_of_both_names(tmp_path: Path, decoded_files: list[str]) -> None:
    shop = Shop(tmp_path)
    shop.log([*order(1), *order(2)])
    shop.log([Statement("shop", "RENAME TABLE orders TO past")])
    past = Table("shop.past", key=["id"], id=INT.NOT_NULL, note=VARCHAR(20))
    shop.log([Update("shop.past", (1, "n1"), (1, "x")), Commit()], SegmentSpec([past]))
    for _ in ("built", "opened"):
        decoded_files.clear()
        entries = traced(shop, TableName("shop", "past"), keys=("1",))
        assert [entry["op"] for entry in entries] == ["insert", "ddl", "update"]
        assert decoded_files == ["b.000001", "b.000003"]


def test_without_a_key_there_is_no_index(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    keyless = Table("shop.orders", key=[], id=INT.NOT_NULL, note=VARCHAR(20))
    shop.log(order(1), SegmentSpec([keyless]))
    with pytest.raises(ConfigError, match=r"shop\.orders has no key; choose rows by --where"):
        traced(shop, keys=("1",))
    assert indexes(shop) == []


def test_maintenance_keeps_the_indexes_of_tables_that_were_traced(tmp_path: Path, decoded_files: list[str]) -> None:
    shop = Shop(tmp_path)
    shop.log(order(1))
    assert keep_indexes(shop.lake, SOURCE) == 0
    traced(shop, keys=("1",))
    shop.log([*order(2), Insert("shop.other", (1,)), Commit()])
    # An index of a data file that is gone says which table was traced, as well as any other one.
    (path,) = indexes(shop)
    path.rename(path.with_name(f"gone.parquet{path.name.partition('.parquet')[2]}"))
    path.with_name("other.parquet.keys").write_bytes(b"an index of something else")
    assert keep_indexes(shop.lake, SOURCE) == 2
    assert len(indexes(shop)) == 2
    assert keep_indexes(shop.lake, SOURCE) == 0
    decoded_files.clear()
    assert len(traced(shop, keys=("2",))) == 1
    assert decoded_files == ["b.000002"]


def test_slices_that_are_not_kept_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decoded_files: list[str]
) -> None:
    monkeypatch.setattr(trace, "_KEPT", 0)
    shop = Shop(tmp_path)
    shop.log([*order(1), *order(2), Update("shop.orders", (1, "n1"), (1, "x")), Commit()])
    assert [entry[0] for entry in summary(traced(shop, keys=("1",)))] == ["insert", "update"]
    assert len(decoded_files) == 4


def compare_random_traces(folder: Path, seed: int, keys: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that move, come again and are emptied, in files that a range covers in part."""
    # A log of five files, then traces of some keys in parts of it.
    dice, shop, rows = random.Random(seed), Shop(folder), dict[int, str]()
    for _ in range(5):
        changes: list[Change] = []
        for at in range(12):
            key, new = dice.randrange(8), dice.randrange(8)
            if key not in rows:
                rows[key] = f"n{at}"
                changes.append(Insert("shop.orders", (key, rows[key])))
            elif dice.random() < 0.2:
                changes.append(Delete("shop.orders", (key, rows.pop(key))))
            elif new not in rows:
                changes.append(Update("shop.orders", (key, rows[key]), (new, rows[key])))
                rows[new] = rows.pop(key)
            else:
                changes.append(Update("shop.orders", (key, rows[key]), (key, f"m{at}")))
                rows[key] = f"m{at}"
            changes += [Commit()] if dice.random() < 0.5 else []
        changes.append(Commit())
        if dice.random() < 0.3:
            changes.append(Statement("shop", "TRUNCATE orders"))
            rows.clear()
        shop.log(changes)
    entries = [entry for entry in traced(shop) if "transaction" in entry]
    positions = list(dict.fromkeys(entry["transaction"] for entry in entries))
    for key in dice.sample(range(8), keys):
        start, stop = (positions[at] for at in sorted(dice.sample(range(len(positions)), 2)))
        bounds = dice.choice([{}, {"start": start}, {"stop": stop}, {"start": start, "stop": stop}])
        expected = decoded(shop, monkeypatch, keys=(str(key),), **bounds)
        for _ in ("built", "opened"):
            assert traced(shop, ORDERS, keys=(str(key),), **bounds) == expected, (seed, key)


@pytest.mark.thorough
def test_random_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare_random_traces(tmp_path, 1, 2, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_many_random_traces(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compare_random_traces(tmp_path, seed, 8, monkeypatch)
