import pytest

from spark_jobs.telemetry.endpoints import has_login, origin_of


@pytest.mark.parametrize(
    "url, path",
    [
        ("http://collector:4318", "http://collector:4318"),
        ("https://user:secret@collector/v1?key=secret#secret", "https://collector"),
        ("http://[::1", "an address that cannot be read"),
        ("http://collector:port", "an address that cannot be read"),
    ],
)
def test_a_place_has_no_secret(url: str, path: str) -> None:
    assert origin_of(url) == path


@pytest.mark.parametrize(
    "url, has", [("http://h/@", False), ("http://u:p@h", True), ("http://u@h/x", True), ("h", False)]
)
def test_a_login_in_an_address_is_seen(url: str, has: bool) -> None:
    assert has_login(url) is has
