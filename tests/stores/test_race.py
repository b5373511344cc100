"""Two processes commit to one table on a store, are killed, and lose answers: every commit is in the table once."""

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import pytest

from spark_jobs.config.store import store_of
from spark_jobs.delta.commits import commit
from spark_jobs.delta.log_files import read_commit
from spark_jobs.delta.snapshot import new_table, snapshot_of
from spark_jobs.lake.rows import rows_of
from spark_jobs.storage import store_access
from tests.fix_store import Server
from tests.services.gateway import FaultyProxy

COMMITS = int(os.environ.get("STRATALOG_RACE_COMMITS", "120"))
COLUMNS = {"writer": "STRING", "number": "BIGINT"}
ROOT = Path(__file__).parents[2]


@pytest.mark.stores
@pytest.mark.azure
@pytest.mark.google
def test_every_commit_of_two_racing_processes_is_there_once(
    bucket: str, store_server: Server, tmp_path: Path, summary: list[str]
) -> None:
    path, chance = f"{bucket}/race", random.Random(1)
    commit(new_table(path, COLUMNS, {}))

    def fault(method: str, folder: str) -> str | None:
        file = unquote(folder.partition("?")[0])
        is_commit = method == "PUT" and "/_delta_log/" in file and file.endswith(".json")
        return "lost" if is_commit and chance.random() < 0.08 else None

    with FaultyProxy(store_server.port, fault) as proxy:
        settings = store_server.settings(endpoint=proxy.url)
        store_access.register_store(store_of(path, settings))
        count, kills = COMMITS // 2, 0
        outputs = {writer: tmp_path / writer for writer in ("one", "two")}
        running = {writer: _started(path, writer, count, settings.model_dump_json(), outputs) for writer in outputs}
        deadline = time.monotonic() + 900
        while running:
            assert time.monotonic() < deadline
            for writer, process in list(running.items()):
                if process.poll() is None:
                    continue
                assert process.returncode in (0, -9), outputs[writer].read_text()[-2000:]
                del running[writer]
                if process.returncode:
                    running[writer] = _started(path, writer, count, settings.model_dump_json(), outputs)
            time.sleep(chance.uniform(1, 4))
            if running and kills < 20:
                victim = running[chance.choice(sorted(running))]
                if victim.poll() is None:
                    victim.kill()
                    victim.wait()
                    kills += 1
        lost_answers = proxy.broken

    store_access.register_store(store_of(path, store_server.settings()))
    snapshot = snapshot_of(path)
    assert snapshot
    expected = Counter((writer, number) for writer in outputs for number in range(1, count + 1))
    named = Counter[tuple[str, int]]()
    for version in range(1, snapshot.version + 1):
        content = read_commit(path, version)
        assert content is not None
        info = next(json.loads(line)["commitInfo"] for line in content.splitlines() if b'"commitInfo"' in line)
        writer, number = info["userMetadata"].split()
        named[writer, int(number)] += 1
    rows = Counter(
        (row["writer"], row["number"])
        for batch in rows_of(path, snapshot.version, list(COLUMNS), None, rows=1000)
        for row in batch.to_pylist()
    )
    assert named == expected
    assert rows == expected
    lost_races = sum(file.read_text().count("lost\n") for file in outputs.values())
    assert kills
    assert lost_answers
    summary.append(
        f"{snapshot.version} commits by two processes, each once; {kills} kills, {lost_answers} answers lost, "
        f"{lost_races} races lost"
    )


def _started(path: str, writer: str, count: int, settings: str, outputs: dict[str, Path]) -> "subprocess.Popen[bytes]":
    with outputs[writer].open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.stores.committing", path, writer, str(count), settings],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
        )
