"""The command over recorded logs, by one way of running Spark or another. Put here: running it. Not here: tests."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.demo.recorded import recorded_files
from spark_jobs.storage.files import StoredPath, stored_path, walk
from tests.command_result import CommandResult, without_codes
from tests.lakes.lake_recording import RECORDING, SALT
from tests.spark_jobs.engine.lake_rows import rows_of

LOCAL: dict[str, Any] = {
    "master": "local[2]",
    "conf": {
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
    },
}
STOPPED = ("--source", "shop", "--at", "mysql-bin.000002:3181", "--table", "shop.logged_by_statement", "--yes")


def stratalog(*arguments: object, **variables: str) -> CommandResult:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "stratalog", *map(str, arguments)]
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"SALT": SALT} | variables
    )
    return CommandResult(ended.returncode, ended.stdout, without_codes(ended.stderr))


@dataclass
class OpenRun:
    """A run in a process of its own that is under way."""

    process: "subprocess.Popen[str]"
    lake: StoredPath

    def wait_for_files(self, layer: str) -> None:
        """Until a layer has a data file."""
        while True:
            with suppress(FileNotFoundError):  # the layer's folder is not there yet
                if any(name.endswith(".parquet") for name, _ in walk(self.lake / layer)):
                    return
            assert self.process.poll() is None, "it ended before"
            time.sleep(0.05)

    def ended(self) -> CommandResult:
        out, err = self.process.communicate()
        return CommandResult(self.process.returncode, out, without_codes(err))


@contextmanager
def open_run(deployment: "Deployment") -> Iterator[OpenRun]:
    """A run of a pipeline, which does not outlive the ``with`` block."""
    command = [sys.executable, "-m", "stratalog", "run", "-c", str(deployment.config)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, start_new_session=True, env=deployment.environment
    ) as process:
        yield OpenRun(process, deployment.lake)
        process.kill()


def require_no_loss(deployment: "Deployment", local: "Deployment", layer: str, harm: Callable[[], None]) -> None:
    """Harms a run as soon as a layer has a data file.

    It is done nevertheless, or ends by one message; after the next one the tables are those of a run without a fault.
    """
    with open_run(deployment) as run:
        run.wait_for_files(layer)
        harm()
        ended = run.ended()
    assert "Traceback" not in ended.err, ended.err
    assert "[Stage" not in ended.err
    assert ended.status in (0, 1), ended.err
    deployment.run("run")
    assert deployment.tables() == local.tables()


@dataclass(frozen=True, slots=True)
class Bucket:
    """A lake on a store of this machine. keys: of pipeline.yaml. variables: the store's keys, for the environment."""

    keys: dict[str, Any]
    variables: dict[str, str]


