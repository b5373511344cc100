"""Tokens of Microsoft Entra, by an identity of the usual Azure environment.

Put here: the identities and what they ask. Not here: what a token is for (source/login/azure.py, storage/).

Sources: learn.microsoft.com, "DefaultAzureCredential" (its order, without what a person logs in to), "How to use
managed identities … on an Azure VM to acquire an access token", "client credentials flow".
"""

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from spark_jobs.identity import service
from spark_jobs.identity.errors import CredentialsError
from spark_jobs.identity.leases import TimedSecret, leased

VARIABLES = (
    *("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE"),
    *("AZURE_AUTHORITY_HOST", "IDENTITY_ENDPOINT", "IDENTITY_HEADER", "AZURE_POD_IDENTITY_AUTHORITY_HOST"),
)
"""Variables that decide whose tokens are found."""
_INSTANCE = "http://169.254.169.254"
_AUTHORITY = "https://login.microsoftonline.com"
_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


def origin_of(environment: Mapping[str, str]) -> str:
    """The identity that an environment has, in words, by the variable that tells of it."""
    for name in ("AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE"):
        if environment.get(name):
            return name
    return "IDENTITY_ENDPOINT" if _has_endpoint(environment) else "the managed identity of this machine"


def token(environment: Mapping[str, str], resource: str, seconds: float) -> TimedSecret:
    """An access token; of the first of these that is there, and else of the machine's managed identity.

    AZURE_CLIENT_SECRET (service principal), AZURE_FEDERATED_TOKEN_FILE (workload identity), each with AZURE_TENANT_ID
    and AZURE_CLIENT_ID; IDENTITY_ENDPOINT with IDENTITY_HEADER (App Service, Container Apps). AZURE_CLIENT_ID chooses
    among managed identities.

    Args:
        environment: of the process.
        resource: that the token is for, without a slash at its end.
        seconds: until a service that does not answer is given up.

    Raises CredentialsError; where there is none, with what was looked for.
    """
    if environment.get("AZURE_FEDERATED_TOKEN_FILE") or environment.get("AZURE_CLIENT_SECRET"):
        return _token_of_application(environment, resource, seconds)
    # A managed identity: of App Service by its own endpoint, of a machine by the metadata service.
    client = environment.get("AZURE_CLIENT_ID")
    chosen = {"client_id": client} if client else {}
    has_endpoint = _has_endpoint(environment)
    if has_endpoint:
        label, root, version = "Azure's identity endpoint", environment["IDENTITY_ENDPOINT"], "2019-08-01"
        headers = {"X-IDENTITY-HEADER": environment["IDENTITY_HEADER"]}
    else:
        label, version = "the Azure instance metadata service", "2018-02-01"
        host = (environment.get("AZURE_POD_IDENTITY_AUTHORITY_HOST") or _INSTANCE).rstrip("/")
        root, headers = f"{host}/metadata/identity/oauth2/token", {"Metadata": "true"}
    url = f"{root}?{urlencode({'api-version': version, 'resource': resource} | chosen)}"

    def request() -> TimedSecret:
        return service.token_lease(label, service.answer(label, url, seconds=seconds, headers=headers))

    try:
        return leased(("azure", url), request)
    except CredentialsError as error:
        if has_endpoint:
            raise
        raise CredentialsError(
            "there is no AZURE_CLIENT_SECRET, no AZURE_FEDERATED_TOKEN_FILE and no IDENTITY_ENDPOINT with "
            f"IDENTITY_HEADER; {error}",
            error.is_passing,
        ) from None


def _has_endpoint(environment: Mapping[str, str]) -> bool:
    return bool(environment.get("IDENTITY_ENDPOINT") and environment.get("IDENTITY_HEADER"))


def _token_of_application(environment: Mapping[str, str], resource: str, seconds: float) -> TimedSecret:
    """A token for an application: by its secret, or by a token of its platform."""
    label = "Microsoft Entra"
    tenant, client = environment.get("AZURE_TENANT_ID", ""), environment.get("AZURE_CLIENT_ID", "")
    if not (tenant and client):
        raise CredentialsError(f"{origin_of(environment)} is set: AZURE_TENANT_ID and AZURE_CLIENT_ID are needed, too")
    authority = (environment.get("AZURE_AUTHORITY_HOST") or _AUTHORITY).rstrip("/")
    if "://" not in authority:
        authority = f"https://{authority}"
    url = f"{authority}/{quote(tenant, safe='')}/oauth2/v2.0/token"
    secret, path = environment.get("AZURE_CLIENT_SECRET"), environment.get("AZURE_FEDERATED_TOKEN_FILE", "")

    # The platform renews its file, which is read for each request.
    def request() -> TimedSecret:
        form = {"client_id": client, "grant_type": "client_credentials", "scope": f"{resource}/.default"}
        if secret:
            form |= {"client_secret": secret}
        else:
            assertion = service.file_text("AZURE_FEDERATED_TOKEN_FILE", path).strip()
            form |= {"client_assertion_type": _ASSERTION, "client_assertion": assertion}
        return service.token_lease(label, service.answer(label, url, seconds=seconds, form=form))

    return leased(("azure", url, client, resource, hash(secret), path), request)
