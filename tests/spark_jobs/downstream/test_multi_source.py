import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.multi_source import (
    Part,
    PartTable,
    SharedPart,
    SourceTable,
    parts_of,
    provenance_condition,
    union,
    with_parts,
)
from spark_jobs.errors import TableStopped
from spark_jobs.lake.commit import Checkpoint, Head
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position

ONE = ("eu", "shop_1", "orders")
OTHER = ("us", "shop_1", "orders")
MERGED = DownstreamCommit(
    Position("bin.000001", 99),
    "c",
    source="eu",
    table="shop_1.orders",
    silver_version=8,
    start=Position("bin.000001", 10),
    is_complete=True,
)


def part(owner: tuple[str, str, str], offset: int, **columns: str) -> Part:
    return Part(owner, Position("bin.000001", offset), 7, True, columns)


def commit(*parts: Part, batch: str = "b") -> DownstreamCommit:
    return with_parts(DownstreamCommit(Position("bin.000001", 4), batch, table="x", silver_version=7), parts)


def test_the_parts_of_a_commit_are_read_back_and_like_columns_stand_there_once() -> None:
    parts = [part(ONE, 10, id="INT"), part(OTHER, 20, id="INT"), part(("us", "shop_2", "orders"), 5, b="INT", a="INT")]
    new_commit = commit(*parts)
    assert parts_of(Checkpoint.from_json(new_commit.to_json())) == parts
    assert len(new_commit.shapes or ()) == 2
    alone = DownstreamCommit(Position("bin.000001", 4), "b", silver_version=7)
    assert parts_of(None) == parts_of(alone) == []


class PartOfHead(PartTable):
    """A part of a table whose head is given."""

    def __init__(self, head: Head) -> None:
        super().__init__(Table("lake/downstream/shop/orders", plain=False), ONE)
        self.table_head = head

    def head(self) -> Head | None:
        return self._own_head(self.table_head)

    def claim(self, head: Head, checkpoint: Checkpoint) -> Checkpoint:
        return self._claimed(head, checkpoint)


def test_a_commit_moves_its_own_part_and_repeats_the_others() -> None:
    table = PartOfHead(Head(3, 2, commit(part(ONE, 10, id="INT"), part(OTHER, 20, id="INT"))))
    head = table.head()
    assert head
    assert head.position == Position("bin.000001", 10)
    merged = replace(MERGED, is_complete=False, columns={"id": "BIGINT"})
    new_commit = DownstreamCommit.of(table.claim(head, merged))
    own_part, second = parts_of(new_commit)
    assert own_part == Part(ONE, Position("bin.000001", 99), 8, False, {"id": "BIGINT"})
    assert second == part(OTHER, 20, id="INT")
    assert new_commit.is_complete is False, "of all parts"


def test_a_part_that_nothing_was_merged_of_has_no_position() -> None:
    table = PartOfHead(Head(3, 2, commit(part(OTHER, 20, id="INT"))))
    head = table.head()
    assert head
    assert (head.position, head.version, head.counter, table.empty()) == (None, 3, 2, True)


def test_a_table_of_one_source_table_is_none_of_several() -> None:
    plain = DownstreamCommit(Position("bin.000001", 4), "b", source="eu", table="shop.orders", silver_version=7)
    with pytest.raises(TableStopped, match=r"has the rows of shop.orders alone, without _source, _schema, _table"):
        PartOfHead(Head(3, 2, plain)).head()


def test_keys_that_are_shared_stay_so_and_each_part_says_its_own() -> None:
    class Shared(PartOfHead, SharedPart):
        """A part whose keys are shared, of a table whose head is given."""

    alone = PartOfHead(Head(3, 2, commit(part(ONE, 10, id="INT"))))
    merged = replace(MERGED, columns={"id": "INT"}, key=("id",))
    new_commit = DownstreamCommit.of(Shared(Head(-1, 0, None)).claim(Head(-1, 0, None), merged))
    assert (new_commit.key_sharing, [part.key for part in parts_of(new_commit)]) == ("shared", [("id",)])
    shared = Shared(Head(3, 2, new_commit))
    head = shared.head()
    assert head
    assert shared.other_parts(head) == []
    with pytest.raises(TableStopped, match=r"was made with the keys of its source tables shared, and .* are apart now"):
        PartOfHead(Head(3, 2, new_commit)).head()
    alone_head = alone.head()
    assert alone_head
    with pytest.raises(TableStopped, match=r"was made with the keys of its source tables apart, and .* are shared now"):
        Shared(Head(3, 2, alone_head.all_parts)).head()


def test_marks_are_compared_as_text() -> None:
    assert provenance_condition({"_source": "a'b"}, "t.") == r"t._source = 'a\'b'"


INT, BIG, DEC = {"id": "INT"}, {"id": "BIGINT"}, {"id": "DECIMAL(10,2)"}


