"""What is gone through together; what is derived with servers is in tests/pipeline/test_cascades_renamed.py."""

from spark_jobs.binlog import TableName
from spark_jobs.bronze.scan import LoggedStatement, RangeScan
from spark_jobs.ddl.classify import classify
from spark_jobs.ddl.foreign_keys import ForeignKey
from spark_jobs.ddl.unlogged_changes import Renamed, UnloggedChanges
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.cascades.groups import is_made_in, parts_between_renames, table_groups


def at(offset: int) -> Position:
    return Position("b.000001", offset)


def named(table: str) -> TableName:
    return TableName("shop", table)


def key(child: str, parent: str) -> UnloggedChanges:
    return UnloggedChanges(named(child), ForeignKey(f"{child}_{parent}", named(parent), "CASCADE"))


def keys_of(groups: list[list[UnloggedChanges]]) -> list[set[str]]:
    return [{gap.key.name for gap in group if gap.key} for group in groups]


def scan(*statements: tuple[int, str]) -> RangeScan:
    """Statements of ten bytes each."""
    return RangeScan(
        {},
        tuple(LoggedStatement(at(start), classify(text, "shop"), at(start + 10), "shop") for start, text in statements),
    )


def test_keys_are_grouped_by_the_tables_that_they_join() -> None:
    keys = [key("c", "p"), key("x", "y"), key("g", "c"), key("y", "y"), key("d", "q"), key("q", "g")]
    assert keys_of(table_groups(keys, [])) == [{"x_y", "y_y"}, {"c_p", "g_c", "q_g", "d_q"}]
    assert table_groups([], []) == []


def test_tables_are_of_one_group_under_both_names() -> None:
    keys = [key("c", "p"), key("t", "t"), key("c2", "p2"), key("t2", "t2")]
    renames = [
        Renamed(at(10), named(old), named(new)) for old, new in (("c", "c2"), ("t", "t1"), ("t1", "t2"), ("x", "y"))
    ]
    assert keys_of(table_groups(keys, renames)) == [{"c_p", "c2_p2"}, {"t_t", "t2_t2"}]


def test_the_log_has_a_part_between_two_renames_of_a_child() -> None:
    listed = scan(
        (10, "RENAME TABLE c TO c2"),
        (30, "RENAME TABLE p TO p2"),
        (50, "ALTER TABLE c2 ADD x INT"),
        (70, "RENAME TABLE c2 TO c"),
    )
    parts = list(parts_between_renames(listed, {named("c"), named("c2")}, Range(at(5), at(100))))
    assert [(part.within, part.stop) for part in parts] == [
        (Range(at(5), at(10)), at(20)),
        (Range(at(20), at(70)), at(80)),
        (Range(at(80), at(100)), at(100)),
    ]
    first, second = (
        UnloggedChanges(gap.table, gap.key, *span)
        for gap, span in ((key("c", "p"), (None, at(10))), (key("c2", "p"), (at(10), at(70))))
    )
    assert [part.keys([first, second]) for part in parts] == [[first], [second], []]


def test_a_table_is_made_in_the_log_under_the_name_that_it_had() -> None:
    listed = scan((10, "CREATE TABLE a (id INT)"), (30, "RENAME TABLE a TO b, o TO n"), (50, "RENAME TABLE b TO c"))
    assert [is_made_in(listed, named(table), at(100)) for table in "abcn"] == [True, True, True, False]
    assert not is_made_in(listed, named("c"), at(50))
    assert not is_made_in(scan(), named("c"), at(50))
