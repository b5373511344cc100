import time

import pytest

from spark_jobs.identity import service
from spark_jobs.identity.errors import CredentialsError
from tests.services.identities import environment
from tests.services.token_services import Asked, serving

__all__ = ["environment"]


@pytest.mark.parametrize(
    "status, body, text, is_passing",
    [
        (503, b"busy with geheim", "it answered with status 503", True),
        (429, b'{"error": "throttled"}', "it answered with status 429 (throttled)", True),
        (400, b'{"error": "invalid scope: geheim"}', "it answered with status 400", False),
        (302, b"http://127.0.0.1:1/geheim", "it answered with status 302", False),
    ],
)
def test_a_refusal_is_told_without_what_the_service_wrote(
    status: int, body: bytes, text: str, is_passing: bool
) -> None:
    with serving(lambda _: (status, body)) as served, pytest.raises(CredentialsError) as refused:
        service.answer("it", served.url, seconds=5)
    assert (str(refused.value), refused.value.is_passing) == (text, is_passing)


def test_a_service_that_is_not_there_or_does_not_answer() -> None:
    with pytest.raises(CredentialsError, match=r"^it cannot be reached: Connection refused$") as refused:
        service.answer("it", "http://127.0.0.1:1/", seconds=5)
    assert refused.value.is_passing

    def slowly(_: Asked) -> tuple[int, bytes]:
        time.sleep(2)
        return 200, b""

    with serving(slowly) as served, pytest.raises(CredentialsError, match=r"^it cannot be reached: Timeout"):
        service.answer("it", served.url, seconds=0.5)
    for url in ("file:///etc/passwd", "ftp://127.0.0.1/"):
        with pytest.raises(CredentialsError, match="its address is none of http or https"):
            service.answer("it", url, seconds=5)
    with pytest.raises(CredentialsError, match="characters that are not allowed"):
        service.answer("it", "http://127.0.0.1:1/", seconds=5, headers={"X": "a\nb"})


def test_what_is_posted_goes_by_the_proxy_and_nothing_else(environment: pytest.MonkeyPatch) -> None:
    with serving(lambda asked: (200, asked.path.encode())) as proxy:
        environment.setenv("http_proxy", proxy.url)
        environment.delenv("no_proxy", raising=False)
        environment.delenv("NO_PROXY", raising=False)
        assert service.answer("it", "http://sts.invalid/", seconds=5, form={}) == b"http://sts.invalid/"
        with pytest.raises(CredentialsError, match="cannot be reached"):
            service.answer("it", "http://127.0.0.1:1/", seconds=5)
