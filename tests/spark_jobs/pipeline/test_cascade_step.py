"""What is gone through together; what is derived with servers is in tests/pipeline/test_cascades_applied.py."""

from spark_jobs.binlog import TableName
from spark_jobs.ddl.foreign_keys import ForeignKey
from spark_jobs.ddl.unlogged_changes import UnloggedChanges
from spark_jobs.pipeline.cascade_step import _table_groups


def key(child: str, parent: str) -> UnloggedChanges:
    return UnloggedChanges(
        TableName("shop", child), ForeignKey(f"{child}_{parent}", TableName("shop", parent), "CASCADE")
    )


def test_keys_are_grouped_by_the_tables_that_they_join() -> None:
    keys = [key("c", "p"), key("x", "y"), key("g", "c"), key("y", "y"), key("d", "q"), key("q", "g")]
    groups = [{gap.key.name for gap in group if gap.key} for group in _table_groups(keys)]
    assert groups == [{"x_y", "y_y"}, {"c_p", "g_c", "q_g", "d_q"}]
    assert _table_groups([]) == []
