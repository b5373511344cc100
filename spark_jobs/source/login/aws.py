"""Tokens of RDS and Aurora: a request that is signed here and never sent, by keys of the usual AWS environment.

Put here: the keys in the order of AWS's SDKs, and the signature. Not here: other services of AWS.

Sources: docs.aws.amazon.com, "Signature Version 4" (query parameters) and RDS, "Connecting with an authentication
token". Keys that these do not give (roles of a profile, SSO) are for password_command and AWS's own command line.
"""

import configparser
import hashlib
import hmac
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, urlsplit

from spark_jobs.config.servers import MySQL
from spark_jobs.source.login import service
from spark_jobs.source.login.errors import CredentialsError
from spark_jobs.source.login.leases import TimedSecret, leased

_LIFETIME_SECONDS = 900
"""Longest that RDS takes; it counts at a login alone."""
_HOST_REGION = re.compile(r"\.([a-z0-9-]+)\.rds\.amazonaws\.com(?:\.cn)?\.?$", re.IGNORECASE)
_CONTAINER_HOST = "169.254.170.2"
_CONTAINER_HOSTS = {_CONTAINER_HOST, "169.254.170.23", "fd00:ec2::23", "localhost", "127.0.0.1", "::1"}
_INSTANCE = "http://169.254.169.254"
_COMMAND = "use password_command: [aws, rds, generate-db-auth-token, …]"
_ELEMENT = re.compile(r"<(AccessKeyId|SecretAccessKey|SessionToken|Expiration)>([^<]+)</")


@dataclass(frozen=True, slots=True)
class AwsKeys:
    """What signs: of a user, or with ``session`` of a role for some time. Their text shows nothing."""

    access: str = field(repr=False)
    secret: str = field(repr=False)
    session: str = field(default="", repr=False)


def token(settings: MySQL) -> str:
    """A token for a login within 15 minutes. Raises CredentialsError."""
    region = _region(settings, os.environ)
    keys = keys_of(os.environ, region, settings.connect_timeout)
    return presigned(settings, region, keys, datetime.now(UTC))


def presigned(settings: MySQL, region: str, keys: AwsKeys, now: datetime) -> str:
    """The URL of ``connect`` without its scheme, signed by Signature Version 4 in its query."""
    date, moment = f"{now:%Y%m%d}", f"{now:%Y%m%dT%H%M%SZ}"
    scope = f"{date}/{region}/rds-db/aws4_request"
    parameters = {
        "Action": "connect",
        "DBUser": settings.user,
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{keys.access}/{scope}",
        "X-Amz-Date": moment,
        "X-Amz-Expires": str(_LIFETIME_SECONDS),
        "X-Amz-SignedHeaders": "host",
    } | ({"X-Amz-Security-Token": keys.session} if keys.session else {})
    quoted = [f"{name}={quote(value, safe='-_.~')}" for name, value in parameters.items()]
    address = f"{settings.host}:{settings.port}"
    empty_hash = hashlib.sha256(b"").hexdigest()
    # The signature is of the parameters by name.
    request = f"GET\n/\n{'&'.join(sorted(quoted))}\nhost:{address.lower()}\n\nhost\n{empty_hash}"
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{keys.secret}".encode()
    for part in (date, region, "rds-db", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return f"{address}/?{'&'.join(quoted)}&X-Amz-Signature={hmac.digest(key, text.encode(), 'sha256').hex()}"


def _region(settings: MySQL, environment: Mapping[str, str]) -> str:
    match = _HOST_REGION.search(settings.host)
    region = (
        settings.region
        or (match and match[1])
        or environment.get("AWS_REGION")
        or environment.get("AWS_DEFAULT_REGION")
    )
    if not region:
        raise CredentialsError("auth: aws-iam: the region is not known; set region, or AWS_REGION in the environment")
    return region


def keys_of(environment: Mapping[str, str], region: str, seconds: float) -> AwsKeys:
    """Keys of the first of these that is there; where none is, of the machine's role.

    The profile that AWS_PROFILE names; AWS_ACCESS_KEY_ID; AWS_WEB_IDENTITY_TOKEN_FILE (EKS); the default profile;
    AWS_CONTAINER_CREDENTIALS_FULL_URI or _RELATIVE_URI (ECS, EKS); the instance metadata service, version 2.
    Raises CredentialsError.
    """
    if environment.get("AWS_PROFILE"):
        keys = _profile(environment, environment["AWS_PROFILE"])
        if keys is None:
            raise CredentialsError(f"auth: aws-iam: no file of AWS has the profile {environment['AWS_PROFILE']}")
        return keys
    # A profile that is named goes before keys of the environment, as in the SDKs.
    access, secret = environment.get("AWS_ACCESS_KEY_ID"), environment.get("AWS_SECRET_ACCESS_KEY")
    if access and secret:
        return AwsKeys(access, secret, environment.get("AWS_SESSION_TOKEN", ""))
    if environment.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        return _web_identity(environment, region, seconds)
    if keys := _profile(environment, "default"):
        return keys
    if environment.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") or environment.get(
        "AWS_CONTAINER_CREDENTIALS_FULL_URI"
    ):
        return _container(environment, seconds)
    return _instance(environment, seconds)


