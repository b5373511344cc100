import pytest

from spark_jobs.delivery.status import status
from spark_jobs.lake.layout import lake_of
from spark_jobs.pipeline.run import run_source
from tests.fix_cli import Stratalog
from tests.fix_pipeline import SOURCE
from tests.lakes.delivered import Copy

pytestmark = [pytest.mark.spark, pytest.mark.mysql]


def test_how_far_a_delivery_is(copy: Copy, stratalog: Stratalog) -> None:
    copy.shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    pipeline = copy.pipeline()
    run_source(copy.shop.spark, pipeline, SOURCE)
    [table] = status(pipeline, lake_of(pipeline), "copy").tables
    assert (table.table, table.state, table.position) == (f"{copy.schema}.t", "behind", None)
    outcome = copy.run(pipeline)
    [table] = status(pipeline, lake_of(pipeline), "copy").tables
    assert (table.state, table.position, table.rows_written) == ("current", outcome.tables[0].position, 1)
    output = stratalog("status", "-c", pipeline.path)
    assert (output.status, "delivery copy: up to date" in output.out) == (0, True)
    assert f"{copy.schema}.t" in output.out.partition("delivery copy")[2]


def test_a_target_that_cannot_be_asked(copy: Copy, stratalog: Stratalog) -> None:
    pipeline = copy.pipeline(port=1)
    answer = status(pipeline, lake_of(pipeline), "copy")
    assert answer.error
    assert "127.0.0.1:1 cannot be reached" in answer.error
    output = stratalog("status", "-c", pipeline.path, "--json")
    assert output.status == 1
    assert "exit status 1: delivery copy: 127.0.0.1:1 cannot be reached" in output.err
