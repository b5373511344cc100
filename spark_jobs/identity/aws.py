"""Keys of AWS, found where its SDKs find them: variables, roles by web identity, profiles, containers, instances.

Put here: the order, and what each one is asked. Not here: what the keys sign (aws_signature.py, source/login/aws.py).

Sources: docs.aws.amazon.com, "AWS SDKs and Tools: standardized credential providers" (its order is that of boto3 and of
the SDK for Java), "AssumeRole", "AssumeRoleWithWebIdentity", "Use IMDSv2".
"""

import re
import shlex
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, urlencode, urlsplit

from spark_jobs.identity import service
from spark_jobs.identity.aws_profiles import files_of, profile
from spark_jobs.identity.aws_signature import AwsKeys, SignatureScope, signed_headers
from spark_jobs.identity.errors import CredentialsError
from spark_jobs.identity.leases import TimedSecret, leased

_CONTAINER_HOST = "169.254.170.2"
_CONTAINER_HOSTS = {_CONTAINER_HOST, "169.254.170.23", "fd00:ec2::23", "localhost", "127.0.0.1", "::1"}
_INSTANCE = "http://169.254.169.254"
_CONTAINER_VARIABLES = ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI")
_ELEMENT = re.compile(r"<(AccessKeyId|SecretAccessKey|SessionToken|Expiration)>([^<]+)</")
VARIABLES = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    *("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME"),
    *("AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"),
    *("AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"),
    *(*_CONTAINER_VARIABLES, "AWS_CONTAINER_AUTHORIZATION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
    *("AWS_EC2_METADATA_DISABLED", "AWS_EC2_METADATA_SERVICE_ENDPOINT"),
)
"""Variables that decide whose keys are found."""
_SESSION = "stratalog"
_PROCESS_SECONDS = 60.0
_DEEPEST = 5
"""Profiles that one may lead to, each by the next one's role."""
_UNREAD = ("sso_session", "sso_start_url", "login_session")
"""Settings of profiles whose keys AWS's own command line has to be asked for."""


@dataclass(frozen=True, slots=True)
class AwsIdentity:
    """Keys, whose they are, and until when they can be used: seconds since 1970, or None for no end."""

    keys: AwsKeys
    origin: str
    end: float | None = None


@dataclass(frozen=True, slots=True)
class _Search:
    """Search for keys: an environment, the region of requests, seconds for one."""

    environment: Mapping[str, str]
    region: str
    seconds: float


def identity_of(environment: Mapping[str, str], region: str, seconds: float) -> AwsIdentity:
    """The first of these that is there.

    AWS_ACCESS_KEY_ID; AWS_WEB_IDENTITY_TOKEN_FILE (EKS); the profile of AWS_PROFILE, or the default one;
    AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI (ECS, EKS Pod Identity); the instance metadata service,
    version 2.

    Args:
        environment: of the process.
        region: of requests to STS.
        seconds: until a service that does not answer is given up.

    Raises CredentialsError; where there is none, with what was looked for.
    """
    # The order is that of the SDKs, so that Spark, which searches by itself, finds the same.
    search = _Search(environment, region, seconds)
    if environment.get("AWS_ACCESS_KEY_ID") and environment.get("AWS_SECRET_ACCESS_KEY"):
        return _identity_of_variables(environment)
    if environment.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        return _by_web_identity(
            search,
            environment["AWS_WEB_IDENTITY_TOKEN_FILE"],
            environment.get("AWS_ROLE_ARN", ""),
            environment.get("AWS_ROLE_SESSION_NAME") or _SESSION,
        )
    name = environment.get("AWS_PROFILE") or "default"
    settings = profile(environment, name)
    if settings is None and name != "default":
        raise CredentialsError(f"no file of AWS has the profile {name}")
    if settings is not None and (identity := _identity_of_profile(search, name, settings, ())):
        return identity
    if any(environment.get(variable) for variable in _CONTAINER_VARIABLES):
        return _identity_of_container(search)
    return _identity_of_instance(search)


def _identity_of_variables(environment: Mapping[str, str]) -> AwsIdentity:
    keys = AwsKeys(
        environment["AWS_ACCESS_KEY_ID"],
        environment["AWS_SECRET_ACCESS_KEY"],
        environment.get("AWS_SESSION_TOKEN", ""),
    )
    return AwsIdentity(keys, "AWS_ACCESS_KEY_ID")


