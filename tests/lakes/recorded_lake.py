"""The recorded lake as a code location without Spark.

Put here: unpacking it. Not here: what it is (lake_recording.py).
"""

import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import dagster as dg

from assets.lineage import Lineage, lineages
from spark_jobs.config import known_tables
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.downstream import publication
from spark_jobs.lake.layout import lake_of
from tests.lakes.lake_recording import RECORDING, SALT

STOPPED = dg.AssetKey(["downstream", "shop", "logged_by_statement"])


@contextmanager
def recorded(folder: Path, keys: str = "") -> Iterator[tuple[Pipeline, dg.DagsterInstance]]:
    """The lake that runs of the command line have filled, and an instance that has seen none of them."""
    with tarfile.open(RECORDING) as archive:
        archive.extractall(folder, filter="data")
    path = folder / "pipeline.yaml"
    path.write_text(path.read_text(encoding="utf-8") + keys, encoding="utf-8")
    with patch.dict(os.environ, {"SALT": SALT}), dg.DagsterInstance.ephemeral() as instance:
        pipeline = load(path)
        entries = publication.read(lake_of(pipeline), "shop")
        known_tables.add(pipeline.tables_file, {("shop", *entry.name) for entry in entries})
        yield pipeline, instance


def lineage_of(pipeline: Pipeline) -> Lineage:
    return lineages(pipeline, known_tables.read(pipeline.tables_file))[0]
