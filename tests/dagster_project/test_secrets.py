"""A password and an object store's key, through runs that succeed and one that fails: nothing that is kept shows them.

Searched are Dagster's home (its databases, snapshots of jobs unpacked, and the logs of steps), the lake's log, the
report, the list of tables, what commands print, and what the UI is told of jobs, resources and assets.
"""

import os
import shutil
import sqlite3
import subprocess
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fix_browser import BRIEF
from tests.fix_mysql import Database
from tests.services.dev_server import ROOT, Served, development_server, environment

pytestmark = [pytest.mark.dagster, pytest.mark.spark, pytest.mark.mysql, pytest.mark.long]

PASSWORD, KEY, WRONG = "hunter2-of-the-shop", "key-of-the-object-store", "not-the-password"
SECRETS = (PASSWORD, KEY, WRONG)
PROGRAM = {"stratalog": ["python", "-m", "spark_jobs.cli"], "dagster": ["dagster"]}
STATED_BY_SERVER = """{repositoriesOrError {... on RepositoryConnection {nodes {
  assetNodes {assetKey {path} description metadataEntries {label description ... on TextMetadataEntry {text}}}
  allTopLevelResourceDetails {name configFields {name defaultValueAsJson} configuredValues {key value}}
  jobs {name description tags {key value} modes {resources {name configField {defaultValueAsJson}}}}}}}}"""
RUNS = """{runsOrError {... on Runs {results {
  status runConfigYaml tags {key value} eventConnection {events {... on MessageEvent {message}
    ... on ExecutionStepFailureEvent {error {message stack causes {message}}}
    ... on MaterializationEvent {metadataEntries {label ... on TextMetadataEntry {text}}}}}}}}}"""


@pytest.fixture
def folder(tmp_path: Path, database: Database) -> Iterator[Path]:
    """A pipeline of a live server, whose user has the password, and Dagster's home."""
    (position,) = database.execute("SHOW MASTER STATUS")
    user = f"repl_{database.name}"
    database.execute(f"CREATE USER {user} IDENTIFIED BY '{PASSWORD}'")
    database.execute(f"GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO {user}")
    database.execute("CREATE TABLE orders (id INT PRIMARY KEY)")
    database.execute("INSERT INTO orders VALUES (1), (2)")
    login = {"host": database.server.host, "port": database.server.port, "user": user, "password": "${SHOP_PASSWORD}"}
    document = {
        "lake": "./lake",
        "sources": {"shop": {"mysql": login, "start": f"{position[0]}:{position[1]}"}},
        "tables": [f"{database.name}.*"],
        "spark": {"conf": {**BRIEF, "spark.hadoop.fs.s3a.secret.key": "${LAKE_KEY}"}},
    }
    (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    (tmp_path / "home").mkdir()
    shutil.copy(ROOT / "docs" / "examples" / "dagster.yaml", tmp_path / "home")
    yield tmp_path
    database.execute(f"DROP USER {user}")


def variables(folder: Path, password: str = PASSWORD) -> dict[str, str]:
    extra_variables = environment(folder / "pipeline.yaml", folder / "home", SHOP_PASSWORD=password, LAKE_KEY=KEY)
    return extra_variables | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}


def printed(folder: Path, command: str, *, password: str = PASSWORD, succeeds: bool = True) -> str:
    """All that a command prints."""
    program, *rest = command.split()
    process = subprocess.run(
        [*PROGRAM[program], *rest],
        cwd=folder,
        env=variables(folder, password),
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert (process.returncode == 0) is succeeds, process.stdout + process.stderr
    return process.stdout + process.stderr


def stored_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every file below a folder, by name; and what its databases hold packed."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        yield str(file), file.read_bytes()
        if file.name == "runs.db":
            with closing(sqlite3.connect(file)) as runs:
                for (body,) in runs.execute("SELECT snapshot_body FROM snapshots").fetchall():
                    yield f"{file}, a snapshot", zlib.decompress(body)


def answers_of(served: Served) -> Iterator[tuple[str, bytes]]:
    """What the UI is told."""
    for query in (STATED_BY_SERVER, RUNS):
        answer: Any = served.ask(query)
        assert answer
        yield query, repr(answer).encode()


def test_no_secret_is_kept_printed_or_shown(folder: Path) -> None:
    sync = "dagster job execute -m stratalog.definitions -j sync"
    outputs = {sync: printed(folder, sync)}
    for verb in ("check -c pipeline.yaml --connect", "status -c pipeline.yaml --json", "report -c pipeline.yaml"):
        outputs[verb] = printed(folder, f"stratalog {verb}")
    outputs["failed"] = printed(folder, sync, password=WRONG, succeeds=False)
    assert "Access denied" in outputs["failed"]
    outputs["refused"] = printed(folder, "stratalog check -c pipeline.yaml --connect", password=WRONG, succeeds=False)
    with development_server(variables(folder), folder / "dev.log") as served:
        answers = [*answers_of(served)]
    assert b"Access denied" in answers[1][1], "the events of runs are among what is searched"
    assert b"pipeline.yaml" in answers[0][1], "so is what resources are configured with"
    texts = [*((command, text.encode()) for command, text in outputs.items()), *answers, *stored_files(folder)]
    assert any(path.endswith("a snapshot") for path, _ in texts)
    hits = [(path, secret) for path, text in texts for secret in SECRETS if secret.encode() in text]
    assert hits == []