def _identity_of_profile(
    search: _Search, name: str, settings: Mapping[str, str], leading: tuple[str, ...]
) -> AwsIdentity | None:
    """Keys of a profile; None of the default one where it has none.

    leading: the profiles that led to it, whose roles its keys assume.
    """
    origin = f"the profile {name}"
    # As SDKs do: a role before keys, except where the profile is its own source.
    if settings.get("role_arn") and name not in leading:
        return _identity_of_role(search, name, settings, leading)
    if settings.get("aws_access_key_id") and settings.get("aws_secret_access_key"):
        session = settings.get("aws_session_token", "")
        return AwsIdentity(AwsKeys(settings["aws_access_key_id"], settings["aws_secret_access_key"], session), origin)
    if settings.get("credential_process"):
        return _identity_of_process(origin, settings["credential_process"], search.seconds)
    if unread := next((key for key in _UNREAD if settings.get(key)), None):
        raise CredentialsError(
            f"{origin} has {unread}, which is not read; give it credential_process = aws configure "
            f"export-credentials --profile NAME --format process"
        )
    if name != "default" or leading:
        raise CredentialsError(f"{origin} has no keys, role or credential_process")
    return None


def _identity_of_role(search: _Search, name: str, settings: Mapping[str, str], leading: tuple[str, ...]) -> AwsIdentity:
    """Keys of the role of a profile, by the identity that the profile names."""
    origin, role = f"the role of the profile {name}", settings["role_arn"]
    session = settings.get("role_session_name") or _SESSION
    if settings.get("web_identity_token_file"):
        return _by_web_identity(search, settings["web_identity_token_file"], role, session, origin)
    # Whose keys sign is found before anything is asked, since a lease waits for no other.
    source = _assuming_identity(search, name, settings, (*leading, name))
    url = _sts(search)

    def request() -> TimedSecret:
        form = {
            "Action": "AssumeRole",
            "Version": "2011-06-15",
            "RoleArn": role,
            "RoleSessionName": session,
        }
        if external := settings.get("external_id"):
            form["ExternalId"] = external
        if lifetime := settings.get("duration_seconds"):
            form["DurationSeconds"] = lifetime
        headers = signed_headers(
            source.keys, SignatureScope(search.region, "sts", datetime.now(UTC)), url, urlencode(form).encode()
        )
        return _sts_lease(service.answer("AWS STS", url, seconds=search.seconds, headers=headers, form=form))

    return _lent(origin, ("role", url, role, session, source.keys.access), request)


def _assuming_identity(
    search: _Search, name: str, settings: Mapping[str, str], leading: tuple[str, ...]
) -> AwsIdentity:
    """The identity that assumes the role of a profile. leading: profiles up to this one."""
    if source := settings.get("source_profile"):
        found = profile(search.environment, source)
        if found is None or (source in leading and source != name) or len(leading) > _DEEPEST:
            raise CredentialsError(f"the profile {name} has a source_profile, {source}, that leads to no keys")
        identity = _identity_of_profile(search, source, found, leading)
        assert identity  # of a profile that another one leads to
        return identity
    kinds: Mapping[str, Callable[[], AwsIdentity]] = {
        "Environment": lambda: _identity_of_variables(search.environment),
        "Ec2InstanceMetadata": lambda: _identity_of_instance(search),
        "EcsContainer": lambda: _identity_of_container(search),
    }
    kind = kinds.get(settings.get("credential_source", ""))
    if kind is None:
        raise CredentialsError(
            f"the profile {name} has a role_arn, and neither source_profile, web_identity_token_file nor "
            f"credential_source ({', '.join(kinds)})"
        )
    try:
        return kind()
    except KeyError as missing:
        raise CredentialsError(f"the profile {name} has a credential_source, and {missing} is not set") from None


def _identity_of_process(origin: str, command: str, seconds: float) -> AwsIdentity:
    """Keys that a program prints; it is run without a shell, and nothing of its output is shown."""
    label = f"the credential_process of {origin}"

    def request() -> TimedSecret:
        try:
            words = shlex.split(command)
            ran = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROCESS_SECONDS + seconds, check=False
            )
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            reason = (isinstance(error, OSError) and error.strerror) or type(error).__name__
            raise CredentialsError(f"{label} cannot be run: {reason}", True) from None
        if ran.returncode:
            raise CredentialsError(f"{label} ended with exit status {ran.returncode}; run it by hand", True)
        # Keys without an end are those of this process until it ends.
        names = ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
        fields = service.fields_of(label, ran.stdout, *names)
        access, secret, session, expiration = fields
        return _lease(label, access, secret, session, expiration or "9999-01-01T00:00:00Z")

    return _lent(origin, ("process", command), request)


