import pytest

from spark_jobs.telemetry.endpoints import has_login, place_of


@pytest.mark.parametrize(
    "url, place",
    [
        ("http://collector:4318", "http://collector:4318"),
        ("https://user:secret@collector/v1?key=secret#secret", "https://collector"),
        ("http://[::1", "an address that cannot be read"),
        ("http://collector:port", "an address that cannot be read"),
    ],
)
def test_a_place_has_no_secret(url: str, place: str) -> None:
    assert place_of(url) == place


@pytest.mark.parametrize(
    "url, has", [("http://h/@", False), ("http://u:p@h", True), ("http://u@h/x", True), ("h", False)]
)
def test_a_login_in_an_address_is_seen(url: str, has: bool) -> None:
    assert has_login(url) is has
