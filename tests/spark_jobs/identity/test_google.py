import json
import os
from base64 import urlsafe_b64decode
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from spark_jobs.identity import google
from spark_jobs.identity.errors import CredentialsError
from tests.services.identities import environment
from tests.services.token_services import Answer, Asked, serving

__all__ = ["environment"]

SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"


def token() -> str:
    return str(google.token(os.environ, SCOPE, 5).value)


def test_the_metadata_server_gives_a_token_for_a_scope(environment: pytest.MonkeyPatch) -> None:
    def answer(asked: Asked) -> Answer:
        if asked.headers.get("metadata-flavor") != "Google":
            return 403, b""
        assert parse_qs(urlsplit(asked.path).query) == {"scopes": [SCOPE]}
        return 200, {"access_token": "token-machine", "expires_in": 3599, "token_type": "Bearer"}

    with serving(answer) as service:
        environment.setenv("GCE_METADATA_HOST", service.url.removeprefix("http://"))
        assert [token(), token()] == ["token-machine"] * 2
        assert len(service.requests) == 1


def decoded(part: str) -> bytes:
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def test_a_service_account_signs_what_it_says(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()

    def answer(asked: Asked) -> Answer:
        form = parse_qs(asked.body.decode())
        assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
        head, claims, signature = form["assertion"][0].split(".")
        # Raises InvalidSignature, which ends the connection without an answer.
        key.public_key().verify(decoded(signature), f"{head}.{claims}".encode(), padding.PKCS1v15(), hashes.SHA256())
        assert json.loads(decoded(head)) == {"alg": "RS256", "typ": "JWT", "kid": "k1"}
        values = json.loads(decoded(claims))
        assert (values["iss"], values["scope"], values["aud"]) == ("reader@shop", SCOPE, f"{service.url}/token")
        assert values["exp"] - values["iat"] == 3600
        return 200, {"access_token": "token-account", "expires_in": 3599}

    file = tmp_path / "key.json"
    with serving(answer) as service:
        values = {"type": "service_account", "client_email": "reader@shop", "private_key_id": "k1", "private_key": pem}
        file.write_text(json.dumps(values | {"token_uri": f"{service.url}/token"}))
        environment.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
        assert token() == "token-account"
        file.write_text(json.dumps(values | {"private_key": "geheim"}))
        with pytest.raises(CredentialsError) as refused:
            token()
        assert str(refused.value) == f"{file} has no private key of RSA"


def test_a_user_of_gcloud_and_what_is_not_read(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def answer(asked: Asked) -> Answer:
        form = parse_qs(asked.body.decode())
        assert (form["grant_type"], form["refresh_token"]) == (["refresh_token"], ["r"])
        return 200, {"access_token": "token-user", "expires_in": 3599}

    environment.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    file = tmp_path / "application_default_credentials.json"
    with serving(answer) as service:
        values = {"client_id": "c", "client_secret": "s", "refresh_token": "r", "token_uri": service.url}
        file.write_text(json.dumps(values | {"type": "authorized_user"}))
        assert token() == "token-user"
    file.write_text(json.dumps({"type": "external_account"}))
    with pytest.raises(
        CredentialsError, match=r"is of type external_account, which is not read; use a service account"
    ):
        token()
    file.write_text("geheim")
    with pytest.raises(CredentialsError, match=r"its answer is no JSON object$") as refused:
        token()
    assert "geheim" not in str(refused.value)
