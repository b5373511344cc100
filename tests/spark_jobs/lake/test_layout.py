import pytest

from spark_jobs.errors import TableStopped
from spark_jobs.lake.layout import Lake


@pytest.mark.parametrize("name", ["orders", "orders_2026", "a b", "a.b", ".hidden", "größe", "a:b*[c]{d}", "_t", "😀"])
def test_a_name_is_its_folder(name: str) -> None:
    assert Lake("lake").downstream("shop", name).path == f"lake/downstream/shop/{name}"


@pytest.mark.parametrize("name", ["a/b", "a\\b", "100%", "a%2Fb", "a#b", "a?b", "a\nb", ".", "..", "_delta_log"])
def test_a_name_that_no_folder_can_have_stops_its_table(name: str) -> None:
    with pytest.raises(TableStopped, match=r"(?s)^shop: shop\..*has no place in the lake yet; leave it out"):
        Lake("lake").silver("shop", "shop", name)


def test_every_layer_has_its_place() -> None:
    lake = Lake("s3a://bucket/lake/")
    assert lake.bronze("shop").path == "s3a://bucket/lake/bronze/shop"
    assert lake.silver("shop", "a b", "t").path == "s3a://bucket/lake/silver/shop/a b/t"
    assert lake.downstream("shop", "t").path == "s3a://bucket/lake/downstream/shop/t"
    assert lake.published().path == "s3a://bucket/lake/published"
    assert lake.schema("shop").path == "s3a://bucket/lake/schema/shop"
    assert [Lake("x", plain=plain).bronze("s").plain for plain in (True, False)] == [True, False]
