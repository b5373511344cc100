"""Two drivers of Spark and one process without commit to one table on S3."""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from spark_jobs.config.store import LakeStore
from spark_jobs.delta.commits import commit
from spark_jobs.delta.log_files import read_commit
from spark_jobs.delta.snapshot import new_table, snapshot_of
from spark_jobs.lake.rows import rows_of
from spark_jobs.runtime.s3 import s3_jars
from spark_jobs.storage import reach
from spark_jobs.storage.objects import ObjectPath
from tests.gateway import FaultyProxy, Gateway

ROOT = Path(__file__).parents[2]
COLUMNS = {"writer": "STRING", "number": "BIGINT"}
SPARKS, DRIVER = 12, 60
DELTAS_OWN = {"spark.delta.logStore.s3a.impl": "io.delta.storage.S3SingleDriverLogStore"}

pytestmark = [pytest.mark.stores, pytest.mark.spark]


def race(path: str, settings: str, confs: dict[str, str], *, with_driver: bool) -> Counter[tuple[str, int]]:
    """The rows of the table after a race, each with how often it is there."""
    commit(new_table(path, COLUMNS, {}))
    commands = [
        ["tests.stores.spark_committing", path, writer, str(SPARKS), settings, json.dumps(confs)]
        for writer in ("one", "two")
    ]
    with ExitStack() as stack:
        running = [stack.enter_context(started(*command)) for command in commands]
        if with_driver:
            while read_commit(path, 1) is None and running[0].poll() is None:
                time.sleep(0.1)  # Spark takes longer to begin than all of the others' commits
            running.append(
                stack.enter_context(started("tests.stores.committing", path, "three", str(DRIVER), settings))
            )
        outputs = [process.communicate(timeout=800)[0].decode() for process in running]
    for process, output in zip(running, outputs, strict=True):
        assert process.returncode == 0, output[:3000]
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


def expected(*, with_driver: bool) -> Counter[tuple[str, int]]:
    counts = {"one": SPARKS, "two": SPARKS} | ({"three": DRIVER} if with_driver else {})
    return Counter((writer, number) for writer, count in counts.items() for number in range(1, count + 1))


def losing(share: int) -> Callable[[str, str], str | None]:
    """A fault at every so manieth commit: it is carried out, and its answer is lost."""
    count = [0]

    def fault(method: str, place: str) -> str | None:
        if method != "PUT" or "/_delta_log/" not in place or not place.partition("?")[0].endswith(".json"):
            return None
        count[0] += 1
        return "lost" if count[0] % share == 0 else None

    return fault


def test_no_commit_is_lost_between_drivers_of_spark_and_the_engine(
    bucket: str, gateway: Gateway, summary: list[str]
) -> None:
    s3_jars()
    path = f"{bucket}/mixed"
    with FaultyProxy(gateway.port, losing(7)) as proxy:
        settings = gateway.settings(endpoint=proxy.url)
        reach.use(LakeStore(ObjectPath.parse(path).bucket, settings))
        assert race(path, settings.model_dump_json(), {}, with_driver=True) == expected(with_driver=True)
        assert proxy.broken
        summary.append(
            f"{2 * SPARKS + DRIVER} commits by two drivers of Spark and one process without, each once; "
            f"{proxy.broken} answers lost"
        )


def test_delta_s_own_log_store_loses_commits(bucket: str, gateway: Gateway, summary: list[str]) -> None:
    """Why there is one of ours; where this fails, Delta's has become safe, and ours can go."""
    s3_jars()
    path = f"{bucket}/unsafe"
    commits = race(path, gateway.settings().model_dump_json(), DELTAS_OWN, with_driver=False)
    missing = sum((expected(with_driver=False) - commits).values())
    assert missing
    summary.append(f"Delta's own log store for S3 lost {missing} of {2 * SPARKS} commits of two drivers")
