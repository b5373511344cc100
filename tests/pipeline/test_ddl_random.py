"""Random DDL and DML on a real server, with runs at random places: downstream has the server's columns and rows.

Keys change among it: other columns, a unique index, none at all.
"""

import os

import pytest

from tests.ddl_stream import Stream
from tests.fix_pipeline import Shop, require_same

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.long]

FIRST_SEED = int(os.environ.get("STRATALOG_SEED", "1"))
SEEDS = range(FIRST_SEED, FIRST_SEED + int(os.environ.get("STRATALOG_RUNS", "1")))


@pytest.mark.parametrize("seed", SEEDS)
def test_downstream_is_the_server_s_table_at_every_pause(shop: Shop, seed: int, summary: list[str]) -> None:
    pipeline = shop.pipeline()
    stream = Stream(seed, keys=True)
    shop.execute("SET SESSION sql_mode = 'STRICT_ALL_TABLES'")
    done = runs = rows = 0
    for statement in [*stream.statements(60), "REPLACE INTO t (id) VALUES (1)"]:
        shop.execute(statement)
        done += 1
        is_there = not statement.startswith("DROP")  # its rows stay downstream, with nothing to compare them to
        if (is_there and stream.some.random() < 0.08) or statement.startswith("REPLACE INTO t (id) VALUES"):
            _, outcome = shop.run(pipeline)
            runs += 1
            assert outcome.stopped == {}, f"seed {seed}, behind {statement}"
            rows += require_same(shop, pipeline, "t")
    summary.append(f"seed {seed}: {done} statements of one table, {runs} runs, {rows} rows, no difference")
