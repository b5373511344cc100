from pathlib import Path

import pytest

from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.errors import ConfigError
from spark_jobs.subscriptions.positions import start_of
from tests.lakes.consumers import SOURCE, Shop, orders


def test_a_place_inside_a_transaction_is_its_begin(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.log([*orders(3), *orders(3, 4)])
    snapshot = BronzeSnapshot.of(shop.lake, SOURCE)
    begin = start_of(snapshot, "b.000001:400")
    assert start_of(snapshot, str(begin)) == begin
    assert begin.offset < 400
    assert (start_of(snapshot, "earliest"), start_of(snapshot, "latest")) == (snapshot.oldest, snapshot.end)
    with pytest.raises(ConfigError, match="is after the end of the log in bronze"):
        start_of(snapshot, "b.000007:4")