def _profile(environment: Mapping[str, str], name: str) -> AwsKeys | None:
    """Keys of a profile of the shared files; None where there is no such profile."""
    home = Path(os.path.expanduser("~"), ".aws")  # noqa: PTH111 -- stays as it is for a user without a home
    files = {
        environment.get("AWS_SHARED_CREDENTIALS_FILE") or str(home / "credentials"): name,
        environment.get("AWS_CONFIG_FILE") or str(home / "config"): name if name == "default" else f"profile {name}",
    }
    # The config file has "profile NAME" where the credentials file has "NAME".
    has_profile = False
    for path, section in files.items():
        parser = configparser.RawConfigParser(default_section="\0", strict=False)
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, ValueError, OSError):
            raise CredentialsError(f"auth: aws-iam: {path} is no file of profiles") from None
        values = parser[section] if parser.has_section(section) else None
        has_profile |= values is not None
        if values and values.get("aws_access_key_id") and values.get("aws_secret_access_key"):
            return AwsKeys(
                values["aws_access_key_id"], values["aws_secret_access_key"], values.get("aws_session_token", "")
            )
        unread = ("role_arn", "credential_process", "sso_session", "sso_start_url", "login_session")
        if values and (key := next((key for key in unread if values.get(key)), None)):
            raise CredentialsError(f"auth: aws-iam: the profile {name} has {key}, which is not read; {_COMMAND}")
    if has_profile and name != "default":
        raise CredentialsError(f"auth: aws-iam: the profile {name} has no keys; {_COMMAND}")
    return None


def _web_identity(environment: Mapping[str, str], region: str, seconds: float) -> AwsKeys:
    """Keys of a role for a token that Kubernetes writes into a file and renews there."""
    label = "AWS STS"
    path, role = environment["AWS_WEB_IDENTITY_TOKEN_FILE"], environment.get("AWS_ROLE_ARN", "")
    if not role:
        raise CredentialsError("auth: aws-iam: AWS_WEB_IDENTITY_TOKEN_FILE is set, and AWS_ROLE_ARN is not")
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    url = (
        environment.get("AWS_ENDPOINT_URL_STS")
        or environment.get("AWS_ENDPOINT_URL")
        or f"https://sts.{region}.{suffix}"
    )

    # Kubernetes renews its file, which is read for each request; a form keeps the token out of addresses.
    def request() -> TimedSecret:
        form = {
            "Action": "AssumeRoleWithWebIdentity",
            "Version": "2011-06-15",
            "RoleArn": role,
            "RoleSessionName": environment.get("AWS_ROLE_SESSION_NAME") or "stratalog",
            "WebIdentityToken": service.file_text("AWS_WEB_IDENTITY_TOKEN_FILE", path).strip(),
        }
        found = dict(_ELEMENT.findall(service.answer(label, url, seconds=seconds, form=form).decode(errors="replace")))
        return _lease(
            label, *(found.get(name, "") for name in ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration"))
        )

    return _leased_keys(("sts", url, role, path), request)


def _container(environment: Mapping[str, str], seconds: float) -> AwsKeys:
    """Keys of a task's role (ECS), or a pod's (EKS Pod Identity)."""
    label = "AWS's container credentials"
    relative = environment.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
    url = f"http://{_CONTAINER_HOST}{relative}" if relative else environment["AWS_CONTAINER_CREDENTIALS_FULL_URI"]
    # Keys go over HTTP within the machine alone.
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in _CONTAINER_HOSTS:
        raise CredentialsError(
            "auth: aws-iam: AWS_CONTAINER_CREDENTIALS_FULL_URI is neither of https nor of this machine"
        )

    def request() -> TimedSecret:
        path = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
        authorization = (
            service.file_text("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", path).strip()
            if path
            else environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")
        )
        headers = {"Authorization": authorization} if authorization else {}
        return _json_lease(label, service.answer(label, url, seconds=seconds, headers=headers))

    return _leased_keys(("container", url), request)


def _instance(environment: Mapping[str, str], seconds: float) -> AwsKeys:
    """Keys of the role of an EC2 instance, by the metadata service's version 2."""
    label = "the EC2 instance metadata service"
    if environment.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        raise CredentialsError(
            "auth: aws-iam: the environment has no keys of AWS, and AWS_EC2_METADATA_DISABLED is set"
        )
    root = (environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or _INSTANCE).rstrip("/")
    folder = f"{root}/latest/meta-data/iam/security-credentials/"

    # Version 2 asks for a session first, which a request that somebody forwards does not get.
    def request() -> TimedSecret:
        session = service.answer(
            label,
            f"{root}/latest/api/token",
            seconds=seconds,
            headers={"X-aws-ec2-metadata-token-ttl-seconds": "60"},
            is_put=True,
        ).decode(errors="replace")
        headers = {"X-aws-ec2-metadata-token": session}
        roles = service.answer(label, folder, seconds=seconds, headers=headers).decode(errors="replace")
        role = quote((roles.split() or [""])[0], safe="")
        return _json_lease(label, service.answer(label, folder + role, seconds=seconds, headers=headers))

    return _leased_keys(("instance", root), request)


def _leased_keys(key: tuple[str, ...], request: Callable[[], TimedSecret]) -> AwsKeys:
    keys = leased(key, request)
    assert isinstance(keys, AwsKeys)
    return keys


def _json_lease(label: str, body: bytes) -> TimedSecret:
    return _lease(label, *service.fields_of(label, body, "AccessKeyId", "SecretAccessKey", "Token", "Expiration"))


def _lease(label: str, access: str, secret: str, session: str, expiration: str) -> TimedSecret:
    end = None
    with suppress(ValueError):
        end = datetime.fromisoformat(expiration).timestamp()
    if not (access and secret and end):
        raise CredentialsError(f"{label}: its answer has no keys with an expiration", True)
    return TimedSecret(AwsKeys(access, secret, session), end)
