"""Child rows where a table that is out of scope gets the name of a child, as copies of online schema changes do."""

import pytest

from spark_jobs.lake.layout import lake_of
from spark_jobs.mending.mend_source import mend_source
from spark_jobs.pipeline.cascades.unlogged_changes import cascades
from tests.fix_pipeline import SOURCE, Shop, require_same
from tests.soaks.cascade_campaign import run

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

TABLES = (
    "CREATE TABLE p (id INT PRIMARY KEY)",
    "CREATE TABLE c (id INT PRIMARY KEY, up INT, CONSTRAINT f FOREIGN KEY (up) REFERENCES p (id) ON DELETE CASCADE)",
    "INSERT INTO p VALUES (1), (2), (3), (4)",
    "INSERT INTO c VALUES (1, 1), (2, 2), (3, 3), (4, 4)",
)
COPY = (
    (
        "CREATE TABLE _c_new (id INT PRIMARY KEY, up INT, "
        "CONSTRAINT _f FOREIGN KEY (up) REFERENCES p (id) ON DELETE CASCADE)"
    ),
    "ALTER TABLE _c_new ADD COLUMN w INT NOT NULL DEFAULT 3",
)
"""As pt-online-schema-change makes it: its name alone takes it out of scope."""
FILLED = "INSERT LOW_PRIORITY IGNORE INTO _c_new (id, up) SELECT id, up FROM c"
SWAP = ("RENAME TABLE c TO _c_old, _c_new TO c", "DROP TABLE IF EXISTS _c_old")
REASON = "_c_new got its name at"


@pytest.fixture
def family(shop: Shop, tasks_here: None) -> Shop:
    """A parent with children, and what a mend may do."""
    server = shop.database.server
    shop.execute(f"GRANT LOCK TABLES ON {shop.database.name}.* TO {server.user}", *TABLES)
    return shop


@pytest.mark.parametrize(
    "has_run_between", [False, pytest.param(True, marks=pytest.mark.thorough)], ids=["in one run", "a run between"]
)
def test_rows_of_a_copy_that_foreign_keys_changed_are_named_in_a_warning(
    family: Shop, *, has_run_between: bool
) -> None:
    pipeline = family.pipeline(live=True)
    run(family, pipeline, "pc")
    family.execute(*COPY, FILLED, "DELETE FROM p WHERE id = 1")
    if has_run_between:
        run(family, pipeline, "pc")
    family.execute(*SWAP, "DELETE FROM p WHERE id = 2")
    _, outcome = family.run(pipeline)
    assert not outcome.stopped
    # What came after the swap is derived, and the row that went before it is there.
    assert [row[0] for row in family.merged(pipeline, "c")] == [1, 3, 4]
    (cascade,) = cascades(pipeline, lake_of(pipeline), SOURCE)
    assert (cascade.table.table, REASON in (cascade.refusal or "")) == ("c", True)
    chosen = family.pipeline(live=True, on_cascade="apply")
    mend_source(family.spark, chosen, SOURCE, is_applied=True)
    family.execute("DELETE FROM p WHERE id = 3")
    run(family, chosen, "pc")
    assert cascades(chosen, lake_of(chosen), SOURCE) == []


@pytest.mark.thorough
def test_a_child_with_apply_stops_before_it_gets_such_rows(family: Shop) -> None:
    pipeline = family.pipeline(live=True, on_cascade="apply")
    run(family, pipeline, "pc")
    family.execute(*COPY, FILLED, "DELETE FROM p WHERE id = 1", *SWAP, "DELETE FROM p WHERE id = 2")
    for _ in range(2):
        _, outcome = family.run(pipeline)
        ((name, reason),) = outcome.stopped.items()
        assert (name.table, REASON in reason) == ("c", True), reason
        assert "set on_cascade: warn for it" in reason
    assert [row[0] for row in family.merged(pipeline, "c")] == [2, 3, 4]
    # As the message says.
    warned = family.pipeline(live=True, on_cascade="warn")
    assert not family.run(warned)[1].stopped
    mend_source(family.spark, warned, SOURCE, is_applied=True)
    family.run(warned)
    require_same(family, warned, "c")
    family.pipeline(live=True, on_cascade="apply")
    family.execute("DELETE FROM p WHERE id = 3")
    run(family, pipeline, "pc")


def test_a_copy_that_no_foreign_key_changed_is_followed(family: Shop) -> None:
    pipeline = family.pipeline(live=True, on_cascade="apply")
    run(family, pipeline, "pc")
    # Before the first row of the copy, and after its name.
    family.execute(*COPY, "DELETE FROM p WHERE id = 1", FILLED, *SWAP, "DELETE FROM p WHERE id = 2")
    run(family, pipeline, "pc")
    assert [row[0] for row in family.merged(pipeline, "c")] == [3, 4]
    # The parent's copy: keys follow the parent to its old name, until they refer to the new one.
    family.execute(
        "CREATE TABLE _p_new (id INT PRIMARY KEY, note INT)",
        "INSERT LOW_PRIORITY IGNORE INTO _p_new (id) SELECT id FROM p",
        "RENAME TABLE p TO _p_old, _p_new TO p",
        "DELETE FROM p WHERE id = 9",
        "ALTER TABLE c DROP FOREIGN KEY _f, "
        "ADD CONSTRAINT __f FOREIGN KEY (up) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE",
        "DROP TABLE IF EXISTS _p_old",
        "DELETE FROM p WHERE id = 3",
        "UPDATE p SET id = 40 WHERE id = 4",
    )
    run(family, pipeline, "pc")
    assert [row[:2] for row in family.merged(pipeline, "c")] == [(4, 40)]
