import os
from pathlib import Path

from spark_jobs.subscriptions.lag import groups_of, statuses
from tests.lakes.consumers import SOURCE, Shop, order


def test_lag(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.log([*order(1), *order(2)])
    assert statuses(shop.lake, SOURCE) == []
    with shop.subscription("behind") as subscription:
        (status,) = statuses(shop.lake, SOURCE)
        assert (status.consumer or "").endswith(f":{os.getpid()}")
        assert (status.lag_bytes or 0, status.lag_seconds or 0) > (100, 1_000_000)
        subscription.get_without_ack(1)
    with shop.subscription("ahead", tables=["shop.*"]) as subscription:
        subscription.get(9)
        subscription.get(9)
    ahead, behind = statuses(shop.lake, SOURCE)
    assert (ahead.lag_bytes, ahead.lag_seconds, ahead.tables, ahead.consumer) == (0, 0.0, ["shop.*"], None)
    assert behind.position == "b.000001:4"
    assert [record.group for record in groups_of(shop.lake, SOURCE)] == ["ahead", "behind"]
