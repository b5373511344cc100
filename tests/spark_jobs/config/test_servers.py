from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from spark_jobs.config.model import SourceSettings
from spark_jobs.config.servers import Endpoint, MySQL, problem_of_login
from spark_jobs.identity.errors import CredentialsError
from spark_jobs.source.login.credentials import password_of


def test_an_endpoint_has_what_it_does_not_say_from_what_all_share() -> None:
    shared = MySQL(user="repl", password=SecretStr("secret"), port=3307, read_timeout=5)
    server = Endpoint(host="db2", user="reader").server(shared)
    assert (server.host, server.user, server.port, server.read_timeout) == ("db2", "reader", 3307, 5)
    assert "secret" not in repr(server)


VERIFIED = {"ca": "ca.pem"}


@pytest.mark.parametrize(
    "keys, problem",
    [
        ({"auth": "aws-iam"}, "auth: aws-iam needs tls that verifies the server; write tls: {ca: FILE}"),
        ({"auth": "gcp-iam", "tls": {"verify": False}}, "auth: gcp-iam needs tls that verifies the server"),
        ({"auth": "azure-entra", "tls": {"enabled": False}}, "auth: azure-entra needs tls that verifies the server"),
        ({"auth": "aws-iam", "password": "x", "tls": VERIFIED}, "password and auth are each a way to log in"),
        ({"password": "x", "password_command": ["y"]}, "password and password_command are each a way to log in"),
        ({"password_command": ["", "y"]}, "password_command must begin with the name of a program"),
        ({"password": "x", "region": "eu-west-1"}, "region is for auth: aws-iam"),
    ],
)
def test_a_login_has_one_secret_and_a_token_a_server_that_is_known(keys: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError) as refused:
        MySQL.model_validate({"user": "repl"} | keys)
    assert problem in str(refused.value)


def test_what_a_command_is_started_with_does_not_print() -> None:
    assert "secret" not in repr(MySQL(user="repl", password_command=(SecretStr("vault"), SecretStr("secret"))))


def test_an_endpoint_replaces_the_login_that_all_share() -> None:
    shared = MySQL.model_validate({"user": "repl", "auth": "aws-iam", "tls": VERIFIED})
    server = Endpoint(host="db2", password=SecretStr("x")).server(shared)
    assert (server.auth, server.password.get_secret_value(), problem_of_login(server)) == (None, "x", None)
    server = Endpoint.model_validate({"host": "db2", "password_command": ["vault"]}).server(shared)
    assert (server.auth, len(server.password_command)) == (None, 1)
    assert Endpoint(host="db2", region="eu-west-1").server(shared).auth == "aws-iam"


def test_an_endpoint_cannot_take_away_what_a_token_needs() -> None:
    shared = {"user": "repl", "auth": "aws-iam", "tls": VERIFIED}
    endpoints = [{"host": "db1"}, {"host": "db2", "tls": {"verify": False}}]
    with pytest.raises(ValidationError, match=r"endpoints\[1\]: auth: aws-iam needs tls that verifies the server"):
        SourceSettings.model_validate({"mysql": shared, "endpoints": endpoints})
    with pytest.raises(CredentialsError, match="needs tls that verifies"):
        password_of(Endpoint.model_validate(endpoints[1]).server(MySQL.model_validate(shared)))
