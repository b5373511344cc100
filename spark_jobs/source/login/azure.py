"""Tokens of Microsoft Entra for Azure Database for MySQL, by an identity of the usual Azure environment.

Put here: the identities and what they ask. Not here: the stores of Azure (storage/).

Sources: learn.microsoft.com, "Connect with managed identity to Azure Database for MySQL", "How to use managed
identities … on an Azure VM to acquire an access token", "client credentials flow". Azure's public cloud alone.
"""

import os
from collections.abc import Mapping
from urllib.parse import quote, urlencode

from spark_jobs.config.servers import MySQL
from spark_jobs.source.login import service
from spark_jobs.source.login.errors import CredentialsError
from spark_jobs.source.login.leases import TimedSecret, leased

RESOURCE = "https://ossrdbms-aad.database.windows.net"
_INSTANCE = "http://169.254.169.254"
_AUTHORITY = "https://login.microsoftonline.com"
_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


def token(settings: MySQL) -> str:
    """An access token; of the first of these that is there, and else of the machine's managed identity.

    AZURE_FEDERATED_TOKEN_FILE (workload identity), AZURE_CLIENT_SECRET, each with AZURE_TENANT_ID and AZURE_CLIENT_ID;
    IDENTITY_ENDPOINT with IDENTITY_HEADER (App Service, Container Apps). AZURE_CLIENT_ID chooses among managed
    identities. Raises CredentialsError.
    """
    environment, seconds = os.environ, settings.connect_timeout
    if environment.get("AZURE_FEDERATED_TOKEN_FILE") or environment.get("AZURE_CLIENT_SECRET"):
        return _application(environment, seconds)
    # A managed identity: of App Service by its own endpoint, of a machine by the metadata service.
    client = environment.get("AZURE_CLIENT_ID")
    chosen = {"client_id": client} if client else {}
    if environment.get("IDENTITY_ENDPOINT") and environment.get("IDENTITY_HEADER"):
        label, root, version = "Azure's identity endpoint", environment["IDENTITY_ENDPOINT"], "2019-08-01"
        headers = {"X-IDENTITY-HEADER": environment["IDENTITY_HEADER"]}
    else:
        label, version = "the Azure instance metadata service", "2018-02-01"
        host = (environment.get("AZURE_POD_IDENTITY_AUTHORITY_HOST") or _INSTANCE).rstrip("/")
        root, headers = f"{host}/metadata/identity/oauth2/token", {"Metadata": "true"}
    url = f"{root}?{urlencode({'api-version': version, 'resource': RESOURCE} | chosen)}"

    def request() -> TimedSecret:
        return service.token_lease(label, service.answer(label, url, seconds=seconds, headers=headers))

    return str(leased(("azure", url), request))


def _application(environment: Mapping[str, str], seconds: float) -> str:
    """A token for an application: by a token of its platform, or by its secret."""
    label = "Microsoft Entra"
    tenant, client = environment.get("AZURE_TENANT_ID", ""), environment.get("AZURE_CLIENT_ID", "")
    if not (tenant and client):
        raise CredentialsError("auth: azure-entra: AZURE_TENANT_ID and AZURE_CLIENT_ID are needed, too")
    authority = (environment.get("AZURE_AUTHORITY_HOST") or _AUTHORITY).rstrip("/")
    if "://" not in authority:
        authority = f"https://{authority}"
    url = f"{authority}/{quote(tenant, safe='')}/oauth2/v2.0/token"
    path = environment.get("AZURE_FEDERATED_TOKEN_FILE")

    # The platform renews its file, which is read for each request.
    def request() -> TimedSecret:
        form = {"client_id": client, "grant_type": "client_credentials", "scope": f"{RESOURCE}/.default"}
        if path:
            assertion = service.file_text("AZURE_FEDERATED_TOKEN_FILE", path).strip()
            form |= {"client_assertion_type": _ASSERTION, "client_assertion": assertion}
        else:
            form |= {"client_secret": environment["AZURE_CLIENT_SECRET"]}
        return service.token_lease(label, service.answer(label, url, seconds=seconds, form=form))

    return str(leased(("azure", url, client, path), request))
