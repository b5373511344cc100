import pytest

from spark_jobs.text.suggestions import did_you_mean


@pytest.mark.parametrize(
    "word, count, text",
    [
        ("shop.order", 1, "; did you mean shop.orders?"),
        ("shop.order", 2, "; did you mean shop.orders or shop.older?"),
        ("billing", 1, ""),
        ("", 1, ""),
    ],
)
def test_names_that_are_like_a_word_are_suggested(word: str, count: int, text: str) -> None:
    assert did_you_mean(word, ["shop.customers", "shop.older", "shop.orders"], count) == text
