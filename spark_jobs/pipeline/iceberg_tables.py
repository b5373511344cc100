"""Iceberg metadata of downstream tables, brought up to date after every commit to them.

Put here: which tables these are, and which are behind. Not here: the metadata (spark_jobs/iceberg).

A small file beside pipeline.yaml keeps which version of each table was shown, so that a run without news reads nothing
of them. It may be lost: showing a table that is up to date writes nothing. A run that is killed before it has noted a
version leaves that to the next one.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.binlog import TableName
from spark_jobs.config.model import Pipeline
from spark_jobs.config.run_files import RunFile
from spark_jobs.downstream.publication import Target
from spark_jobs.errors import LakeError
from spark_jobs.iceberg import expiry
from spark_jobs.iceberg.table_view import NotShown, show
from spark_jobs.lake.layout import downstream_name
from spark_jobs.pipeline import iceberg_catalog
from spark_jobs.pipeline.iceberg_catalog import shown_targets
from spark_jobs.pipeline.tables_at_once import each_table
from spark_jobs.telemetry.spans import span
from spark_jobs.text.replaced import replace_text

log = logging.getLogger(__name__)

_SHOWN = 5
Versions = Mapping[str, Mapping[str, int]]
"""The version of each table that was shown, by source and path."""


def is_pending(pipeline: Pipeline, source: str) -> bool:
    """True if a table of a source may be behind, as far as the file tells. Raises LakeError."""
    if not pipeline.may_have_iceberg:
        return False
    versions = _read_versions(pipeline.path).get(source, {})
    is_shown = all(versions.get(target.path) == target.version for target in shown_targets(pipeline, source))
    return not is_shown or iceberg_catalog.is_pending(pipeline, source)


def show_tables(pipeline: Pipeline, source: str) -> None:
    """Update the Iceberg metadata of a source's tables whose published version was not shown yet.

    Then the catalog is told. Raises LakeError with all that cannot be shown, once the others are.
    """
    if not pipeline.may_have_iceberg:
        return
    try:
        _show_behind(pipeline, source)
    finally:
        iceberg_catalog.register_tables(pipeline, source)


def _show_behind(pipeline: Pipeline, source: str) -> None:
    state = _read_versions(pipeline.path)
    targets = {target.path: target for target in shown_targets(pipeline, source)}
    versions = {path: version for path, version in state.get(source, {}).items() if path in targets}
    behind = [target for path, target in targets.items() if versions.get(path) != target.version]
    if not behind:
        return
    # One that cannot be shown does not stop the others; the next run tries it again.
    stopped: dict[TableName, str] = {}
    with span("iceberg", tables=len(behind)):
        tables = each_table([_Behind(target) for target in behind], _Behind.show, stopped, f"{source}: Iceberg")
    _write_versions(
        pipeline.path, {**state, source: versions | {target.path: target.version or 0 for target in tables}}
    )
    problems = [*stopped.values()]
    if problems:
        rest = f"\n… and {len(problems) - _SHOWN} more" if problems[_SHOWN:] else ""
        raise LakeError("\n".join(problems[:_SHOWN]) + rest)


def expire(pipeline: Pipeline, path: str, hours: int, pinned: tuple[int, ...]) -> None:
    """Remove snapshots that need files of a table, and metadata that no snapshot has, before the files are removed.

    The metadata of a table that is not shown any more goes as a whole: nothing would keep its files.

    Args:
        pipeline: the configuration.
        path: a downstream table.
        hours: how long files are kept that the newest version does not name.
        pinned: older versions that are read.

    Raises LakeError.
    """
    if pipeline.has_iceberg(*downstream_name(path)):
        # Snapshots go in any case: also of a table that cannot be shown any more.
        try:
            show(path)
        finally:
            expiry.expire_snapshots(path, hours, pinned)
            # The catalog's entry names a file that may be the next to go, so it moves first.
            if iceberg_catalog.register_path(pipeline, path):
                expiry.remove_unneeded(path, hours)
    else:
        expiry.remove(path)


def renew(pipeline: Pipeline, path: str) -> None:
    """Write the metadata of a downstream table again: what it has says nothing of files that are gone.

    Metadata that is brought up to date names the files that its newest version removed, with their bounds. Where the
    catalog refuses the new metadata, the file that it names stays, without which a catalog cannot replace an entry; all
    that it leads to goes. Raises NotShown, LostRace, LakeError.
    """
    if not pipeline.has_iceberg(*downstream_name(path)):
        expiry.remove(path)
        return
    try:
        show(path, is_anew=True)
    except NotShown:
        expiry.remove(path)
        raise
    is_registered = iceberg_catalog.register_path(pipeline, path)
    expiry.remove_unneeded(path, 0, keeps_documents=not is_registered)


@dataclass(frozen=True, slots=True)
class _Behind:
    """A table whose published version may not be shown yet."""

    target: Target

    @property
    def name(self) -> TableName:
        return TableName(*self.target.name)

    def show(self) -> Target:
        """Update the table's metadata to its published version. Raises NotShown, LostRace, LakeError."""
        table = show(self.target.path)
        if table.snapshots:
            log.info("%s: shown as Iceberg up to version %d", self.name, table.version)
        return self.target


def _read_versions(config: Path) -> Versions:
    path = RunFile.ICEBERG.path_for(config)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return {source: {at: int(version) for at, version in tables.items()} for source, tables in document.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        log.warning("%s: not a list of versions; all tables are looked at again: %s", path, error)
        return {}


def _write_versions(config: Path, versions: Versions) -> None:
    path = RunFile.ICEBERG.path_for(config)
    try:
        replace_text(path, json.dumps(versions, indent=1, sort_keys=True) + "\n")
    except OSError as error:
        log.warning("%s: cannot be written: %s", path, error.strerror)
