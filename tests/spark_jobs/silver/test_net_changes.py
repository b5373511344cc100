from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog import Changes
from spark_jobs.errors import Unsupported
from spark_jobs.silver.net_changes import (
    DELETE,
    INSERT,
    UPDATE,
    SliceOrigin,
    exact_texts,
    first_and_last_rows,
    image_rows,
    net_rows,
    one_row_per_key,
)
from tests.fix_hypothesis import examples

Row = dict[str, Any]
COLUMNS = {"id": pa.int32(), "part": pa.string(), "note": pa.string()}
KEY = ("id", "part")
BEGAN = datetime(2026, 11, 21, tzinfo=UTC)


@dataclass(frozen=True)
class Change:
    """One change as the log has it; ``at`` numbers the log's changes, ``window`` is where it falls."""

    at: int
    window: int
    before: Row | None
    after: Row | None

    @property
    def op(self) -> int:
        return INSERT if self.before is None else DELETE if self.after is None else UPDATE

    @property
    def position(self) -> tuple[int, int, int, int]:
        """Stretch, number, offset, row: several changes share an event, and files and stretches follow each other."""
        return 1 + self.at // 20, 8 + self.at // 5, 100 + self.at % 5 // 2, self.at % 5 % 2


def image(rows: Iterable[Row | None], columns: dict[str, pa.DataType] = COLUMNS) -> pa.RecordBatch:
    rows = list(rows)
    arrays = [pa.array([row and row[name] for row in rows], kind) for name, kind in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def batch(changes: Sequence[Change], columns: dict[str, pa.DataType] = COLUMNS) -> Changes:
    """Changes as the decoder gives them: a delete's row stands in ``after``, ``before`` is for updates alone."""
    return Changes(
        op=pa.array([change.op for change in changes], pa.uint8()),
        offset=pa.array([change.position[2] for change in changes], pa.int64()),
        row=pa.array([change.position[3] for change in changes], pa.int32()),
        committed_at=pa.array([BEGAN + timedelta(seconds=change.at) for change in changes], pa.timestamp("us", "UTC")),
        gtid=None,
        after=image([change.after or change.before for change in changes], columns),
        before=image([change.before if change.op == UPDATE else None for change in changes], columns),
        raw=None,
        before_raw=None,
    )


def decoded(changes: Sequence[Change]) -> list[pa.Table]:
    """The rows of changes that lie in one window and file."""
    stretch, number, *_ = changes[0].position
    origin = SliceOrigin(f"mysql-bin.{number:06d}", stretch, number, changes[0].window)
    return list(net_rows(batch(changes), origin, list(COLUMNS), KEY))


def state_of(rows: pa.Table) -> dict[Any, Any]:
    """What is left of rows by window and key, as window_rows.py has it; a deleted row's values say nothing."""
    by_key: dict[Any, Any] = {}
    for row in sorted(rows.to_pylist(), key=lambda row: tuple(row["_position"].values())):
        name = (row["_window"], row["id"], row["part"])
        existed, *_, counted, micros = by_key.get(name, (row["_existed"], None, None, 0, 0))
        note = row["note"] if row["_exists"] else None
        by_key[name] = (existed, row["_exists"], note, counted + row["_changes"], max(micros, row["_micros"]))
    return by_key


def simulated(changes: Sequence[Change]) -> dict[Any, Any]:
    """The slow twin: a dict that is kept up to date change by change, asked at both ends of every window."""
    by_key: dict[Any, Any] = {}

    def note(change: Change, row: Row, existed: bool, exists: bool, counted: int) -> None:
        micros = int((BEGAN + timedelta(seconds=change.at)).timestamp() * 1e6)
        name = (change.window, row["id"], row["part"])
        first, *_, count, _ = by_key.get(name, (existed, None, None, 0, 0))
        by_key[name] = (first, exists, row["note"] if exists else None, count + counted, micros)

    for change in changes:
        moved = change.op == UPDATE and key_of(change.before) != key_of(change.after)
        if moved and change.before:
            note(change, change.before, existed=True, exists=False, counted=0)
        row = change.after or change.before
        assert row
        note(change, row, existed=change.op != INSERT and not moved, exists=change.op != DELETE, counted=1)
    return by_key


def key_of(row: Row | None) -> tuple[Any, ...]:
    assert row
    return tuple(row[name] for name in KEY)


@st.composite
def histories(draw: st.DrawFn) -> list[Change]:
    """A log that could have been: inserts where no row is, updates and deletes where one is; few keys."""
    keys = [(number, part) for number in (1, 2) for part in ("a", "A")]
    all_rows: dict[tuple[Any, ...], Row] = {
        key: {"id": key[0], "part": key[1], "note": "old"} for key in draw(st.sets(st.sampled_from(keys)))
    }
    changes = []
    for at in range(draw(st.integers(1, 40))):
        key, into = draw(st.sampled_from(keys)), draw(st.sampled_from(keys))
        row = {"id": key[0], "part": key[1], "note": draw(st.sampled_from(["x", "y", None]))}
        before = all_rows.pop(key, None)
        if before and draw(st.booleans()):
            after = None
        elif before and into not in all_rows:
            after = row | {"id": into[0], "part": into[1]}
        else:
            after = row
        if after:
            all_rows[key_of(after)] = after
        changes.append(Change(at, at // 15, before, after))
    return changes


def runs(changes: Sequence[Change], cuts: Sequence[bool]) -> Iterator[Sequence[Change]]:
    """The changes cut where the file or the window ends, and wherever ``cuts`` says."""
    start = 0
    for at in range(1, len(changes) + 1):
        here = changes[at - 1]
        ends = at == len(changes) or (here.position[:2], here.window) != (changes[at].position[:2], changes[at].window)
        if ends or cuts[at % len(cuts)]:
            yield changes[start:at]
            start = at


@examples(40)
@given(histories(), st.lists(st.booleans(), min_size=1, max_size=7), st.randoms(use_true_random=False))
def test_net_rows_reduced_are_what_a_dict_remembers(changes: list[Change], cuts: list[bool], chance: Any) -> None:
    pieces = [table for run in runs(changes, cuts) for table in decoded(run)]
    chance.shuffle(pieces)
    assert state_of(first_and_last_rows(pa.concat_tables(pieces), KEY)) == simulated(changes)
    rows_by_key = one_row_per_key(pa.concat_tables(pieces), KEY)
    assert state_of(rows_by_key) == simulated(changes)
    assert len(rows_by_key) == len(simulated(changes))


@examples(20)
@given(histories(), st.lists(st.booleans(), min_size=1, max_size=7), st.randoms(use_true_random=False))
def test_reducing_in_any_grouping_is_reducing_all(changes: list[Change], cuts: list[bool], chance: Any) -> None:
    """A task's slices need not be neighbours in the log: files are handed to tasks by size."""
    pieces = [table for run in runs(changes, cuts) for table in decoded(run)]
    all_rows = first_and_last_rows(pa.concat_tables(pieces), KEY)
    while len(pieces) > 1:
        chance.shuffle(pieces)
        pieces = [first_and_last_rows(pa.concat_tables(pieces[:2]), KEY), *pieces[2:]]
    assert ordered(first_and_last_rows(pieces[0], KEY)) == ordered(all_rows)


@examples(20)
@given(histories())
def test_at_most_the_first_and_the_last_row_of_a_key_are_kept(changes: list[Change]) -> None:
    reduced = first_and_last_rows(
        pa.concat_tables([table for run in runs(changes, [False]) for table in decoded(run)]), KEY
    )
    key_list = [(row["_window"], row["id"], row["part"]) for row in reduced.to_pylist()]
    assert max(map(key_list.count, key_list)) <= 2


def ordered(rows: pa.Table) -> list[Row]:
    return sorted(rows.to_pylist(), key=lambda row: (row["_micros"], row["_exists"], row["_changes"]))


def change_rows(before: Row | None, after: Row | None) -> list[pa.Table]:
    return decoded([Change(0, 0, before, after)])


A = {"id": 1, "part": "a", "note": "x"}


@pytest.mark.parametrize(
    "before, after, rows",
    [
        (None, A, [(1, "a", "x", False, True, 1)]),
        (A, A | {"note": None}, [(1, "a", None, True, True, 1)]),
        (A, None, [(1, "a", "x", True, False, 1)]),
        (A, A | {"id": 2}, [(2, "a", "x", False, True, 1), (1, "a", "x", True, False, 0)]),
        (A, A | {"part": "A"}, [(1, "A", "x", False, True, 1), (1, "a", "x", True, False, 0)]),
    ],
)
def test_one_change_is_one_row_and_a_moved_key_two(before: Row | None, after: Row | None, rows: list[Any]) -> None:
    names = ("id", "part", "note", "_existed", "_exists", "_changes")
    all_rows = [tuple(row[name] for name in names) for table in change_rows(before, after) for row in table.to_pylist()]
    assert all_rows == rows


def row_of(id_: int, note: str) -> Row:
    return {"id": id_, "part": "a", "note": note}


@pytest.mark.parametrize(
    "changes, expected",
    [
        ([(None, (1, "2")), ((1, "2"), (1, "4"))], {1: (False, "4")}),  # D01
        ([(None, (1, "2")), ((1, "2"), None)], {1: (False, None)}),  # D02
        ([((1, "2"), (1, "3")), ((1, "3"), (1, "4"))], {1: (True, "4")}),  # D03
        ([((1, "2"), (1, "3")), ((1, "3"), None)], {1: (True, None)}),
        ([((1, "a"), None), (None, (1, "b")), ((1, "b"), (1, "c"))], {1: (True, "c")}),  # D04
        (  # D05, D06: the key that another row had comes back to it
            [(None, (1, "a")), (None, (2, "b")), ((1, "a"), (3, "c")), ((2, "b"), None), (None, (1, "a"))],
            {1: (False, "a"), 2: (False, None), 3: (False, "c")},
        ),
        (  # D07: a chain
            [((3, "x"), (4, "x")), ((2, "y"), (3, "y")), ((1, "z"), (2, "z"))],
            {1: (True, None), 2: (True, "z"), 3: (True, "y"), 4: (False, "x")},
        ),
        (  # D08: a swap by way of a third
            [((1, "x"), (9, "x")), ((2, "y"), (1, "y")), ((9, "x"), (2, "x"))],
            {1: (True, "y"), 2: (True, "x"), 9: (False, None)},
        ),
    ],
)
def test_what_a_window_leaves_of_a_key(changes: list[Any], expected: dict[int, tuple[bool, str | None]]) -> None:
    """By key, whether it was there before the window, and its row behind it; None for a key that is gone."""
    log = [Change(at, 0, *(row_image and row_of(*row_image) for row_image in pair)) for at, pair in enumerate(changes)]
    state = state_of(first_and_last_rows(pa.concat_tables(decoded(log)), KEY))
    assert {
        key: (existed, note if exists else None) for (_, key, _), (existed, exists, note, *_) in state.items()
    } == expected


def test_the_position_orders_by_stretch_then_number_then_offset_then_row() -> None:
    (table,) = change_rows(None, A)
    later = {"stretch": [1, 1, 1, 2], "number": [1_000_000, 9, 9, 9], "offset": [4, 99, 100, 4], "row": [0, 9, 0, 0]}
    rows = pa.concat_tables([table] * 4)
    position = pa.StructArray.from_arrays(
        [pa.array(values, rows.schema.field("_position").type.field(name).type) for name, values in later.items()],
        names=list(later),
    )
    for column, values in {"_position": position, "note": pa.array(["million", "a", "b", "second"])}.items():
        rows = rows.set_column(rows.schema.get_field_index(column), column, values)
    for size, last in [(4, "second"), (3, "million")]:
        assert first_and_last_rows(rows.slice(0, size), KEY).column("note").to_pylist() == ["a", last]
    assert first_and_last_rows(rows.slice(1, 2), KEY).column("note").to_pylist() == ["a", "b"]


@pytest.mark.parametrize("name", ["_at", "_exact"])
def test_a_column_may_have_the_name_that_a_reduction_uses(name: str) -> None:
    rows = pa.concat_tables(change_rows(None, row_of(1, "a")) + change_rows(row_of(1, "a"), row_of(1, "b")))
    rows = rows.rename_columns([name if column == "note" else column for column in rows.column_names])
    assert one_row_per_key(rows, KEY).column(name).to_pylist() == ["b"]


def test_exact_texts_go_with_their_row() -> None:
    changes = batch([Change(0, 0, None, A), Change(1, 0, None, A | {"id": 2})])
    raw = pa.array([[("note", "ff")], None], pa.map_(pa.string(), pa.string()))
    exact = Changes(**{name: getattr(changes, name) for name in Changes.__slots__} | {"raw": raw})
    (table,) = net_rows(exact, SliceOrigin("mysql-bin.000008", 1, 8, 0), list(COLUMNS), KEY)
    assert {row["id"]: row["_raw"] for row in first_and_last_rows(table, KEY).to_pylist()} == {
        1: [("note", "ff")],
        2: None,
    }


def keyed(
    kind: pa.DataType, *moves: tuple[Any, Any], exact: Sequence[tuple[str | None, str | None]] = ()
) -> list[tuple[Any, Any, bool, bool]]:
    """Updates of a table whose key is ``k``: key, exact text, and whether it existed and exists, by position."""
    changes = batch([Change(at, 0, {"k": old}, {"k": new}) for at, (old, new) in enumerate(moves)], {"k": kind})
    if exact:
        raws = (pa.array([text and [("k", text)] for text in side], RAW) for side in zip(*exact, strict=True))
        raw_columns = dict(zip(("before_raw", "raw"), raws, strict=True))
        changes = Changes(**{name: getattr(changes, name) for name in Changes.__slots__} | raw_columns)
    rows = pa.concat_tables(net_rows(changes, SliceOrigin("b.000001", 1, 8, 0), ["k"], ["k"]))
    rows_by_key = one_row_per_key(rows, ["k"]).to_pylist()
    all_rows = [(row["k"], dict(row["_raw"] or []).get("k"), row["_existed"], row["_exists"]) for row in rows_by_key]
    return sorted(all_rows, key=repr)


RAW = pa.map_(pa.string(), pa.string())


def test_keys_are_told_apart_by_the_bytes_stored() -> None:
    assert keyed(pa.string(), ("a", "A")) == [("A", None, False, True), ("a", None, True, False)]
    assert keyed(pa.string(), ("a", "a ")) == [("a ", None, False, True), ("a", None, True, False)]
    assert keyed(pa.binary(), (b"a", b"a\0")) == [(b"a", None, True, False), (b"a\0", None, False, True)]


def test_zero_and_less_than_zero_are_one_number() -> None:
    (row,) = keyed(pa.float64(), (0.0, -0.0), (-0.0, -0.0))
    assert repr(row[0]) == "-0.0", "the last one written stays as it was written"
    assert row[2:] == (True, True)


def test_keys_that_no_column_holds_are_told_apart_by_their_exact_texts() -> None:
    zero, half = "0000-00-00", "2024-00-00"
    assert keyed(pa.date32(), (None, None), (None, None), exact=[(zero, zero), (half, zero)]) == [
        (None, zero, True, True),
        (None, half, True, False),
    ], "the second update moved one key onto the other"
    day = date(2024, 1, 1)
    assert keyed(pa.date32(), (None, day), (day, day), exact=[(zero, None), (None, None)]) == [
        (None, zero, True, False),
        (day, None, False, True),
    ]


def test_a_column_of_a_composite_key_and_its_exact_text() -> None:
    """('x', ff) and (ff, 'x') are two keys, and so are texts that only together are the same."""
    kinds = {"a": pa.string(), "b": pa.string()}
    images = [(None, "x"), ("x", None), (None, None), (None, None)]
    raws = [[("a", "ff")], [("b", "ff")], [("a", "f"), ("b", "ff")], [("a", "ff"), ("b", "f")]]
    changes = batch(
        [Change(at, 0, None, dict(zip("ab", row_image, strict=True))) for at, row_image in enumerate(images)], kinds
    )
    raw_columns = {"raw": pa.array(raws, RAW)}
    changes = Changes(**{name: getattr(changes, name) for name in Changes.__slots__} | raw_columns)
    rows = pa.concat_tables(net_rows(changes, SliceOrigin("b.000001", 1, 8, 0), ["a", "b"], ["a", "b"]))
    assert len(one_row_per_key(rows, ["a", "b"])) == 4
    assert len(first_and_last_rows(pa.concat_tables([rows.slice(1), rows.slice(1)]), ["a", "b"])) == 6, (
        "slices of them, too"
    )


def test_a_time_that_no_column_holds_is_one_with_more_digits() -> None:
    """A statement that gives a DATETIME more digits of a second changes no text that is there."""
    short, long = "0000-00-00 00:00:00", "0000-00-00 00:00:00.000000"
    half, halves = "2024-00-00 00:00:00.5", "2024-00-00 00:00:00.500"
    nulls: Any = (None, None)
    assert keyed(pa.timestamp("us"), nulls, nulls, exact=[(short, long), (long, short)]) == [(None, short, True, True)]
    assert keyed(pa.timestamp("us"), nulls, exact=[(half, halves)]) == [(None, halves, True, True)]
    assert len(keyed(pa.timestamp("us"), nulls, exact=[(half, long)])) == 2
    numbers = pa.array([[("k", text)] for text in ("1.500", "1.50", "1.5")], RAW)
    assert exact_texts(numbers, ["k"]).to_pylist() == ["k\0001.500", "k\0001.50", "k\0001.5"]


def test_exact_texts_of_a_key_are_one_in_any_order() -> None:
    """A statement that moves a column moves its text: the log has the columns in their new order from there on."""
    kinds = {"a": pa.date32(), "b": pa.date32()}
    changes = batch([Change(at, 0, None, {"a": None, "b": None}) for at in range(3)], kinds)
    pairs = [("a", "0000-00-00"), ("b", "2024-00-00")]
    other_key = [("a", "2024-00-00"), ("b", "0000-00-00")]
    raw_columns = {"raw": pa.array([pairs, pairs[::-1], other_key], RAW)}
    changes = Changes(**{name: getattr(changes, name) for name in Changes.__slots__} | raw_columns)
    (rows,) = net_rows(changes, SliceOrigin("b.000001", 1, 8, 0), ["a", "b"], ["a", "b"])
    assert one_row_per_key(rows, ["a", "b"]).column("_changes").to_pylist() == [2, 1]


@pytest.mark.parametrize("before, after", [(None, {"day": None}), ({"day": None}, {"day": date(2026, 1, 1)})])
def test_null_in_a_key_is_refused_with_its_place(before: Row | None, after: Row | None) -> None:
    changes = batch([Change(3, 0, before, after)], {"day": pa.date32()})
    with pytest.raises(Unsupported) as refused:
        list(net_rows(changes, SliceOrigin("mysql-bin.000008", 1, 8, 0), ["day"], ["day"]))
    message = "mysql-bin.000008:101: column day: NULL in the key that rows are identified by"
    assert str(refused.value) == message


@examples(40)
@given(histories())
def test_images_of_a_bag_add_up_to_what_a_dict_counts(changes: list[Change]) -> None:
    counted: dict[Any, int] = {}
    for change in changes:
        for row, copies in ((change.before, -1), (change.after, 1)):
            if row:
                counted[tuple(row.values())] = counted.get(tuple(row.values()), 0) + copies
    counts: dict[Any, int] = {}
    for run in runs(changes, [False]):
        stretch, number, *_ = run[0].position
        origin = SliceOrigin("b.000001", stretch, number, run[0].window)
        for table in image_rows(batch(run), origin, list(COLUMNS)):
            for row in table.to_pylist():
                image = tuple(row[name] for name in COLUMNS)
                counts[image] = counts.get(image, 0) + row["_copies"]
    assert counts == counted
