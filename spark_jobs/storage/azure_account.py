"""Check whether a storage account on Azure has a hierarchical namespace, which the client for objects does not tell.

Put here: requests about an account. Not here: requests about objects (objects.py).
"""

import hashlib
import hmac
import ssl
import urllib.error
import urllib.request
from base64 import b64decode, b64encode
from email.utils import formatdate
from urllib.parse import urlsplit

from spark_jobs.config.store import account_of, blob_endpoint
from spark_jobs.errors import ConfigError
from spark_jobs.storage.reach import keys_of, settings_of

_VERSION = "2023-11-03"
_TIMEOUT_SECONDS = 60


def has_hierarchy(root: str) -> bool:
    """Asks the account by its key (Get Account Information). Raises ConfigError, OSError with the store's answer."""
    settings, (key,), account = settings_of(root), keys_of(root), account_of(root)
    address = f"{blob_endpoint(root, settings)}/"
    date = formatdate(usegmt=True)
    # Shared Key signs the method, eleven headers that are empty here, headers of Azure's own, and the resource.
    signed_headers = f"x-ms-date:{date}\nx-ms-version:{_VERSION}\n"
    resource = f"/{account}{urlsplit(address).path}\ncomp:properties\nrestype:account"
    text = "GET" + 12 * "\n" + signed_headers + resource
    signature = b64encode(hmac.new(b64decode(key), text.encode(), hashlib.sha256).digest()).decode()
    headers = {"x-ms-date": date, "x-ms-version": _VERSION, "Authorization": f"SharedKey {account}:{signature}"}
    request = urllib.request.Request(f"{address}?restype=account&comp=properties", None, headers)  # noqa: S310 -- of the configuration
    try:
        context = ssl.create_default_context(cafile=settings.ca and str(settings.ca))
    except OSError as error:
        raise ConfigError(f"store.ca: {settings.ca}: {error.strerror}") from error
    # What the store answers is passed on with its code, by which messages.py knows it.
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS, context=context) as answer:  # noqa: S310 -- as above
            return str(answer.headers.get("x-ms-is-hns-enabled", "")).lower() == "true"
    except urllib.error.HTTPError as error:
        raise OSError(f"status code: {error.code} {error.reason}: {error.read().decode(errors='replace')}") from error
    except urllib.error.URLError as error:
        raise OSError(f"error sending request: {error.reason}") from error
