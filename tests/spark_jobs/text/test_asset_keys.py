import pytest

from spark_jobs.text.asset_keys import downstream_key_parts, key_part


@pytest.mark.parametrize("name, part", [("orders", "orders"), ("a/b", "a%2Fb"), ("a%2Fb", "a%252Fb")])
def test_names_that_differ_have_parts_that_differ_and_no_slash(name: str, part: str) -> None:
    assert key_part(name) == part
    assert downstream_key_parts(name, "t") == ("downstream", part, "t")
