import json
import sys
import time
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from spark_jobs.identity import leases
from spark_jobs.identity.aws import identity_of
from spark_jobs.identity.aws_signature import AwsKeys
from spark_jobs.identity.errors import CredentialsError
from tests.services.identities import environment
from tests.services.token_services import Answer, Asked, Role, assume_role, instance, moment, serving

__all__ = ["environment"]

REGION = "eu-west-1"


def keys_of(variables: dict[str, str], region: str = REGION, seconds: float = 5) -> AwsKeys:
    return identity_of(variables, region, seconds).keys


VARIABLES = {"AWS_ACCESS_KEY_ID": "AV", "AWS_SECRET_ACCESS_KEY": "SV", "AWS_SESSION_TOKEN": "TV"}


def files(folder: Path, credentials: str, settings: str = "") -> dict[str, str]:
    (folder / "credentials").write_text(credentials)
    (folder / "config").write_text(settings)
    return {"AWS_SHARED_CREDENTIALS_FILE": str(folder / "credentials"), "AWS_CONFIG_FILE": str(folder / "config")}


DEFAULT = "[default]\naws_access_key_id=AD\naws_secret_access_key=SD%\n"
OLD = "[old]\naws_access_key_id=AO\naws_secret_access_key=SO\naws_session_token=TO\n"


def test_variables_come_before_profiles_as_in_boto3(tmp_path: Path) -> None:
    paths = files(tmp_path, DEFAULT + OLD, "[profile empty]\nregion=x\n[profile human]\nsso_session=x\n")
    assert keys_of(VARIABLES | paths | {"AWS_PROFILE": "old"}) == AwsKeys("AV", "SV", "TV")
    assert keys_of(paths) == AwsKeys("AD", "SD%")
    found = identity_of(paths | {"AWS_PROFILE": "old"}, REGION, 1)
    assert (found.keys, found.origin, found.end) == (AwsKeys("AO", "SO", "TO"), "the profile old", None)
    for name, problem in [
        ("empty", "the profile empty has no keys, role or credential_process"),
        ("human", "the profile human has sso_session, which is not read; give it credential_process = aws configure "),
        ("none", "no file of AWS has the profile none"),
    ]:
        with pytest.raises(CredentialsError) as refused:
            keys_of(paths | {"AWS_PROFILE": name})
        assert problem in str(refused.value)


def test_a_role_of_a_profile_is_assumed_by_the_keys_of_another(tmp_path: Path) -> None:
    """Through a chain of two roles, each request signed by the keys before it."""
    first, second = Role("arn:1", ("AD", "SD%", "")), Role("arn:2", ("ASIA-arn:1", "S-arn:1", "T-arn:1"), external="x")
    settings = (
        "[profile base]\nrole_arn=arn:1\nsource_profile=default\n"
        "[profile lake]\nrole_arn=arn:2\nsource_profile=base\nexternal_id=x\nrole_session_name=shop\n"
    )
    with serving(assume_role(first, second)) as service:
        variables = files(tmp_path, DEFAULT, settings) | {"AWS_ENDPOINT_URL_STS": service.url, "AWS_PROFILE": "lake"}
        found = identity_of(variables, REGION, 5)
        assert found.keys == AwsKeys("ASIA-arn:2", "S-arn:2", "T-arn:2")
        assert (found.origin, found.end is None) == ("the role of the profile lake", False)
        assert parse_qs(service.requests[-1].body.decode())["RoleSessionName"] == ["shop"]
        assert len(service.requests) == 2
        keys_of(variables)
        assert len(service.requests) == 2, "keys are kept until shortly before their end"
        (tmp_path / "credentials").write_text(DEFAULT.replace("SD%", "wrong"))
        leases._leases.clear()
        with pytest.raises(CredentialsError, match=r"^AWS STS answered with status 403 \(SignatureDoesNotMatch\)$"):
            keys_of(variables)


def test_a_role_by_the_instance_and_profiles_that_lead_nowhere(tmp_path: Path) -> None:
    def given() -> dict[str, object]:
        return {"AccessKeyId": "AI", "SecretAccessKey": "SI", "Token": "TI", "Expiration": moment(3600)}

    settings = (
        "[profile lake]\nrole_arn=arn:1\ncredential_source=Ec2InstanceMetadata\n"
        "[profile a]\nrole_arn=arn:1\nsource_profile=b\n[profile b]\nrole_arn=arn:1\nsource_profile=a\n"
        "[profile alone]\nrole_arn=arn:1\n[profile env]\nrole_arn=arn:1\ncredential_source=Environment\n"
    )
    with serving(instance(given)) as machine, serving(assume_role(Role("arn:1", ("AI", "SI", "TI")))) as sts:
        variables = files(tmp_path, "", settings)
        variables |= {"AWS_ENDPOINT_URL_STS": sts.url, "AWS_EC2_METADATA_SERVICE_ENDPOINT": machine.url}
        assert keys_of(variables | {"AWS_PROFILE": "lake"}) == AwsKeys("ASIA-arn:1", "S-arn:1", "T-arn:1")
        for name, problem in [
            ("a", "the profile b has a source_profile, a, that leads to no keys"),
            ("alone", "the profile alone has a role_arn, and neither source_profile, web_identity_token_file nor"),
            ("env", "the profile env has a credential_source, and 'AWS_ACCESS_KEY_ID' is not set"),
        ]:
            with pytest.raises(CredentialsError) as refused:
                keys_of(variables | {"AWS_PROFILE": name})
            assert problem in str(refused.value)


def test_a_program_of_a_profile_gives_keys(tmp_path: Path) -> None:
    program = tmp_path / "give keys.py"
    keys = {"Version": 1, "AccessKeyId": "AP", "SecretAccessKey": "SP", "SessionToken": "TP"}
    program.write_text(f"print({json.dumps(json.dumps(keys))})")
    settings = f"[default]\ncredential_process={sys.executable} '{program}'\n"
    assert keys_of(files(tmp_path, "", settings)) == AwsKeys("AP", "SP", "TP")
    leases._leases.clear()
    program.write_text("import sys; print('geheim'); sys.exit('geheim')")
    with pytest.raises(CredentialsError) as refused:
        keys_of(files(tmp_path, "", settings))
    assert str(refused.value) == (
        "the credential_process of the profile default ended with exit status 1; run it by hand"
    )


def test_without_an_identity_it_says_where_it_looked(tmp_path: Path) -> None:
    paths = files(tmp_path, "")
    looked_for = (
        "there is no AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY, no AWS_WEB_IDENTITY_TOKEN_FILE, no keys in the "
        f"profile default of {tmp_path / 'credentials'} and {tmp_path / 'config'}, no "
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI and no AWS_CONTAINER_CREDENTIALS_FULL_URI; "
    )
    for variables, problem in [
        ({"AWS_EC2_METADATA_DISABLED": "true"}, "AWS_EC2_METADATA_DISABLED is set"),
        (
            {"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:1"},
            "the EC2 instance metadata service cannot be reached: Connection refused",
        ),
    ]:
        with pytest.raises(CredentialsError) as refused:
            keys_of(paths | variables)
        assert str(refused.value) == looked_for + problem


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