def _by_web_identity(
    search: _Search, path: str, role: str, session: str, origin: str = "AWS_WEB_IDENTITY_TOKEN_FILE"
) -> AwsIdentity:
    """Keys of a role for a token that Kubernetes writes into a file and renews there."""
    if not role:
        raise CredentialsError("AWS_WEB_IDENTITY_TOKEN_FILE is set, and AWS_ROLE_ARN is not")
    url = _sts(search)

    # The file is read for each request; a form keeps the token out of addresses.
    def request() -> TimedSecret:
        form = {
            "Action": "AssumeRoleWithWebIdentity",
            "Version": "2011-06-15",
            "RoleArn": role,
            "RoleSessionName": session,
            "WebIdentityToken": service.file_text("AWS_WEB_IDENTITY_TOKEN_FILE", path).strip(),
        }
        return _sts_lease(service.answer("AWS STS", url, seconds=search.seconds, form=form))

    return _lent(origin, ("sts", url, role, path), request)


def _identity_of_container(search: _Search) -> AwsIdentity:
    """Keys of a task's role (ECS), or a pod's (EKS Pod Identity)."""
    label, environment = "AWS's container credentials", search.environment
    relative, url = (environment.get(variable, "") for variable in _CONTAINER_VARIABLES)
    url = f"http://{_CONTAINER_HOST}{relative}" if relative else url
    # Keys go over HTTP within the machine alone.
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in _CONTAINER_HOSTS:
        raise CredentialsError("AWS_CONTAINER_CREDENTIALS_FULL_URI is neither of https nor of this machine")

    def request() -> TimedSecret:
        path = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
        authorization = (
            service.file_text("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", path).strip()
            if path
            else environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")
        )
        headers = {"Authorization": authorization} if authorization else {}
        return _json_lease(label, service.answer(label, url, seconds=search.seconds, headers=headers))

    return _lent(_CONTAINER_VARIABLES[0 if relative else 1], ("container", url), request)


def _identity_of_instance(search: _Search) -> AwsIdentity:
    """Keys of the role of an EC2 instance, by the metadata service's version 2."""
    label, environment = "the EC2 instance metadata service", search.environment
    if environment.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        raise CredentialsError(f"{_looked_for(environment)}; AWS_EC2_METADATA_DISABLED is set")
    root = (environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or _INSTANCE).rstrip("/")
    folder = f"{root}/latest/meta-data/iam/security-credentials/"

    # Version 2 asks for a session first, which a request that somebody forwards does not get.
    def request() -> TimedSecret:
        session = service.answer(
            label,
            f"{root}/latest/api/token",
            seconds=search.seconds,
            headers={"X-aws-ec2-metadata-token-ttl-seconds": "60"},
            is_put=True,
        ).decode(errors="replace")
        headers = {"X-aws-ec2-metadata-token": session}
        roles = service.answer(label, folder, seconds=search.seconds, headers=headers).decode(errors="replace")
        role = quote((roles.split() or [""])[0], safe="")
        return _json_lease(label, service.answer(label, folder + role, seconds=search.seconds, headers=headers))

    try:
        return _lent("the role of this instance", ("instance", root), request)
    except CredentialsError as error:
        raise CredentialsError(f"{_looked_for(environment)}; {error}", error.is_passing) from None


def _looked_for(environment: Mapping[str, str]) -> str:
    """Places that are searched before the instance's role, in order."""
    credentials, settings = files_of(environment)
    name = environment.get("AWS_PROFILE") or "default"
    return (
        "there is no AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY, no AWS_WEB_IDENTITY_TOKEN_FILE, no keys in the "
        f"profile {name} of {credentials} and {settings}, no {_CONTAINER_VARIABLES[0]} and no {_CONTAINER_VARIABLES[1]}"
    )


def _sts(search: _Search) -> str:
    environment, region = search.environment, search.region
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return (
        environment.get("AWS_ENDPOINT_URL_STS")
        or environment.get("AWS_ENDPOINT_URL")
        or f"https://sts.{region}.{suffix}"
    )


def _lent(origin: str, key: tuple[str, ...], request: Callable[[], TimedSecret]) -> AwsIdentity:
    lease = leased(key, request)
    assert isinstance(lease.value, AwsKeys)
    return AwsIdentity(lease.value, origin, lease.end)


def _sts_lease(body: bytes) -> TimedSecret:
    found = dict(_ELEMENT.findall(body.decode(errors="replace")))
    return _lease(
        "AWS STS", *(found.get(name, "") for name in ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration"))
    )


def _json_lease(label: str, body: bytes) -> TimedSecret:
    return _lease(label, *service.fields_of(label, body, "AccessKeyId", "SecretAccessKey", "Token", "Expiration"))


def _lease(label: str, access: str, secret: str, session: str, expiration: str) -> TimedSecret:
    end = None
    with suppress(ValueError):
        end = datetime.fromisoformat(expiration).timestamp()
    if not (access and secret and end):
        raise CredentialsError(f"{label}: its answer has no keys with an expiration", True)
    return TimedSecret(AwsKeys(access, secret, session), end)
