import os
import time
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from spark_jobs.config.servers import MySQL, Tls
from spark_jobs.source.login import leases
from spark_jobs.source.login.aws import AwsKeys, keys_of, presigned, token
from spark_jobs.source.login.errors import CredentialsError
from tests.token_services import Answer, Asked, instance, moment, serving

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
REGION = "eu-west-1"
NAMES = ("AWS_", "AZURE_", "IDENTITY_", "GOOGLE_", "GCE_", "CLOUDSDK_")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An environment without identities, and no lease of another test."""
    for name in list(os.environ):
        if name.startswith(NAMES):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(leases, "_leases", {})
    return monkeypatch


def settings(**changed: object) -> MySQL:
    return MySQL.model_validate({"host": "db", "user": "repl", "auth": "aws-iam", "tls": Tls()} | changed)


USERS_TOKEN = (
    "shop.abc123.eu-west-1.rds.amazonaws.com:3306/?Action=connect&DBUser=repl&X-Amz-Algorithm=AWS4-HMAC-SHA256"
    "&X-Amz-Credential=AKIDEXAMPLE%2F20261128%2Feu-west-1%2Frds-db%2Faws4_request&X-Amz-Date=20261128T123456Z"
    "&X-Amz-Expires=900&X-Amz-SignedHeaders=host"
    "&X-Amz-Signature=d743563ad1fdf16f60a5e6cebdc44384f1ad3d8e79a3494055a97a9cf86f53b1"
)
ROLES_TOKEN = (
    "Shop.abc123.us-gov-west-1.rds.amazonaws.com:13306/?Action=connect&DBUser=re%20pl%40x~%C3%BC"
    "&X-Amz-Algorithm=AWS4-HMAC-SHA256"
    "&X-Amz-Credential=ASIDEXAMPLE%2F20261128%2Fus-gov-west-1%2Frds-db%2Faws4_request&X-Amz-Date=20261128T123456Z"
    "&X-Amz-Expires=900&X-Amz-SignedHeaders=host&X-Amz-Security-Token=IQoJ%2Bb3%2FJp%3D%3D"
    "&X-Amz-Signature=0f6cde33ca6099a2347cd7feee8dd9a0df3ee41d07ca203c71ae0812dcbc70b2"
)
"""Recorded from generate_db_auth_token of botocore 1.40.0, its clock at MOMENT."""
MOMENT = datetime(2026, 11, 28, 12, 34, 56, tzinfo=UTC)


@pytest.mark.parametrize(
    "user, region, keys, signed",
    [
        ("repl", "eu-west-1", AwsKeys("AKIDEXAMPLE", SECRET), USERS_TOKEN),
        ("re pl@x~ü", "us-gov-west-1", AwsKeys("ASIDEXAMPLE", SECRET, "IQoJ+b3/Jp=="), ROLES_TOKEN),
    ],
    ids=["of a user", "of a role"],
)
def test_a_token_is_that_of_botocore(user: str, region: str, keys: AwsKeys, signed: str) -> None:
    host, _, port = signed.partition("/")[0].partition(":")
    assert presigned(settings(host=host, port=int(port), user=user), region, keys, MOMENT) == signed


def test_the_text_of_keys_has_none() -> None:
    assert repr(AwsKeys("AKIDEXAMPLE", SECRET, "session")) == "AwsKeys()"


@pytest.mark.parametrize(
    "host, region, variables, signed",
    [
        ("shop.abc.eu-west-1.rds.amazonaws.com", None, {"AWS_REGION": "us-east-1"}, "eu-west-1"),
        ("shop.abc.cn-north-1.rds.amazonaws.com.cn", None, {}, "cn-north-1"),
        ("shop.abc.eu-west-1.rds.amazonaws.com", "us-east-2", {}, "us-east-2"),
        ("127.0.0.1", None, {"AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-west-1"}, "us-east-1"),
        ("127.0.0.1", None, {"AWS_DEFAULT_REGION": "us-west-1"}, "us-west-1"),
    ],
)
def test_the_region_of_a_token(
    host: str, region: str | None, variables: dict[str, str], signed: str, environment: pytest.MonkeyPatch
) -> None:
    for name, value in ({"AWS_ACCESS_KEY_ID": "AK", "AWS_SECRET_ACCESS_KEY": "SK"} | variables).items():
        environment.setenv(name, value)
    query = parse_qs(token(settings(host=host, region=region)).partition("?")[2])
    assert query["X-Amz-Credential"][0].split("/")[2] == signed


def test_without_a_region_the_key_is_named() -> None:
    with pytest.raises(CredentialsError, match=r"the region is not known; set region, or AWS_REGION"):
        token(settings())


def profiles(folder: Path) -> dict[str, str]:
    (folder / "credentials").write_text(
        "[default]\naws_access_key_id=AD\naws_secret_access_key=SD%\n[old]\naws_access_key_id=AO\n"
        "aws_secret_access_key=SO\naws_session_token=TO\n"
    )
    (folder / "config").write_text(
        "[profile assumed]\nrole_arn=arn\nsource_profile=default\n[profile empty]\nregion=x\n"
    )
    return {"AWS_SHARED_CREDENTIALS_FILE": str(folder / "credentials"), "AWS_CONFIG_FILE": str(folder / "config")}


def test_keys_of_variables_and_profiles(tmp_path: Path) -> None:
    files = profiles(tmp_path)
    variables = {"AWS_ACCESS_KEY_ID": "AV", "AWS_SECRET_ACCESS_KEY": "SV", "AWS_SESSION_TOKEN": "TV"}
    assert keys_of(variables | files, REGION, 1) == AwsKeys("AV", "SV", "TV")
    assert keys_of(files, REGION, 1) == AwsKeys("AD", "SD%")
    assert keys_of(variables | files | {"AWS_PROFILE": "old"}, REGION, 1) == AwsKeys("AO", "SO", "TO")
    for name, problem in [
        ("assumed", "the profile assumed has role_arn, which is not read; use password_command: [aws, rds, "),
        ("empty", "the profile empty has no keys; use password_command"),
        ("none", "no file of AWS has the profile none"),
    ]:
        with pytest.raises(CredentialsError) as refused:
            keys_of(files | {"AWS_PROFILE": name}, REGION, 1)
        assert problem in str(refused.value)


def test_an_instance_gives_the_keys_of_its_role_until_they_expire() -> None:
    lifetimes = iter([3600.0, 1.0, 3600.0])
    given: list[str] = []

    def keys() -> dict[str, object]:
        given.append(f"ASIA{len(given)}")
        end = moment(next(lifetimes))
        return {"Code": "Success", "AccessKeyId": given[-1], "SecretAccessKey": "S", "Token": "T", "Expiration": end}

    with serving(instance(keys)) as service:
        variables = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": f"{service.url}/"}
        assert [keys_of(variables, REGION, 5).access for _ in range(3)] == ["ASIA0"] * 3
        assert len(service.requests) == 3
        leases._leases.clear()
        assert keys_of(variables, REGION, 5).access == "ASIA1"
        time.sleep(1.1)
        assert keys_of(variables, REGION, 5) == AwsKeys("ASIA2", "S", "T")
    with pytest.raises(CredentialsError, match="AWS_EC2_METADATA_DISABLED is set"):
        keys_of({"AWS_EC2_METADATA_DISABLED": "true"}, REGION, 1)


def test_a_container_gives_keys_for_its_authorization(tmp_path: Path) -> None:
    """A pod's token is in a file, which is read again for each request."""
    (tmp_path / "token").write_text("token-of-pod\n")

    def answer(asked: Asked) -> Answer:
        if asked.headers.get("authorization") != "token-of-pod":
            return 403, {"code": "AccessDenied", "message": "token-of-pod"}
        return 200, {"AccessKeyId": "ASIAC", "SecretAccessKey": "S", "Token": "T", "Expiration": moment(3600)}

    with serving(answer) as service:
        variables = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{service.url}/v1/credentials"}
        with pytest.raises(CredentialsError) as refused:
            keys_of(variables | {"AWS_CONTAINER_AUTHORIZATION_TOKEN": "wrong"}, REGION, 5)
        assert str(refused.value) == "AWS's container credentials answered with status 403 (AccessDenied)"
        assert not refused.value.is_passing
        variables["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = str(tmp_path / "token")
        assert keys_of(variables, REGION, 5) == AwsKeys("ASIAC", "S", "T")
    with pytest.raises(CredentialsError, match="is neither of https nor of this machine"):
        keys_of({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://example.org/keys"}, REGION, 1)


def test_a_web_identity_is_exchanged_at_sts(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("token.of.kubernetes\n")
    variables = {"AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token"), "AWS_ROLE_ARN": "arn:aws:iam::1:role/reader"}

    def answer(asked: Asked) -> Answer:
        form = parse_qs(asked.body.decode())
        assert form["RoleArn"] == ["arn:aws:iam::1:role/reader"]
        if form["WebIdentityToken"] != ["token.of.kubernetes"]:
            return 400, b"<ErrorResponse><Error><Code>InvalidIdentityToken</Code></Error></ErrorResponse>"
        return 200, (
            "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><SessionToken>TW</SessionToken>"
            f"<SecretAccessKey>SW</SecretAccessKey><Expiration>{moment(3600)}</Expiration><AccessKeyId>ASIAW</AccessKeyId>"
            "</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
        ).encode()

    with serving(answer) as service:
        variables["AWS_ENDPOINT_URL_STS"] = service.url
        assert keys_of(variables, REGION, 5) == AwsKeys("ASIAW", "SW", "TW")
        assert (service.requests[0].method, service.requests[0].path) == ("POST", "/")
        leases._leases.clear()
        (tmp_path / "token").write_text("another.token")
        with pytest.raises(CredentialsError, match=r"^AWS STS answered with status 400 \(InvalidIdentityToken\)$"):
            keys_of(variables, REGION, 5)
    with pytest.raises(CredentialsError, match="AWS_ROLE_ARN is not"):
        keys_of(variables | {"AWS_ROLE_ARN": ""}, REGION, 5)
