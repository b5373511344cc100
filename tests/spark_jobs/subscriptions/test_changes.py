from pathlib import Path

import pytest

from spark_jobs.errors import ConfigError, StratalogError
from spark_jobs.subscriptions.changes import move_group, remove_group
from spark_jobs.subscriptions.records import Records
from tests.lakes.consumers import SOURCE, Shop, ids, order


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path)
    shop.log([*order(1), *order(2)])
    with shop.subscription() as subscription:
        assert ids(subscription.get(9)) == [1, 2]
    return shop


def test_a_group_is_moved(shop: Shop) -> None:
    before, after = move_group(shop.lake, SOURCE, "g", "earliest", is_done=False)
    assert before > after
    assert move_group(shop.lake, SOURCE, "g", "earliest") == (before, after)
    with shop.subscription() as subscription:
        assert ids(subscription.get(9)) == [1, 2]
        with pytest.raises(StratalogError, match=r"group g has a consumer, .*; end that one first"):
            move_group(shop.lake, SOURCE, "g", "latest")


def test_a_group_is_removed(shop: Shop) -> None:
    remove_group(shop.lake, SOURCE, "g", is_done=False)
    assert Records(shop.lake, SOURCE).groups() == ["g"]
    remove_group(shop.lake, SOURCE, "g")
    with pytest.raises(ConfigError, match="shop has no group 'g'; it has none"):
        remove_group(shop.lake, SOURCE, "g")
