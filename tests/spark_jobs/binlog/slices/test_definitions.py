from collections.abc import Callable

from spark_jobs.binlog import Slicer, definitions_of
from tests.binlogs.segment_spec import Commit, Insert, SegmentSpec, Table
from tests.binlogs.segment_types import INT, VARCHAR

ONE = Table("shop.one", key=["id"], id=INT, note=VARCHAR(40))
OTHER = Table("shop.other", key=["id"], id=INT)


def tables_of(*changes: object, payload: Callable[[int], str | None] = lambda _: None) -> list[list[str]]:
    """For each slice of rows, the definitions in it."""
    slicer = Slicer("b.000001", 0, None)
    content = SegmentSpec([ONE, OTHER], [*changes], payload=payload).to_bytes()  # type: ignore[list-item]
    rows = [row for batch in [*slicer.feed(content), *slicer.finish()] for row in batch.to_pylist()]
    return [
        [str(definition) for definition in definitions_of(row["file"], row["start"], row["context"], row["payload"])]
        for row in rows
        if row["kind"] == "rows"
    ]


def test_each_definition_once_in_order_of_first_use() -> None:
    changes = [Insert("shop.other", (1,)), Insert("shop.one", (1, "x")), Insert("shop.other", (2,)), Commit()]
    assert tables_of(*changes) == [["shop.other (id int)", "shop.one (id int, note varchar(40))"]]


def test_those_inside_payloads_too() -> None:
    changes = [Insert("shop.other", (1,)), Commit(), Insert("shop.one", (1, "x")), Insert("shop.other", (2,)), Commit()]
    for payload in (lambda _: "zstd", lambda number: "zstd" if number == 1 else None):
        assert tables_of(*changes, payload=payload) == [["shop.other (id int)", "shop.one (id int, note varchar(40))"]]


def test_tables_without_rows_have_none() -> None:
    assert tables_of(Insert("shop.one", (1, None)), Commit()) == [["shop.one (id int, note varchar(40))"]]


def test_a_map_whose_rows_come_in_a_later_slice() -> None:
    slicer = Slicer("b.000001", 0, None, target=1)
    content = SegmentSpec([ONE], [Insert("shop.one", (1, "x")), Commit()]).to_bytes()
    rows = [row for batch in [*slicer.feed(content), *slicer.finish()] for row in batch.to_pylist()]
    offsets = [(row["file"], row["start"], row["context"], row["payload"]) for row in rows if row["kind"] == "rows"]
    used_tables = [[definition.name.table for definition in definitions_of(*position)] for position in offsets]
    all_tables = [
        [definition.name.table for definition in definitions_of(*position, unused=True)] for position in offsets
    ]
    assert any(not used_names and mapped == ["one"] for used_names, mapped in zip(used_tables, all_tables, strict=True))
    assert all(used_names in ([], mapped) for used_names, mapped in zip(used_tables, all_tables, strict=True))
