"""The binlog files of a source as Dagster's partitions.

Put here: which files are partitions, and when they are registered. Not here: what is done with a chosen range of them
(backfill.py).

Dagster orders partitions by when they were registered, so nothing but the two ends chosen is taken from it.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.lineage import Lineage
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import ConfigError, SourceError

if TYPE_CHECKING:  # these import pyspark
    from spark_jobs.bronze.files import BinlogFile


log = logging.getLogger(__name__)
_AT_ONCE = 10_000
"""Partitions registered by one statement: SQLite takes no more than 32,000 variables."""


def file_partitions(lineage: Lineage) -> dg.DynamicPartitionsDefinition:
    """The binlog files of a source that can be replayed."""
    return dg.DynamicPartitionsDefinition(name=lineage.partitions)


def register_files(instance: dg.DagsterInstance, lineage: Lineage) -> None:
    """Register the files of bronze, and those of the archive before them, as partitions in the log's order.

    New ones at the end are added; where older ones came or some went, all are registered again, because the order of
    partitions is that of their registration. Reads of bronze no more than what lies outside the known files.
    """
    from spark_jobs.bronze.files import held_files
    from spark_jobs.lake.layout import lake_of

    # What Dagster knows, and what bronze and its archive have.
    source, pipeline, name = lineage.source, lineage.catalog.pipeline, lineage.partitions
    table = lake_of(pipeline).bronze(source)
    head = table.head()
    keys = list(instance.get_dynamic_partitions(name))
    files = _files_of_keys(keys)
    if head is None or head.checkpoint is None:
        _register(instance, name, keys, [])
        return
    # Only files outside of the known ones are read: thousands of partitions are usual.
    oldest = oldest_file(head.checkpoint)
    own_files = [file for file in files if file >= oldest]
    before = archived_files(pipeline, source, oldest, [file for file in files if file < oldest])
    if not own_files or files != sorted(files):
        own_files = held_files(table, head)
    elif not _reaches(own_files, head.checkpoint):
        own_files = sorted({*held_files(table, head, (own_files[0], own_files[-1])), *own_files})
    _register(instance, name, keys, [str(file) for file in (*before, *own_files)])


def archived_files(
    pipeline: Pipeline, source: str, oldest: "BinlogFile", files: "Sequence[BinlogFile]" = ()
) -> "list[BinlogFile]":
    """The files that the archive has of the log before bronze; those known where it cannot be listed just now."""
    from spark_jobs.bronze.files import archived_before
    from spark_jobs.source.files import Files

    folder = pipeline.sources[source].archive
    if folder is None:
        return []
    try:
        return archived_before(oldest, Files(source, folder).names())
    except SourceError as error:
        log.warning("%s; its files stay listed as they are", error)
        return list(files)


def _files_of_keys(keys: Sequence[str]) -> "list[BinlogFile]":
    """The files that partitions stand for; none where somebody added one by hand that is no file."""
    with suppress(ConfigError):
        return files_of_keys(keys)
    return []


def register_again(instance: dg.DagsterInstance, lineage: Lineage, files: "Sequence[BinlogFile]") -> None:
    """Register these files as the only partitions, in this order."""
    name = lineage.partitions
    _register(instance, name, list(instance.get_dynamic_partitions(name)), list(map(str, files)))


def _reaches(files: "list[BinlogFile]", at: Any) -> bool:
    """True if the known files are those from bronze's oldest to the one that it ends in."""
    from spark_jobs.bronze.files import BinlogFile

    return (files[0], files[-1]) == (oldest_file(at), BinlogFile.of(at.position))


def oldest_file(at: Any) -> "BinlogFile":
    from spark_jobs.bronze import table as bronze
    from spark_jobs.bronze.files import BinlogFile

    return BinlogFile.of(bronze.oldest(at))


def files_of_keys(keys: Sequence[str]) -> "list[BinlogFile]":
    """The binlog files that partition keys name. Raises ConfigError for a key that is no file."""
    from spark_jobs.bronze.files import BinlogFile

    return [BinlogFile.parse(key) for key in keys]


def _register(instance: dg.DagsterInstance, name: str, registered: list[str], files: list[str]) -> None:
    if files[: len(registered)] != registered:
        for key in registered:
            instance.delete_dynamic_partition(name, key)
        registered = []
    for at in range(len(registered), len(files), _AT_ONCE):
        instance.add_dynamic_partitions(name, files[at : at + _AT_ONCE])
