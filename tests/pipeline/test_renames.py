"""Tables that take other tables' names: downstream stays what the server has, at every pause."""

import pytest

from spark_jobs.pipeline import lake_of
from tests.fix_pipeline import Shop, require_same
from tests.online_ddl import Writers, gh_ost, pt_osc

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

T = "(id INT PRIMARY KEY, v INT NOT NULL, note VARCHAR(20))"


@pytest.mark.parametrize("often", [pytest.param(True, marks=pytest.mark.long), False])
@pytest.mark.parametrize("tool", ["gh-ost", "pt-osc"])
def test_online_schema_changes(shop: Shop, tool: str, often: bool) -> None:
    pipeline = shop.pipeline(tables=[f"{shop.database.name}.t"])
    shop.execute(f"CREATE TABLE t {T}")
    writers = Writers(shop.database.execute, seed=7)
    writers.begin(12)
    shop.run(pipeline)
    alter = "ADD extra INT NOT NULL DEFAULT 7 AFTER id, MODIFY v BIGINT NOT NULL, ADD KEY (extra)"
    if tool == "gh-ost":
        steps = gh_ost(shop.database.execute, shop.database.name, alter, writers)
    else:
        steps = pt_osc(shop.database.execute, shop.database.name, T, alter, writers)
    for step in steps:
        if often or step == "done":
            _, outcome = shop.run(pipeline)
            assert outcome.stopped == {}, step
            require_same(shop, pipeline, "t")
