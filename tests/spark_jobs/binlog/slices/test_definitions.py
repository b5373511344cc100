from collections.abc import Callable

from spark_jobs.binlog import Slicer, definitions_of
from tests.segment_spec import Commit, Insert, SegmentSpec, Table
from tests.segment_types import INT, VARCHAR

ONE = Table("shop.one", key=["id"], id=INT, note=VARCHAR(40))
OTHER = Table("shop.other", key=["id"], id=INT)


def found(*changes: object, payload: Callable[[int], str | None] = lambda _: None) -> list[list[str]]:
    """For each slice of rows, the definitions in it."""
    slicer = Slicer("b.000001", 0, None)
    content = SegmentSpec([ONE, OTHER], [*changes], payload=payload).to_bytes()  # type: ignore[list-item]
    rows = [row for batch in [*slicer.feed(content), *slicer.finish()] for row in batch.to_pylist()]
    return [
        [str(one) for one in definitions_of(row["file"], row["start"], row["context"], row["payload"])]
        for row in rows
        if row["kind"] == "rows"
    ]


def test_each_definition_once_in_order_of_first_use() -> None:
    changes = [Insert("shop.other", (1,)), Insert("shop.one", (1, "x")), Insert("shop.other", (2,)), Commit()]
    assert found(*changes) == [["shop.other (id int)", "shop.one (id int, note varchar(40))"]]


def test_those_inside_payloads_too() -> None:
    changes = [Insert("shop.other", (1,)), Commit(), Insert("shop.one", (1, "x")), Insert("shop.other", (2,)), Commit()]
    for payload in (lambda _: "zstd", lambda number: "zstd" if number == 1 else None):
        assert found(*changes, payload=payload) == [["shop.other (id int)", "shop.one (id int, note varchar(40))"]]


def test_tables_without_rows_have_none() -> None:
    assert found(Insert("shop.one", (1, None)), Commit()) == [["shop.one (id int, note varchar(40))"]]


def test_a_map_whose_rows_come_in_a_later_slice() -> None:
    slicer = Slicer("b.000001", 0, None, target=1)
    content = SegmentSpec([ONE], [Insert("shop.one", (1, "x")), Commit()]).to_bytes()
    rows = [row for batch in [*slicer.feed(content), *slicer.finish()] for row in batch.to_pylist()]
    places = [(row["file"], row["start"], row["context"], row["payload"]) for row in rows if row["kind"] == "rows"]
    used = [[one.name.table for one in definitions_of(*place)] for place in places]
    all_ = [[one.name.table for one in definitions_of(*place, unused=True)] for place in places]
    assert any(not own and met == ["one"] for own, met in zip(used, all_, strict=True))
    assert all(own in ([], met) for own, met in zip(used, all_, strict=True))
