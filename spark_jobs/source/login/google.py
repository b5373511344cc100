"""Tokens of Google for Cloud SQL's IAM authentication.

Put here: what the tokens are for. Not here: whose they are (identity/google.py).

Source: cloud.google.com, "Cloud SQL IAM database authentication".
"""

import os

from spark_jobs.config.servers import MySQL
from spark_jobs.identity import google

SCOPE = "https://www.googleapis.com/auth/sqlservice.login"


def token(settings: MySQL) -> str:
    """An access token for logins alone. Raises CredentialsError."""
    return str(google.token(os.environ, SCOPE, settings.connect_timeout).value)
