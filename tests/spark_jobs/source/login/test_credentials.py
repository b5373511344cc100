import pytest

from spark_jobs.config.servers import MySQL, Tls
from spark_jobs.identity.errors import CredentialsError
from spark_jobs.source.login.credentials import password_of
from tests.services.identities import environment

__all__ = ["environment"]


def test_each_kind_of_login_gives_what_is_sent(environment: pytest.MonkeyPatch) -> None:
    assert password_of(MySQL(user="repl")) == b""
    assert password_of(MySQL.model_validate({"user": "repl", "password": "пароль"})) == "пароль".encode()
    assert password_of(MySQL.model_validate({"user": "repl", "password_command": ["echo", "geheim"]})) == b"geheim"
    environment.setenv("AWS_ACCESS_KEY_ID", "AK")
    environment.setenv("AWS_SECRET_ACCESS_KEY", "SK")
    server = MySQL(host="db", user="repl", auth="aws-iam", region="eu-west-1", tls=Tls())
    assert password_of(server).startswith(b"db:3306/?Action=connect&DBUser=repl&")
    with pytest.raises(CredentialsError, match=r"^auth: aws-iam needs tls that verifies the server"):
        password_of(server.model_copy(update={"tls": Tls(verify=False)}))
