import pyarrow as pa
import pytest

from spark_jobs.binlog.rows.changes import comparable_text, comparable_texts
from spark_jobs.binlog.rows.decoder import Decoder
from tests.binlogs.one_value import FILE, definition_of
from tests.binlogs.segment_spec import (
    Delete,
    Insert,
    Rows,
    Table,
    Update,
)  # fmt: skip
from tests.binlogs.segment_types import INT, LONGTEXT
from tests.spark_jobs.binlog.rows.test_decoder import WIDE, content_of, partial, wide


@pytest.mark.parametrize("version", [1, 2])
def test_an_image_without_all_columns_keeps_absent_apart_from_null(version: int) -> None:
    """MINIMAL: the key of what was, and what was set. The null bits are those of the columns that are there."""
    _, after, before = partial(
        Rows("shop.t", Insert, [wide(c0=1, c3=None, c9=9, c19=None), wide(c0=2, c3=3, c9=None, c19=19)]),
        Rows("shop.t", Update, [(wide(c0=1), wide(c8=None, c17=17)), (wide(c0=2), wide(c8=8, c17=None))]),
        Delete("shop.t", wide(c0=2)),
        table=WIDE,
        version=version,
    )
    assert after == [
        {"c0": 1, "c3": None, "c9": 9, "c19": None},
        {"c0": 2, "c3": 3, "c9": None, "c19": 19},
        {"c8": None, "c17": 17},
        {"c8": 8, "c17": None},
        {"c0": 2},
    ]
    assert before == [{}, {}, {"c0": 1}, {"c0": 2}, {}]


def test_noblob_leaves_a_text_out_that_was_not_set() -> None:
    table = Table("shop.t", key=["id"], id=INT, body=LONGTEXT, n=INT)
    _, after, before = partial(Update("shop.t", (1, ..., 2), (1, ..., 3)), Insert("shop.t", (2, "x", 3)), table=table)
    assert after == [{"id": 1, "n": 3}, {"id": 2, "body": "x", "n": 3}]
    assert before == [{"id": 1, "n": 2}, {}]


def test_full_nodup_has_the_whole_row_before_and_what_was_set_after() -> None:
    """MariaDB's binlog_row_image=FULL_NODUP."""
    full_row = [None, *range(1, 20)]
    _, after, before = partial(Update("shop.t", full_row, wide(c0=0)), version=1)
    assert (after, before) == ([{"c0": 0}], [{f"c{k}": value for k, value in enumerate(full_row)}])


def test_sets_of_columns_are_kept_once() -> None:
    changes, _, _ = partial(*(Insert("shop.t", wide(c0=k, c1=k) if k % 2 else wide(c0=k)) for k in range(9)))
    assert changes.present is not None
    assert changes.present.sets.shape == (2, 20)
    assert changes.present.column(1).tolist() == [bool(k % 2) for k in range(9)]


def test_whole_images_have_no_presence_even_behind_a_partial_one() -> None:
    content = content_of(Insert("shop.t", (1, ...)), Insert("shop.t", (2, "b")), Insert("shop.t", (3, "c")))
    blocks = list(Decoder(definition_of(content), partial=True, rows=1).decode(FILE, 0, None, content))
    assert [changes.present is None for changes in blocks] == [False, True, True]


def test_exact_texts_of_times_are_equal_whatever_their_digits() -> None:
    zero, half = "0000-00-00 00:00:00", "2024-00-00 00:00:00.05"
    texts = [zero, f"{zero}.000", half, f"{half}0000", "0000-00-00", "1.500", "-838:59:59.000", "ff00", "x"]
    expected = [zero, zero, half, half, *texts[4:]]
    assert [comparable_text(text) for text in texts] == expected
    assert comparable_texts(pa.chunked_array([texts, [None]])).to_pylist() == [*expected, None]
