import pytest

from spark_jobs.config.store import LakeStore, ObjectStore, store_of
from spark_jobs.storage import store_access
from spark_jobs.storage.messages import code_of, is_refusal, meaning

PATH = "s3a://bucket/lake/silver/shop/shop/orders"


@pytest.fixture(autouse=True)
def store(store_keys: None) -> None:
    store_access.register_store(
        LakeStore("bucket", ObjectStore(endpoint="https://s3.internal", access_key_env="KEY", secret_key_env="SECRET"))
    )


@pytest.mark.parametrize(
    "text, match",
    [
        (
            "403 Forbidden <Error><Code>InvalidAccessKeyId</Code>",
            "does not know the access key of KEY; set KEY and SEC",
        ),
        ("404 Not Found <Code>XAdminUserNotFound</Code>", "the store does not know the access key"),
        (
            "403 Forbidden <Error><Code>SignatureDoesNotMatch</Code>",
            "the secret key of KEY is not that of its access key",
        ),
        ("<Code>ExpiredToken</Code>", "the session token of KEY has expired; set KEY and SECRET"),
        ("<Code>RequestTimeTooSkewed</Code>", "the clocks of this machine and of the store"),
        (
            "404 <Code>NoSuchBucket</Code>",
            "there is no bucket bucket at https://s3.internal; create it",
        ),
        ("403 Forbidden <Code>AccessDenied</Code>", "no permission"),
        ("507 Insufficient Storage: <Code>InsufficientStorage</Code>", "the store has no space left"),
        ("403 Forbidden <Code>QuotaExceeded</Code>", "no more of it for bucket; free space or raise the quota"),
        ("HTTP error: error sending request", "does not answer at https://s3.internal; check store.endpoint"),
        ("invalid peer certificate: UnknownIssuer", "not trusted; name the file of its issuer as store.ca"),
        # Spark's
        ("org.apache.hadoop.fs.s3a.UnknownStoreException: `s3a://bucket/lake': Bucket does not exist", "no bucket"),
        (
            "java.nio.file.AccessDeniedException: s3a://b/x: (Service: S3, Status Code: 403",
            "no perm",
        ),
        ("S3Exception: of MinIO's words (Service: S3, Status Code: 507, Request ID: 1):null", "no space left"),
        (
            "java.nio.file.AccessDeniedException: s3a://b: (Service: S3, Status Code: 403):SignatureDoesNotMatch",
            "the secret key of KEY is not that",
        ),
    ],
)
def test_what_a_refusal_means(text: str, match: str) -> None:
    message = meaning(PATH, text)
    assert message is not None
    assert match in message
    assert ";" in message, "what to do"


@pytest.mark.parametrize("path, text", [("/lake", "<Code>AccessDenied</Code>"), (PATH, "DELTA_TABLE_NOT_FOUND")])
def test_other_texts_are_none_of_a_store(path: str, text: str) -> None:
    assert meaning(path, text) is None


def test_an_answer_has_a_code() -> None:
    assert code_of("x <Code>NoSuchKey</Code>") == "NoSuchKey"
    assert code_of("connection reset") is None
    assert is_refusal("Server returned non-2xx status code: 403 Forbidden: <Code>AccessDenied</Code>")
    assert is_refusal("Server returned non-2xx status code: 507 Insufficient Storage: <Code>InsufficientStorage</Code>")
    assert not is_refusal("status code: 503 Service Unavailable")
    assert not is_refusal("status code: 409 Conflict: <Code>ConditionalRequestConflict</Code>")
    assert not is_refusal("connection reset")


@pytest.mark.parametrize(
    "text, match",
    [
        ("404 Not Found <Code>ContainerNotFound</Code>", "there is no container lake in the account acc at https://b"),
        ("Operation failed: 404, HEAD, , ContainerNotFound, ", "there is no container lake in the account acc"),
        (
            "403 Forbidden <Code>AuthenticationFailed</Code>",
            "the store does not accept the account key of KEY for the account acc; set KEY to",
        ),
        ("403 Forbidden <Code>AuthorizationFailure</Code>", "not accept the account key of KEY for the account acc"),
        ("403 Forbidden <Code>KeyBasedAuthenticationNotPermitted</Code>", "acc does not allow requests by keys"),
        (
            "403 Forbidden <Code>InsufficientAccountPermissions</Code>",
            "the account key of KEY has no permission for it",
        ),
        ("503 <Code>ServerBusy</Code>", "the store is overloaded; run again later"),
        ("error sending request", "the store does not answer at https://blobs.internal"),
    ],
)
def test_refusals_of_azure(text: str, match: str) -> None:
    root = "abfss://lake@acc.dfs.core.windows.net"
    settings = ObjectStore(endpoint="https://blobs.internal", account_key_env="KEY")
    store_access.register_store(store_of(root, settings))
    assert match in (meaning(f"{root}/t", text) or "")


@pytest.mark.parametrize(
    "root, shown, text, match",
    [
        (
            "s3a://bucket",
            ("keys", "the role of this instance"),
            "<Code>InvalidAccessKeyId</Code>",
            "not know the access key of the role of this instance; see that it is an identity of https://",
        ),
        (
            "s3a://bucket",
            ("keys", "the role of this instance"),
            "<Code>AccessDenied</Code>",
            "the keys of the role of this instance have no permission for it; allow them to list the bucket",
        ),
        (
            "abfss://lake@acc.dfs.core.windows.net",
            ("token", "AZURE_FEDERATED_TOKEN_FILE"),
            "<Code>AuthorizationPermissionMismatch</Code>",
            "the token of AZURE_FEDERATED_TOKEN_FILE has no permission for it",
        ),
        (
            "abfss://lake@acc.dfs.core.windows.net",
            ("shared access signature", "SIGNATURE"),
            "<Code>AuthenticationFailed</Code>",
            "not accept the shared access signature of SIGNATURE for the account acc; set SIGNATURE to one that is",
        ),
        (
            "gs://lake",
            ("token", "/keys/lake.json"),
            "403 Forbidden <Code>AccessDenied</Code>",
            "the token of /keys/lake.json has no permission for it; give it the role Storage Object User",
        ),
        ("gs://lake", ("token", "x"), "<Code>NoSuchBucket</Code>", "there is no bucket lake at Google; create it"),
        ("gs://lake", ("token", "x"), "401 Unauthorized", "the store does not accept the token of x"),
    ],
)
def test_a_refusal_names_whose_credential_it_is_about(
    root: str, shown: tuple[str, str], text: str, match: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_access.register_store(
        store_of(root, ObjectStore(endpoint="https://s3.internal" if root.startswith("s3a") else None))
    )
    monkeypatch.setitem(store_access._shown, root, shown)
    assert match in (meaning(f"{root}/t", text) or "")
