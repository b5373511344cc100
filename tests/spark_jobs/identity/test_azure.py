import os
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from spark_jobs.identity import azure
from spark_jobs.identity.errors import CredentialsError
from tests.services.identities import environment
from tests.services.token_services import Answer, Asked, serving

__all__ = ["environment"]

RESOURCE = "https://storage.azure.com"


def token() -> str:
    return str(azure.token(os.environ, RESOURCE, 5).value)


def test_a_machine_gives_the_token_of_its_identity(environment: pytest.MonkeyPatch) -> None:
    def answer(asked: Asked) -> Answer:
        query = parse_qs(urlsplit(asked.path).query)
        if asked.headers.get("metadata") != "true" or query["resource"] != [RESOURCE]:
            return 400, {"error": "invalid_request", "error_description": "the token is geheim"}
        return 200, {"access_token": f"token-{query.get('client_id', ['system'])[0]}", "expires_in": "86399"}

    with serving(answer) as service:
        environment.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", service.url)
        assert [token(), token()] == ["token-system"] * 2
        assert len(service.requests) == 1
        assert urlsplit(service.requests[0].path).path == "/metadata/identity/oauth2/token"
        environment.setenv("AZURE_CLIENT_ID", "chosen")
        assert token() == "token-chosen"


def test_app_service_gives_a_token_for_its_header(environment: pytest.MonkeyPatch) -> None:
    def answer(asked: Asked) -> Answer:
        if asked.headers.get("x-identity-header") != "header-of-test":
            return 401, {"error": "unauthorized"}
        return 200, {"access_token": "token-app", "expires_in": 3600}

    with serving(answer) as service:
        environment.setenv("IDENTITY_ENDPOINT", f"{service.url}/msi/token")
        environment.setenv("IDENTITY_HEADER", "wrong")
        with pytest.raises(
            CredentialsError, match=r"^Azure's identity endpoint answered with status 401 \(unauthorized\)$"
        ):
            token()
        environment.setenv("IDENTITY_HEADER", "header-of-test")
        assert token() == "token-app"


@pytest.mark.parametrize("by", ["assertion", "secret"])
def test_an_application_gets_a_token_by_what_it_has(by: str, environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def answer(asked: Asked) -> Answer:
        form = {name: values[0] for name, values in parse_qs(asked.body.decode()).items()}
        assert (asked.path, form["scope"]) == ("/tenant/oauth2/v2.0/token", f"{RESOURCE}/.default")
        assert (form["grant_type"], form["client_id"]) == ("client_credentials", "client")
        if by == "assertion":
            assert form["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        given = form.get("client_assertion") or form.get("client_secret")
        if given != "geheim":
            return 401, {"error": "invalid_client", "error_description": f"{given} is wrong"}
        return 200, {"access_token": f"token-{by}", "expires_in": 3599}

    file = tmp_path / "federated"
    with serving(answer) as service:
        environment.setenv("AZURE_AUTHORITY_HOST", f"{service.url}/")
        environment.setenv("AZURE_TENANT_ID", "tenant")
        for given in ("falsch", "geheim"):
            if by == "assertion":
                file.write_text(f"{given}\n")
                environment.setenv("AZURE_FEDERATED_TOKEN_FILE", str(file))
            else:
                environment.setenv("AZURE_CLIENT_SECRET", given)
            environment.delenv("AZURE_CLIENT_ID", raising=False)
            with pytest.raises(CredentialsError, match="AZURE_TENANT_ID and AZURE_CLIENT_ID are needed, too"):
                token()
            environment.setenv("AZURE_CLIENT_ID", "client")
            if given == "falsch":
                with pytest.raises(
                    CredentialsError, match=r"^Microsoft Entra answered with status 401 \(invalid_client\)$"
                ):
                    token()
        assert token() == f"token-{by}"
