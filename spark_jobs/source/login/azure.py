"""Tokens of Microsoft Entra for Azure Database for MySQL.

Put here: what the tokens are for. Not here: whose they are (identity/azure.py).

Source: learn.microsoft.com, "Connect with managed identity to Azure Database for MySQL". Azure's public cloud alone.
"""

import os

from spark_jobs.config.servers import MySQL
from spark_jobs.identity import azure

RESOURCE = "https://ossrdbms-aad.database.windows.net"


def token(settings: MySQL) -> str:
    """An access token for logins. Raises CredentialsError."""
    return str(azure.token(os.environ, RESOURCE, settings.connect_timeout).value)
