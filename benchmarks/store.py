"""A lake on S3 beside one in a folder: seconds of runs over many tables, and the requests that they make.

The server is versitygw on this machine, so a request costs what it costs to serve, and no way over a network. Seconds
are measured at the server itself, requests counted by a proxy in front of it, with a lake of their own.

Put here: what is measured. Not here: that rows are equal (tests/stores/).
"""

import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks import runs, tables
from benchmarks.progress_lines import print_progress
from benchmarks.usage import Usage, metered
from spark_jobs.config.model import Pipeline
from spark_jobs.lake.layout import lake_of
from spark_jobs.operations.observation.status import status
from spark_jobs.runtime.spark_session import spark_session
from tests.services.gateway import ACCESS, ROOT_KEY, ROOT_SECRET, SECRET, FaultyProxy, Gateway

_COMMIT = re.compile(r"/_delta_log/\d{20}\.json")
_KINDS = ("PUT", "GET", "HEAD", "DELETE", "LIST", "POST")


class _Requests:
    """Requests that a proxy sees: by kind, and those that create a version of a table."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.commits = 0

    def see(self, method: str, path: str) -> None:
        """Of each request before it is passed on; none is broken."""
        is_listing = method == "GET" and "list-type=2" in path
        self.kinds["LIST" if is_listing else method] += 1
        self.commits += method == "PUT" and bool(_COMMIT.search(path))

    def take(self) -> tuple[int, Counter[str]]:
        """Commits and requests since it was last asked."""
        result = self.commits, self.kinds
        self.commits, self.kinds = 0, Counter()
        return result


def measure(folder: Path, count: int) -> None:
    """Prints a line a run, over so many tables of twenty rows."""
    os.environ.update({ACCESS: ROOT_KEY, SECRET: ROOT_SECRET})
    requests = _Requests()
    with ExitStack() as stack:
        gateway = stack.enter_context(Gateway(folder / "gateway"))
        proxy = stack.enter_context(FaultyProxy(gateway.port, requests.see))
        direct = _on_store(folder / "direct", gateway, gateway.url)
        spark = spark_session(direct.spark)
        print_progress("in a folder")
        in_folder = list(_runs(spark, tables.pipeline_of(folder / "folder"), count))
        print_progress("on S3")
        on_store = list(_runs(spark, direct, count))
        print_progress("on S3, requests counted")
        counted = _on_store(folder / "counted", gateway, proxy.url)
        counts = [requests.take() for _ in _runs(spark, counted, count)]
    print(f"| {count:,} tables | in a folder, s (processor) | on S3, s (processor) | commits | {' | '.join(_KINDS)} |")
    print(f"| --- | --- | --- | --- |{' --- |' * len(_KINDS)}")
    for (label, local), (_, remote), (commits, kinds) in zip(in_folder, on_store, counts, strict=True):
        cells = [_usage_cell(local), _usage_cell(remote), f"{commits:,}", *(f"{kinds[kind]:,}" for kind in _KINDS)]
        print(f"| {label} | {' | '.join(cells)} |")


def _on_store(folder: Path, gateway: Gateway, url: str) -> Pipeline:
    """With a bucket of its own."""
    lake = gateway.make_bucket(folder.name)
    return tables.pipeline_of(folder, lake=lake, store=gateway.keys() | {"endpoint": url})


def _runs(spark: SparkSession, pipeline: Pipeline, count: int) -> Iterator[tuple[str, Usage]]:
    """Runs one after the other, each as it ends; a status at last."""
    folder = pipeline.path.parent
    log_tables = tables.of_two_columns(count)
    tables.write(folder, log_tables, 1, rows=20)
    yield "first run", runs.usage_of(spark, pipeline, tables.SOURCE)
    yield "no news", runs.usage_of(spark, pipeline, tables.SOURCE)
    for number in (2, 3):
        tables.write(folder, log_tables[: tables.CHANGED], number, rows=5)
        yield f"{tables.CHANGED} tables changed", runs.usage_of(spark, pipeline, tables.SOURCE)
    with metered() as usage:
        status(pipeline, lake_of(pipeline), tables.SOURCE)
    yield "status", usage


def _usage_cell(usage: Usage) -> str:
    return f"{usage.seconds:.1f} ({usage.processor:.1f})"
