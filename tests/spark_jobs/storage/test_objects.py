import io
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.config.store import LakeStore, store_of
from spark_jobs.storage import objects, store_access
from spark_jobs.storage.objects import ObjectPath, StoreError
from tests.fix_store import KIND, Server
from tests.services.gateway import FaultyProxy, Gateway, refusal


@pytest.mark.parametrize(
    "path, bucket, key",
    [
        ("s3a://bucket/a/b", "bucket", "a/b"),
        ("s3a://bucket", "bucket", ""),
        ("s3a://bucket/", "bucket", ""),
        ("s3a://bucket//a/", "bucket", "a"),
        ("s3a://bucket/with space/ä#1?x", "bucket", "with space/ä#1?x"),
    ],
)
def test_a_path_is_a_bucket_and_a_key(path: str, bucket: str, key: str) -> None:
    assert ObjectPath.parse(path) == ObjectPath(bucket, key)


def test_paths_are_joined() -> None:
    path = ObjectPath("bucket", "a") / "b/c" / "d.parquet"
    assert (str(path), path.name, str(path.parent)) == (
        "s3a://bucket/a/b/c/d.parquet",
        "d.parquet",
        "s3a://bucket/a/b/c",
    )
    assert pickle.loads(pickle.dumps(path)) == path  # noqa: S301 -- just made


def test_an_error_travels_and_shows_no_request() -> None:
    text = "Error: Error performing GET http://h/b/x - 403: <Error><Code>SignatureDoesNotMatch</Code>AKIASECRET</Error>"
    error = StoreError("s3a://bucket/a", text)
    assert isinstance(error, OSError)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 -- just made
    assert "AKIASECRET" not in str(error)
    assert "http://h" not in str(
        StoreError("s3a://bucket/a", "Generic S3 error: Error performing GET http://h/b/x?sig")
    )


@pytest.mark.stores
@pytest.mark.azure
def test_an_object_is_created_once(bucket: str) -> None:
    path = ObjectPath.parse(bucket) / "a.json"
    assert not path.exists()
    with pytest.raises(FileNotFoundError):
        path.read_bytes()
    assert objects.create(path, b"first")
    assert not objects.create(path, b"second")
    assert path.read_bytes() == b"first"
    assert path.exists()
    assert path.read_range(1, 3) == b"irs"
    assert 0 <= objects.age(path) + 5 < 60
    path.unlink()
    path.unlink(missing_ok=True)
    assert not path.exists()


@pytest.mark.stores
@pytest.mark.azure
def test_of_many_writers_one_creates_it(bucket: str) -> None:
    folder = ObjectPath.parse(bucket)
    with ThreadPoolExecutor(8) as pool:
        for number in range(20):
            path = folder / f"{number}"
            wins = list(pool.map(lambda at, p=path: objects.create(p, b"%d" % at), range(8)))
            assert wins.count(True) == 1
            assert path.read_bytes() == b"%d" % wins.index(True)


@pytest.mark.stores
@pytest.mark.azure
def test_a_large_commit_is_one_conditional_put(bucket: str) -> None:
    path = ObjectPath.parse(bucket) / "large.json"
    content = os.urandom(20 << 20)
    assert objects.create(path, content)
    assert not objects.create(path, content[:-1])
    assert path.read_bytes() == content


@pytest.mark.stores
@pytest.mark.parametrize("key", ["with space/ä.bin", "a%20b/c.bin", "a+b&c=d/e~f.bin", "(x)!$'/y.bin"])
def test_keys_are_as_they_are_written(bucket: str, store_server: Server, key: str) -> None:
    path = ObjectPath.parse(bucket) / key
    assert objects.create(path, b"x")
    assert path.read_bytes() == b"x"
    assert store_server.content(path.bucket, path.key) == b"x"
    assert objects.names(path.parent) == [path.name]


@pytest.mark.stores
def test_names_are_those_of_one_folder(bucket: str) -> None:
    folder = ObjectPath.parse(bucket) / "t"
    assert objects.names(folder) is None
    for name in ("b", "a", "sub/c"):
        objects.create(folder / name, b"x")
    objects.create(ObjectPath.parse(bucket) / "t2/d", b"x")
    assert objects.names(folder) == ["a", "b"]


