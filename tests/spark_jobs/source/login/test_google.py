from urllib.parse import parse_qs, urlsplit

import pytest

from spark_jobs.config.servers import MySQL, Tls
from spark_jobs.source.login.google import SCOPE, token
from tests.services.identities import environment
from tests.services.token_services import Answer, Asked, serving

__all__ = ["environment"]


def test_a_token_is_for_logins_alone(environment: pytest.MonkeyPatch) -> None:
    def answer(asked: Asked) -> Answer:
        assert parse_qs(urlsplit(asked.path).query) == {"scopes": [SCOPE]}
        return 200, {"access_token": "token-machine", "expires_in": 3599, "token_type": "Bearer"}

    with serving(answer) as service:
        environment.setenv("GCE_METADATA_HOST", service.url.removeprefix("http://"))
        assert token(MySQL(host="db", user="repl", auth="gcp-iam", tls=Tls(), connect_timeout=5)) == "token-machine"
