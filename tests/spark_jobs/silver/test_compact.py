import re

import pytest

from spark_jobs.silver import compact


@pytest.mark.parametrize(
    "pattern, text, place",
    [
        (compact._PLACE, "shop.t: b.000002:77: not a row event", (None, "b.000002", "77")),
        (compact._PLACE, "3/b.000002:77: not a row event", ("3", "b.000002", "77")),
        (compact._PLACE, "/var/log/b.000002:77: not a row event", (None, "b.000002", "77")),
        (compact._PLACE, "column v has 12:30 in it", None),
        (compact._COMMITTED, "bad bytes (of the XA transaction that 2/b.000004:9 commits)", ("2", "b.000004", "9")),
        (compact._COMMITTED, "b.000004:9: bad bytes", None),
    ],
)
def test_places_are_read_from_the_texts_of_errors(
    pattern: re.Pattern[str], text: str, place: tuple[str | None, str, str] | None
) -> None:
    match = pattern.search(text)
    assert (match and match.group("stretch", "file", "offset")) == place
