"""The page of evidence is what its records say."""

from docs.evidence.__main__ import PAGE, page


def test_the_page_is_what_would_be_made() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m docs.evidence writes it again"
