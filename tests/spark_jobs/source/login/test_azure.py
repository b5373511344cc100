from urllib.parse import parse_qs, urlsplit

import pytest

from spark_jobs.config.servers import MySQL, Tls
from spark_jobs.source.login.azure import RESOURCE, token
from tests.services.identities import environment
from tests.services.token_services import Answer, Asked, serving

__all__ = ["environment"]


def test_a_token_is_for_databases(environment: pytest.MonkeyPatch) -> None:
    def answer(asked: Asked) -> Answer:
        assert parse_qs(urlsplit(asked.path).query)["resource"] == [RESOURCE]
        return 200, {"access_token": "token-system", "expires_in": "86399"}

    with serving(answer) as service:
        environment.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", service.url)
        assert token(MySQL(host="db", user="repl", auth="azure-entra", tls=Tls(), connect_timeout=5)) == "token-system"