@pytest.mark.stores
def test_more_names_than_one_answer_has(bucket: str) -> None:
    folder = ObjectPath.parse(bucket) / "many"
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda number: objects.create(folder / f"{number:020}.json", b"{}"), range(1100)))
    assert objects.names(folder) == [f"{number:020}.json" for number in range(1100)]


@pytest.mark.stores
@pytest.mark.parametrize("size", [0, 1, 40 << 20])
def test_what_is_written_is_there_whole(bucket: str, size: int) -> None:
    path, content = ObjectPath.parse(bucket) / "data", os.urandom(size)
    with objects.durable(path) as sink:
        sink.write(content)
        assert not path.exists()
    assert path.read_bytes() == content


@pytest.mark.stores
@pytest.mark.azure
@pytest.mark.google
@pytest.mark.parametrize("size", [0, 1, 40 << 20])
def test_an_object_is_copied_whole(bucket: str, size: int) -> None:
    if KIND == "google" and size > 1:
        pytest.skip("the emulator of Google does not take an object in parts")
    folder, content = ObjectPath.parse(bucket), os.urandom(size)
    objects.create(folder / "a", content)
    for _ in range(2):
        objects.copy(folder / "a", folder / "b ä/c")
        assert (folder / "b ä/c").read_bytes() == content
    with pytest.raises(FileNotFoundError):
        objects.copy(folder / "gone", folder / "d")
    assert not (folder / "d").exists()


@pytest.mark.stores
def test_what_is_raised_meanwhile_leaves_no_object(bucket: str) -> None:
    path = ObjectPath.parse(bucket) / "data"
    with pytest.raises(TypeError), objects.durable(path) as sink:
        sink.writelines([b"half", "not bytes"])  # type: ignore[list-item]
    assert not path.exists()


@pytest.mark.stores
@pytest.mark.parametrize("rows", [10, 3_000_000])
def test_parquet_is_read_in_ranges(bucket: str, rows: int) -> None:
    path = ObjectPath.parse(bucket) / "rows.parquet"
    table = pa.table({"id": range(rows), "text": [f"{number:x}" for number in range(rows)]})
    stored = io.BytesIO()
    pq.write_table(table, stored, row_group_size=500_000)
    objects.create(path, stored.getvalue())
    opened = pq.ParquetFile(objects.opened(path))
    assert opened.read(use_threads=False).equals(table)
    assert opened.read_row_group(opened.num_row_groups - 1, ["text"]).num_rows


@pytest.mark.stores
@pytest.mark.azure
@pytest.mark.parametrize("lost_answers", [1, 3])
def test_a_put_whose_answer_is_lost_is_known_as_its_own(bucket: str, store_server: Server, lost_answers: int) -> None:
    path = ObjectPath.parse(bucket) / "a.json"
    remaining = [lost_answers]

    def fault(method: str, _path: str) -> str | None:
        if method != "PUT" or not remaining[0]:
            return None
        remaining[0] -= 1
        return "lost"

    with FaultyProxy(store_server.port, fault) as proxy:
        store_access.register_store(store_of(bucket, store_server.settings(endpoint=proxy.url)))
        assert objects.create(path, b"own")
        assert proxy.broken == lost_answers
        remaining[0] = 1
        assert not objects.create(path, b"of another")


@pytest.mark.stores
def test_a_refusal_is_not_asked_again(bucket: str, gateway: Gateway) -> None:
    path, requests = ObjectPath.parse(bucket) / "a.json", []

    def fault(method: str, full_path: str) -> bytes:
        requests.append((method, full_path))
        return refusal("403 Forbidden", "ExpiredToken")

    with FaultyProxy(gateway.port, fault) as proxy:
        store_access.register_store(LakeStore(path.bucket, gateway.settings(endpoint=proxy.url)))
        with pytest.raises(StoreError, match="the session token of TEST_STORE_KEY has expired; set TEST_STORE_KEY"):
            objects.create(path, b"x")
    assert len(requests) == 1


@pytest.mark.stores
def test_a_store_that_comes_back_is_waited_for(bucket: str, gateway: Gateway) -> None:
    path = ObjectPath.parse(bucket) / "a.json"
    gateway.stop()
    back = threading.Timer(0.5, gateway.start)
    back.start()
    try:
        assert objects.create(path, b"x")
    finally:
        back.join()
