"""Meaning of a refusal of an object store, and what to do.

Put here: codes of stores as clients and Spark pass them on, in words. Not here: requests (objects.py).
"""

import re
from urllib.parse import urlsplit

from spark_jobs.config.store import AZURE, GOOGLE, account_of, container_of, root_of, store_scheme
from spark_jobs.storage.credentials import kind_on_azure
from spark_jobs.storage.store_access import last_credential, settings_of

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
    template = _template(text, {AZURE: _OF_AZURE, GOOGLE: _OF_GOOGLE}.get(scheme, _OF_S3))
    return template and template.format(**_facts(root, scheme))


def _facts(root: str, scheme: str) -> dict[str, str]:
    """Facts that messages name: the store, the bucket, whose credential was shown, and what to do about that."""
    settings = settings_of(root)
    kind, origin = last_credential(root) or ("", "")
    facts = {"bucket": urlsplit(root).netloc, "region": settings.region}
    if scheme == AZURE:
        address = settings.endpoint or f"Azure ({account_of(root)})"
        kind, origin = (kind, origin) if kind else kind_on_azure(settings, {})
        renewal = {
            "account key": f"set {origin} to a key of it",
            "shared access signature": f"set {origin} to one that is valid, for all of the container",
        }.get(kind, "give it the role Storage Blob Data Contributor for the container")
        facts |= {"account": account_of(root), "bucket": container_of(root), "kind": kind, "renewal": renewal}
        facts["or_ended"] = ", or has ended" if kind == "shared access signature" else ""
        return facts | {"identity": origin, "where": address}
    if scheme == GOOGLE:
        address = settings.endpoint or "Google"
        return facts | {"identity": origin or "this process", "where": address}
    # Keys of variables are set; those of a role are the cloud's.
    address = settings.endpoint or f"AWS ({settings.region})"
    named = (settings.access_key_env, settings.secret_key_env)
    access, secret = named if all(named) else ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    origin = origin or str(access)
    renewal = f"set {access} and {secret} to keys" if origin == access else "see that it is an identity"
    return facts | {"identity": origin, "where": address, "renewal": f"{renewal} of {address}"}


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


_OVERLOADED = "the store is overloaded; run again later"
_CLOCKS = "the clocks of this machine and of the store differ too much; set the clock (NTP), and run again"
_NO_BUCKET = "there is no bucket {bucket} at {where}; create it, or correct lake: and store.endpoint"
_OF_S3 = {
    ("InvalidAccessKeyId", "XAdminUserNotFound"): ("the store does not know the access key of {identity}; {renewal}"),
    ("SignatureDoesNotMatch",): "the secret key of {identity} is not that of its access key; {renewal}",
    ("ExpiredToken", "TokenRefreshRequired"): ("the session token of {identity} has expired; {renewal}, and run again"),
    ("InvalidToken",): "the session token of {identity} is not valid; {renewal}",
    ("RequestTimeTooSkewed",): _CLOCKS,
    ("NoSuchBucket", "UnknownStoreException"): _NO_BUCKET,
    ("AuthorizationHeaderMalformed", "PermanentRedirect", "redirect without LOCATION"): (
        "the bucket is in another region than {region}; set store.region"
    ),
    ("SlowDown", "503 Service Unavailable"): _OVERLOADED,
    ("InsufficientStorage", "XMinioStorageFull", "QuotaExceeded", "Status Code: 507"): (
        "the store has no space left, or no more of it for {bucket}; free space or raise the quota, and run again"
    ),
    ("AccessDenied", "403 Forbidden", "Status Code: 403"): (
        "the keys of {identity} have no permission for it; allow them to list the bucket (s3:ListBucket), and to read, "
        "write and delete its objects (s3:GetObject, s3:PutObject, s3:DeleteObject)"
    ),
}
"""Meanings by codes of S3, or words of clients for them; what is less specific comes last."""
_OF_AZURE = {
    ("ContainerNotFound", "ContainerBeingDeleted", "The specified container does not exist"): (
        "there is no container {bucket} in the account {account} at {where}; create it, or correct lake: and "
        "store.endpoint"
    ),
    ("AuthenticationFailed", "AuthorizationFailure", "InvalidAuthenticationInfo"): (
        "the store does not accept the {kind} of {identity} for the account {account}; {renewal}, and see that its "
        "firewall allows this machine, whose clock is right"
    ),
    ("KeyBasedAuthenticationNotPermitted",): (
        "the account {account} does not allow requests by keys; allow them (--allow-shared-key-access true), or remove "
        "the key, so that an identity is found"
    ),
    ("AccountIsDisabled", "ResourceNotFound", "InvalidStorageAccount"): (
        "there is no account {account} in use at {where}; correct lake: and store.endpoint"
    ),
    (
        "InsufficientAccountPermissions",
        "AuthorizationPermissionMismatch",
        "AuthorizationServiceMismatch",
        "AuthorizationResourceTypeMismatch",
        "403 Forbidden",
    ): (
        "the {kind} of {identity} has no permission for it{or_ended}; allow it to list the container, and to read, "
        "write and delete its blobs (the role Storage Blob Data Contributor)"
    ),
    ("ServerBusy", "503 Service Unavailable"): _OVERLOADED,
}
"""Meanings as above, of Azure."""
_OF_GOOGLE = {
    ("NoSuchBucket",): _NO_BUCKET,
    ("AuthenticationRequired", "InvalidAuthenticationInfo", "401 Unauthorized"): (
        "the store does not accept the token of {identity}; see that it is an identity of {where}, and that this "
        "machine's clock is right"
    ),
    ("SlowDown", "503 Service Unavailable", "429 Too Many Requests"): _OVERLOADED,
    ("AccessDenied", "403 Forbidden"): (
        "the token of {identity} has no permission for it; give it the role Storage Object User "
        "(roles/storage.objectUser) for the bucket"
    ),
}
"""Meanings as above, of Google."""
