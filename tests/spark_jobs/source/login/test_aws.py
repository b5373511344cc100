from datetime import UTC, datetime
from urllib.parse import parse_qs

import pytest

from spark_jobs.config.servers import MySQL, Tls
from spark_jobs.identity.aws_signature import AwsKeys
from spark_jobs.identity.errors import CredentialsError
from spark_jobs.source.login.aws import presigned, token
from tests.services.identities import environment

__all__ = ["environment"]

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"


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