class Deployment:
    """A pipeline over recorded logs in a folder, whose ``spark:`` section is the way.

    The logs are those of the recorded lake, with statements, masks, routes and tables that stop, or the demo's.

    Args:
        folder: a new one.
        spark: of pipeline.yaml.
        is_demo: whether the logs are the demo's.
        bucket: where the lake is; without one in the folder.
        tables: those of the demo that are in scope.
        variables: further ones of the environment.
    """

    def __init__(
        self,
        folder: Path,
        spark: dict[str, Any],
        *,
        is_demo: bool = False,
        bucket: "Bucket | None" = None,
        tables: tuple[str, ...] = ("*",),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._process: subprocess.Popen[str] | None = None
        self.folder = folder
        self.config = folder / "pipeline.yaml"
        self.lake = stored_path(bucket.keys["lake"] if bucket else str(folder / "lake"))
        self.environment = os.environ | {"SALT": SALT} | (bucket.variables if bucket else {}) | dict(variables or {})
        folder.mkdir(parents=True)
        if is_demo:
            (folder / "binlogs").mkdir()
            for file in recorded_files():
                shutil.copy(file, folder / "binlogs")
            keys: dict[str, Any] = {
                "lake": "./lake",
                "sources": {"shop": {"files": "./binlogs"}},
                "tables": [f"shop.{table}" for table in tables],
            }
        else:
            with tarfile.open(RECORDING) as archive:
                archive.extractall(folder, filter="data")
            shutil.rmtree(folder / "lake")
            (folder / "pipeline.tables.json").unlink()
            keys = yaml.safe_load(self.config.read_text(encoding="utf-8"))
        keys |= {"spark": spark} | (bucket.keys if bucket else {})
        self.config.write_text(yaml.safe_dump(keys), encoding="utf-8")

    def run(self, verb: str, *arguments: object, status: int = 0) -> CommandResult:
        """A verb on the pipeline, which ends with the status and prints no trace."""
        if self._process is None:
            command = [sys.executable, "-m", "tests.cluster.verbs"]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment
            )
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([verb, "-c", *map(str, (self.config, *arguments))]) + "\n")
        self._process.stdin.flush()
        ran = CommandResult(**json.loads(self._process.stdout.readline()))
        assert "Traceback" not in ran.err, ran.err
        assert ran.status == status, f"{verb}: {ran.err}"
        return ran

    def close(self) -> None:
        """Ends the process that runs verbs."""
        if self._process is not None:
            self._process.communicate()

    def log_arrives(self) -> None:
        """The recorded log that follows."""
        for file in (self.folder / "later").iterdir():
            shutil.move(file, self.folder / "binlogs")

    def every_verb(self) -> dict[str, str]:
        """What verbs print that is the same for all ways, after every verb that needs no server was run."""
        self.run("check", "--connect")
        for layer, status in (("extract", 0), ("compact", 1), ("merge", 0)):
            self.run(layer, status=status)
        self.log_arrives()
        self.run("run", status=1)  # a table has stopped
        self.run("skip", *STOPPED)
        self.run("run")
        self.run("backfill", "--source", "shop", "--from", "mysql-bin.000001:4", "--to", "mysql-bin.000003:4")
        self.run("reset", "--source", "shop", "--table", "shop.orders", "--yes")
        self.run("run")
        self.run("gc")
        self.run("maintain")
        self.run("report", "--to", self.folder / "reports")
        self.run("export", "--source", "shop", "--to", self.folder / "exported")
        self.run("status")
        printed = {"changes": self.run("changes", "--source", "shop").out, "schema": self.run("schema").out}
        exported = {file.name: file.read_bytes() for file in sorted((self.folder / "exported").iterdir())}
        assert exported == {name: (self.folder / "binlogs" / name).read_bytes() for name in exported}
        return printed

    def usual_verbs(self) -> dict[str, str]:
        """The same over the demo's logs, of which no table stops."""
        last = self.folder / "binlogs" / recorded_files()[-1].name
        last.rename(self.folder / last.name)
        self.run("check", "--connect")
        for layer in ("extract", "compact", "merge"):
            self.run(layer)
        (self.folder / last.name).rename(last)
        self.run("run")
        span = ("--from", "mysql-bin.000002:4", "--to", "mysql-bin.000003:4")
        self.run("backfill", "--source", "shop", *span, "--table", "shop.carts")
        self.run("reset", "--source", "shop", "--table", "shop.orders", "--yes")
        self.run("run")
        self.run("gc", "--dry-run")
        self.run("maintain")
        self.run("report", "--to", self.folder / "reports")
        self.run("status")
        self.run("export", "--source", "shop", "--to", self.folder / "exported")
        for file in recorded_files():
            assert (self.folder / "exported" / file.name).read_bytes() == file.read_bytes()
        return {"changes": self.run("changes", "--source", "shop").out, "schema": self.run("schema").out}

    def tables(self) -> dict[str, Counter[str]]:
        """The rows of every table of the lake, as text, without those that tell of runs."""
        return tables_of(self.lake)


def tables_of(lake: StoredPath) -> dict[str, Counter[str]]:
    tables = {}
    for name in sorted({name.partition("/_delta_log/")[0] for name, _ in walk(lake) if "/_delta_log/" in name}):
        if name.startswith(("bronze", "silver", "downstream")):
            snapshot = snapshot_of(str(lake / name))
            assert snapshot is not None
            tables[name] = Counter(repr(sorted(row.items())) for row in rows_of(snapshot))
    return tables
