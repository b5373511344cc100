"""Asset keys of layers and tables."""

import dagster as dg
import pytest

from assets.keys import bronze_key, delivery_key, downstream_key, published_key, silver_key


@pytest.mark.parametrize(
    "key, path",
    [
        (bronze_key("shop"), ["bronze", "shop"]),
        (silver_key("shop", ("a/b", "c%")), ["silver", "shop", "a%2Fb", "c%25"]),
        (downstream_key(("shop", "orders")), ["downstream", "shop", "orders"]),
        (published_key("shop"), ["published", "shop"]),
        (delivery_key("replica", ("shop", "orders")), ["delivery", "replica", "shop", "orders"]),
    ],
)
def test_a_key_has_the_layer_first_and_each_name_as_a_part(key: dg.AssetKey, path: list[str]) -> None:
    assert list(key.path) == path
