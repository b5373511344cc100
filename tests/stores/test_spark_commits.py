"""Two drivers of Spark and one process without commit to one table on a store."""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.config.store import store_of
from spark_jobs.delta import data_files
from spark_jobs.delta.commits import commit
from spark_jobs.delta.log_files import read_commit
from spark_jobs.delta.snapshot import new_table, snapshot_of
from spark_jobs.lake.rows import rows_of
from spark_jobs.runtime.hadoop import store_jars
from spark_jobs.storage import reach
from spark_jobs.storage.objects import ObjectPath
from tests.fix_store import KIND, Server
from tests.gateway import FaultyProxy

ROOT = Path(__file__).parents[2]
COLUMNS = {"writer": "STRING", "number": "BIGINT"}
SPARKS, DRIVER = 12, 60
DELTAS_OWN = {
    "s3": {"spark.delta.logStore.s3a.impl": "io.delta.storage.S3SingleDriverLogStore"},
    "azure": {"spark.delta.logStore.abfss.impl": "io.delta.storage.AzureLogStore"},
}[KIND]

pytestmark = [pytest.mark.stores, pytest.mark.azure, pytest.mark.spark]


def race(path: str, settings: str) -> Counter[tuple[str, int]]:
    """The rows of the table after a race, each with how often it is there."""
    commit(new_table(path, COLUMNS, {}))
    commands = [
        ["tests.stores.spark_committing", path, writer, str(SPARKS), settings, "{}"] for writer in ("one", "two")
    ]
    with ExitStack() as stack:
        running = [stack.enter_context(started(*command)) for command in commands]
        while read_commit(path, 1) is None and running[0].poll() is None:
            time.sleep(0.1)  # Spark takes longer to begin than all of the others' commits
        running.append(stack.enter_context(started("tests.stores.committing", path, "three", str(DRIVER), settings)))
        outputs = [process.communicate(timeout=800)[0].decode() for process in running]
    for process, output in zip(running, outputs, strict=True):
        assert process.returncode == 0, output[:3000]
    return rows_at(path)


def rows_at(path: str) -> Counter[tuple[str, int]]:
    snapshot = snapshot_of(path)
    assert snapshot
    return Counter(
        (row["writer"], row["number"])
        for batch in rows_of(path, snapshot.version, list(COLUMNS), None, rows=1000)
        for row in batch.to_pylist()
    )


def started(module: str, *arguments: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT)


def losing(share: int) -> Callable[[str, str], str | None]:
    """A fault at every so manieth commit: it is carried out, and its answer is lost."""
    count = [0]

    def fault(method: str, place: str) -> str | None:
        if method != "PUT" or "/_delta_log/" not in place or not place.partition("?")[0].endswith(".json"):
            return None
        count[0] += 1
        return "lost" if count[0] % share == 0 else None

    return fault


def losing_first() -> Callable[[str, str], str | None]:
    """A fault at the first commit: it is carried out, and its answer is lost."""
    fault, answers = losing(1), ["lost"]
    return lambda method, place: answers.pop() if answers and fault(method, place) else None


def test_no_commit_is_lost_between_drivers_of_spark_and_the_engine(
    bucket: str, store_server: Server, summary: list[str]
) -> None:
    path = f"{bucket}/mixed"
    store_jars(store_of(path, store_server.settings()))
    with FaultyProxy(store_server.port, losing(7)) as proxy:
        settings = store_server.settings(endpoint=proxy.url)
        reach.use(store_of(path, settings))
        counts = {"one": SPARKS, "two": SPARKS, "three": DRIVER}
        expected = Counter((writer, number) for writer, count in counts.items() for number in range(1, count + 1))
        assert race(path, settings.model_dump_json()) == expected
        assert proxy.broken
        summary.append(
            f"{2 * SPARKS + DRIVER} commits by two drivers of Spark and one process without, each once; "
            f"{proxy.broken} answers lost"
        )


@pytest.mark.parametrize("confs, is_lost", [({}, False), (DELTAS_OWN, KIND == "s3")], ids=["ours", "delta's own"])
def test_a_commit_between_spark_s_look_and_its_put(
    bucket: str, store_server: Server, confs: dict[str, str], is_lost: bool
) -> None:
    """Delta's own log store for S3 looks and puts, and so overwrites it; where it does not, ours can go."""
    path = f"{bucket}/between"
    store_jars(store_of(path, store_server.settings()))
    reach.use(store_of(path, store_server.settings()))
    commit(new_table(path, COLUMNS, {}))
    versions: list[int] = []

    def fault(method: str, place: str) -> None:
        if (
            method == "PUT"
            and place.partition("?")[0].endswith("/_delta_log/00000000000000000001.json")
            and not versions
        ):
            snapshot = snapshot_of(path)
            assert snapshot
            rows = pa.table({"writer": ["between"], "number": [1]})
            file = data_files.write(path, rows, snapshot.schema, snapshot.configuration)
            versions.append(commit(snapshot, adds=[file]))

    with FaultyProxy(store_server.port, fault) as proxy:
        settings = store_server.settings(endpoint=proxy.url).model_dump_json()
        with started("tests.stores.spark_committing", path, "one", "1", settings, json.dumps(confs)) as process:
            output = process.communicate(timeout=800)[0].decode()
    assert process.returncode == 0, output[:3000]
    assert versions == [1]
    assert rows_at(path) == Counter([("one", 1)] if is_lost else [("one", 1), ("between", 1)])
    if not confs:  # Delta's checksum of Spark's own commit: written last, by another interface of Hadoop
        table = ObjectPath.parse(path)
        assert store_server.content(table.bucket, f"{table.key}/_delta_log/00000000000000000002.crc")


@pytest.mark.skipif(KIND != "azure", reason="is of Azure alone")
@pytest.mark.parametrize("confs, is_conflict", [({}, False), (DELTAS_OWN, True)], ids=["ours", "delta's own"])
def test_a_commit_whose_answer_is_lost(
    bucket: str, store_server: Server, confs: dict[str, str], is_conflict: bool
) -> None:
    """Delta's own log store for Azure takes it for one of another writer; where it does not, ours can go."""
    path = f"{bucket}/answer"
    store_jars(store_of(path, store_server.settings()))
    reach.use(store_of(path, store_server.settings()))
    commit(new_table(path, COLUMNS, {}))
    with FaultyProxy(store_server.port, losing_first()) as proxy:
        settings = store_server.settings(endpoint=proxy.url).model_dump_json()
        with started("tests.stores.spark_committing", path, "one", "2", settings, json.dumps(confs)) as process:
            output = process.communicate(timeout=800)[0].decode()
        assert proxy.broken == 1
    assert ("DELTA_CONCURRENT" in output) is is_conflict, output[:3000]
    assert bool(process.returncode) is is_conflict, output[:3000]
    assert rows_at(path) == Counter([("one", 1)] if is_conflict else [("one", 1), ("one", 2)])
