import pytest

from spark_jobs.text.key_pairs import values_by_column


@pytest.mark.parametrize(
    "text, expected",
    [
        ("id=1", {"id": "1"}),
        (" id=1", {"id": "1"}),
        ("order_id=100,line=1", {"order_id": "100", "line": "1"}),
        ("name=a,b,line=1", {"name": "a,b", "line": "1"}),
        ("name=a=b", {"name": "a=b"}),
        ("name=", {"name": ""}),
        ("1", None),
        ("=1", None),
        ("7,id=1", None),
        ("", None),
    ],
)
def test_the_value_of_each_column(text: str, expected: dict[str, str] | None) -> None:
    assert values_by_column(text) == expected