@pytest.mark.parametrize(
    "target, columns, other_columns, actions",
    [
        (INT, INT, INT, []),
        (INT, {"ID": "INT"}, INT, []),
        (BIG, INT, BIG, []),
        (INT, INT | {"a": "STRING"}, INT, ["ADD COLUMN (`a` STRING AFTER `id`)"]),
        (INT, {"a": "STRING"} | INT, INT, ["ADD COLUMN (`a` STRING FIRST)"]),
        (INT, {"ID": "INT", "a`b": "DATE"}, INT, ["ADD COLUMN (`a``b` DATE AFTER `id`)"]),
        (INT | {"a": "DATE"}, INT, INT, ["DROP COLUMN `a`"]),
        (INT | {"a": "DATE"}, INT, INT | {"A": "DATE"}, []),
        (INT, BIG, INT, ["SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')", "ALTER COLUMN `id` TYPE BIGINT"]),
        (DEC, {"id": "BIGINT"}, DEC, ["SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
         "ALTER COLUMN `id` TYPE DECIMAL(22,2)"]),
        (DEC, {"id": "DECIMAL(9,4)"}, DEC, ["SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
         "ALTER COLUMN `id` TYPE DECIMAL(12,4)"]),
        ({"id": "FLOAT"}, {"id": "DOUBLE"}, {"id": "FLOAT"}, [
         "SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')", "ALTER COLUMN `id` TYPE DOUBLE"]),
        (INT, INT | {"t": "TIMESTAMP_NTZ"}, INT, ["SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported')",
         "ADD COLUMN (`t` TIMESTAMP_NTZ AFTER `id`)"]),
        (INT | {"a": "INT"}, INT | {"a": "DATE"}, INT, ["DROP COLUMN `a`", "ADD COLUMN (`a` DATE AFTER `id`)"]),
        (INT | {"a": "INT"}, INT | {"A": "DATE", "b": "INT"}, INT, [
         "DROP COLUMN `a`", "ADD COLUMN (`A` DATE AFTER `id`)", "ADD COLUMN (`b` INT AFTER `A`)"]),
    ],
)  # fmt: skip
def test_columns_are_the_union(
    target: dict[str, str], columns: dict[str, str], other_columns: dict[str, str], actions: list[str]
) -> None:
    assert union(target, columns, [part(OTHER, 1, **other_columns)], "t") == actions


@pytest.mark.parametrize("kind", ["DATE", "STRING", "DOUBLE", "DECIMAL(38,20)"])
def test_what_no_type_holds_is_shown_from_both_sides(kind: str) -> None:
    with pytest.raises(TableStopped) as stopped:
        union(
            {"id": "INT", "v": "BIGINT"}, {"id": "INT", "v": kind}, [part(OTHER, 1, id="INT", v="BIGINT")], "shop_1.t"
        )
    assert str(stopped.value) == (
        "shop_1.t: no type holds both what its column v is, and what it is in shop_1.orders of source us, which is "
        f"merged into the same table. Its columns are (id INT, v {kind}), the other's (id INT, v BIGINT); alter one of "
        "them to fit, or route it to a table of its own"
    )


def test_a_source_s_position_is_that_of_its_furthest_part(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [part(ONE, 10, id="INT"), part(("eu", "shop_2", "orders"), 30, id="INT"), part(OTHER, 90, id="INT")]
    monkeypatch.setattr(Table, "head", lambda _: Head(3, 2, commit(*parts)))
    table = Table("lake/downstream/shop/orders", plain=False)
    heads = {source: SourceTable(table, source).head() for source in ("eu", "us", "none")}
    assert [head and head.position and head.position.offset for head in heads.values()] == [30, 90, None]


KINDS = st.sampled_from(["TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL(10,2)", "DECIMAL(12,6)", "FLOAT", "DOUBLE"])
SHAPES = st.dictionaries(st.sampled_from("abcde"), KINDS, min_size=1)


def altered(columns: dict[str, str], actions: list[str]) -> dict[str, str]:
    """The columns behind what ``union`` says, in order."""
    result = dict(columns)
    for action in actions:
        name = action.split("`")[1] if "`" in action else ""
        if action.startswith("DROP COLUMN"):
            del result[name]
        elif action.startswith("ALTER COLUMN"):
            result[name] = action.partition(" TYPE ")[2]
        elif action.startswith("ADD COLUMN"):
            assert name not in result
            _, _, rest = action.partition(f"`{name}` ")
            result[name] = rest.removesuffix(")").rpartition(" FIRST")[0] or rest.partition(" AFTER ")[0]
            if " AFTER " in rest:
                assert rest.split("`")[1] in result, "it stands behind one that is there"
    return result


@given(st.lists(SHAPES, min_size=1, max_size=5), st.randoms())
def test_the_union_is_the_same_in_whatever_order_parts_come(shapes: list[dict[str, str]], order: random.Random) -> None:
    def merged(parts: list[Part]) -> dict[str, str] | None:
        target: dict[str, str] = {}
        for at, log_part in enumerate(parts):
            try:
                target = altered(target, union(target, log_part.columns, parts[:at], "t"))
            except TableStopped:
                return None
            assert union(target, log_part.columns, parts[:at], "t") == [], "what is done is not done again"
        return target

    parts = [part(("s", "t", str(nth)), 1, **shape) for nth, shape in enumerate(shapes)]
    shuffled = order.sample(parts, len(parts))
    left, right = merged(parts), merged(shuffled)
    assert left == right
