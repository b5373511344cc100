"""Meaning of a refusal of an object store, and what to do.

Put here: codes of S3 and Azure as clients and Spark pass them on, in words. Not here: requests (objects.py).
"""

import re

from spark_jobs.config.store import AZURE, account_of, container_of, root_of, store_scheme
from spark_jobs.storage.reach import settings_of

_REFUSED = re.compile(r"status code: (?:4(?!09|29)\d\d|507) ")
"""409 and 429 are answers of a store that is asked again; 507 is that of a full one."""
_UNREACHABLE = re.compile(
    r"error sending request|[Cc]onnection refused|Connect to \S+ .{0,80}failed|UnknownHostException"
    r"|dns error|Connection reset|operation timed out|request or response body error"
)
_CERTIFICATE = re.compile(r"invalid peer certificate|UnknownIssuer|PKIX path building failed|certificate verify failed")
_ANSWER_CODE = re.compile(r"<Code>(\w+)</Code>")


def code_of(text: str) -> str | None:
    """The code of the store in the text of an error; None without one."""
    match = _ANSWER_CODE.search(text)
    return match[1] if match else None


def is_refusal(text: str) -> bool:
    """True if a store answered that it does not do what was asked, whoever asks again."""
    return _REFUSED.search(text) is not None


def meaning(path: str, text: str) -> str | None:
    """Problem and remedy, by the text of a client or of Spark; None where no store refused.

    Nothing of the text is passed on: it has the access key and the request's signature.
    """
    scheme = store_scheme(path)
    if scheme is None:
        return None
    root = root_of(path)
    settings = settings_of(root)
    # A message names the variables that its kind of store reads.
    template = _template(text, _OF_AZURE if scheme == AZURE else _OF_S3)
    if scheme == AZURE:
        return template and template.format(
            where=settings.endpoint or f"Azure ({account_of(root)})",
            key=settings.account_key_env,
            account=account_of(root),
            bucket=container_of(root),
        )
    return template and template.format(
        where=settings.endpoint or f"AWS ({settings.region})",
        keys=f"{settings.access_key_env} and {settings.secret_key_env}",
        token=settings.session_token_env,
        bucket=root.partition("://")[2],
        region=settings.region,
    )


def _template(text: str, meanings: "dict[tuple[str, ...], str]") -> str | None:
    if _CERTIFICATE.search(text):
        return "the certificate of {where} is not trusted; name the file of its issuer as store.ca"
    code = code_of(text)
    for codes, template in meanings.items():
        if code in codes or (code is None and any(code in text for code in codes)):
            return template
    if _UNREACHABLE.search(text):
        return "the store does not answer at {where}; check store.endpoint and the network"
    return None


_OF_S3 = {
    ("InvalidAccessKeyId", "XAdminUserNotFound"): (
        "the store does not know the access key; set {keys} to keys of {where}"
    ),
    ("SignatureDoesNotMatch",): "the secret key is not that of the access key; set {keys} to keys of {where}",
    ("ExpiredToken", "TokenRefreshRequired"): (
        "the session token has expired; set {keys} and {token} to new ones, and run again"
    ),
    ("InvalidToken",): "the session token is not valid; set {token}, or remove it",
    ("RequestTimeTooSkewed",): (
        "the clocks of this machine and of the store differ too much; set the clock (NTP), and run again"
    ),
    ("NoSuchBucket", "UnknownStoreException"): (
        "there is no bucket {bucket} at {where}; create it, or correct lake: and store.endpoint"
    ),
    ("AuthorizationHeaderMalformed", "PermanentRedirect", "redirect without LOCATION"): (
        "the bucket is in another region than {region}; set store.region"
    ),
    ("SlowDown", "503 Service Unavailable"): "the store is overloaded; run again later",
    ("InsufficientStorage", "XMinioStorageFull", "QuotaExceeded", "Status Code: 507"): (
        "the store has no space left, or no more of it for {bucket}; free space or raise the quota, and run again"
    ),
    ("AccessDenied", "403 Forbidden", "Status Code: 403"): (
        "the keys have no permission for it; allow them to list the bucket (s3:ListBucket), and to read, write and "
        "delete its objects (s3:GetObject, s3:PutObject, s3:DeleteObject)"
    ),
}
"""By codes of S3, or words of clients for them; what is less specific comes last."""
_OF_AZURE = {
    ("ContainerNotFound", "ContainerBeingDeleted", "The specified container does not exist"): (
        "there is no container {bucket} in the account {account} at {where}; create it, or correct lake: and "
        "store.endpoint"
    ),
    ("AuthenticationFailed", "AuthorizationFailure", "InvalidAuthenticationInfo"): (
        "the store does not accept the key of the account {account}; set {key} to a key of it, and see that its "
        "firewall allows this machine, whose clock is right"
    ),
    ("KeyBasedAuthenticationNotPermitted",): (
        "the account {account} does not allow requests by keys; allow them (--allow-shared-key-access true)"
    ),
    ("AccountIsDisabled", "ResourceNotFound", "InvalidStorageAccount"): (
        "there is no account {account} in use at {where}; correct lake: and store.endpoint"
    ),
    ("InsufficientAccountPermissions", "AuthorizationPermissionMismatch", "403 Forbidden"): (
        "the key has no permission for it; allow it to list the container, and to read, write and delete its blobs"
    ),
    ("ServerBusy", "503 Service Unavailable"): _OF_S3["SlowDown", "503 Service Unavailable"],
}
"""As above, of Azure."""
