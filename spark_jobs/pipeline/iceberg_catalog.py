"""Iceberg tables of the lake in an Iceberg catalog: each name points to the table's newest metadata.

Put here: which tables are registered, which entries are behind, and the file that keeps that. Not here: catalogs
themselves (spark_jobs/iceberg/catalogs.py), or the names (config/iceberg_catalog.py).

A catalog is told after everything is committed and published, and what it refuses stops nothing: a run warns, the next
run tries again, and ``status`` has an alarm meanwhile. A small file beside pipeline.yaml keeps what was registered; it
may be lost, since an entry that is right is left alone.
"""

import json
import logging
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from spark_jobs.config.iceberg_catalog import IcebergCatalog
from spark_jobs.config.model import Pipeline
from spark_jobs.config.run_files import RunFile
from spark_jobs.downstream import publication
from spark_jobs.downstream.publication import Target
from spark_jobs.errors import ConfigError, LakeError
from spark_jobs.iceberg import metadata_files
from spark_jobs.iceberg.catalogs import CatalogClient, CatalogTable, connect, hive_columns
from spark_jobs.iceberg.table_view import FIRST_ID
from spark_jobs.lake.layout import downstream_name, lake_of
from spark_jobs.telemetry.spans import span
from spark_jobs.text.replaced import replace_text

log = logging.getLogger(__name__)

_UNKNOWN = -1
"""Version of an entry that another process may have changed since it was written here."""
_ALIVE = timedelta(hours=1)
"""Time after which a process that announced changes of entries has made them, or is gone."""
_SHOWN = 3
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Registered:
    """An entry that a run has written: its namespace and name, and the version that it shows."""

    namespace: str
    name: str
    version: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """Refusal of a catalog that was not made good since."""

    since: str
    """Time of the first run that met it."""
    reason: str


@dataclass(frozen=True, slots=True)
class _Announcement:
    """Announcement of a process that it changes entries. It takes it back when it is done, and not when it is killed.

    paths: of the tables whose entries it may change.
    """

    at: str
    paths: frozenset[str]

    @property
    def is_old(self) -> bool:
        return datetime.fromisoformat(self.at) < datetime.now(UTC) - _ALIVE


@dataclass(frozen=True, slots=True)
class _CatalogState:
    """State of a source's entries. entries: by path. announced: changes that were begun, by a random name."""

    entries: dict[str, Registered] = field(default_factory=dict)
    refusal: Refusal | None = None
    announced: dict[str, _Announcement] = field(default_factory=dict)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "_CatalogState":
        refusal, announced = document.get("refusal"), document.get("announced", {})
        entries = {path: Registered(*entry) for path, entry in document["tables"].items()}
        return cls(
            entries,
            Refusal(*refusal) if refusal else None,
            {name: _Announcement(at, frozenset(paths)) for name, (at, paths) in announced.items()},
        )

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "tables": {path: [item.namespace, item.name, item.version] for path, item in self.entries.items()}
        }
        if self.refusal:
            document["refusal"] = [self.refusal.since, self.refusal.reason]
        if self.announced:
            document["announced"] = {name: [item.at, sorted(item.paths)] for name, item in self.announced.items()}
        return document

    @property
    def known_entries(self) -> dict[str, Registered]:
        """The entries, those without a version that another process may have changed since."""
        announced = {path for item in self.announced.values() for path in item.paths}
        return {
            path: replace(entry, version=_UNKNOWN) if path in announced else entry
            for path, entry in self.entries.items()
        }

    def after(self, problems: list[str]) -> "_CatalogState":
        """The state after a run with these problems."""
        if not problems:
            return replace(self, refusal=None)
        since = self.refusal.since if self.refusal else datetime.now(UTC).isoformat(timespec="seconds")
        return replace(self, refusal=Refusal(since, _listed(problems)))


def is_pending(pipeline: Pipeline, source: str) -> bool:
    """True if entries of a source may be behind; nothing is asked of the catalog. Raises LakeError."""
    return pipeline.iceberg_catalog is not None and (
        _stored_states(pipeline).get(source, _CatalogState()).known_entries != _targets(pipeline, source)
    )


def refusal(pipeline: Pipeline, source: str) -> Refusal | None:
    """The last refusal of the catalog, if a source's entries are behind for it."""
    return _stored_states(pipeline).get(source, _CatalogState()).refusal if pipeline.iceberg_catalog else None


def register_tables(pipeline: Pipeline, source: str) -> None:
    """Register the newest metadata of a source's tables, and remove the names of those that are not shown any more.

    What the catalog refuses is a warning. Raises LakeError where the lake cannot be read.
    """
    settings = pipeline.iceberg_catalog
    if settings is None:
        return
    state = _stored_states(pipeline).get(source, _CatalogState())
    entries, targets = state.known_entries, _targets(pipeline, source)
    if entries == targets:
        return
    problems: list[str] = []
    behind = {path for path in {*entries, *targets} if entries.get(path) != targets.get(path)}
    with _announced(pipeline, {source}, behind), span("iceberg catalog", tables=len(targets)):
        if client := _connected(settings, problems):
            # Old names first: a table may have got the name of another.
            for path in [path for path, entry in entries.items() if _is_stale(targets.get(path), entry)]:
                if _attempt(_remove_entry, client, path, entries[path], problems):
                    del entries[path]
            for path, target in targets.items():
                if entries.get(path) != target and (entry := _attempt(_register, client, path, target, problems)):
                    entries[path] = entry
        # What others have announced is done by now where they are gone: the entries were looked at since.
        announced = {
            name: item
            for name, item in _stored_states(pipeline).get(source, state).announced.items()
            if problems or name not in state.announced or not item.is_old
        }
        _write(pipeline, {source: replace(state.after(problems), entries=entries, announced=announced)})
    if problems:
        log.warning(
            "%s: Iceberg catalog %s: %s; the lake is complete, and the next run registers its tables",
            source,
            settings.name,
            _listed(problems),
        )


def register_path(pipeline: Pipeline, path: str) -> bool:
    """Register the newest metadata of a table whose published version stays; False if the catalog refuses it.

    The next run then tries again.
    """
    # A table that is not shown has no entry that could be behind.
    settings = pipeline.iceberg_catalog
    schema, table = downstream_name(path)
    if settings is None or not pipeline.has_iceberg(schema, table):
        return True
    problems: list[str] = []
    sources = {source for source, state in _stored_states(pipeline).items() if path in state.entries}
    with _announced(pipeline, sources, {path}):
        if client := _connected(settings, problems):
            _attempt(_register, client, path, Registered(settings.namespace_of(schema), table, 0), problems)
    if not problems:
        return True
    states = {source: state for source, state in _stored_states(pipeline).items() if state.entries.pop(path, None)}
    _write(pipeline, {source: state.after(problems) for source, state in states.items()})
    log.warning("%s: Iceberg catalog %s: %s; the next run registers it", path, settings.name, _listed(problems))
    return False


@contextmanager
def _announced(pipeline: Pipeline, sources: Collection[str], paths: Collection[str]) -> Iterator[None]:
    """Announce that entries of tables are changed in the block.

    A process that is killed in it may have set an entry back that another one had moved meanwhile, and noted.
    """
    name, item = uuid.uuid4().hex, _Announcement(datetime.now(UTC).isoformat(timespec="seconds"), frozenset(paths))
    states = _stored_states(pipeline)
    before = {source: states.get(source, _CatalogState()) for source in sources}
    _write(
        pipeline,
        {source: replace(state, announced={**state.announced, name: item}) for source, state in before.items()},
    )
    yield
    states = {source: state for source, state in _stored_states(pipeline).items() if name in state.announced}
    for state in states.values():
        del state.announced[name]
    _write(pipeline, states)


def _connected(settings: IcebergCatalog, problems: list[str]) -> CatalogClient | None:
    """A client of the catalog; None where there is none, with the reason among the problems."""
    try:
        return connect(settings.name, settings.properties)
    except Exception as error:  # noqa: BLE001 -- each catalog's client has errors of its own; all are reported
        problems.append(_error_text(error))
        return None


def _listed(problems: list[str]) -> str:
    rest = f", and {len(problems) - _SHOWN} more" if problems[_SHOWN:] else ""
    return "; ".join(problems[:_SHOWN]) + rest


def probe(settings: IcebergCatalog) -> None:
    """Ask the catalog for a name that need not exist. Raises LakeError, ConfigError where it does not answer."""
    try:
        connect(settings.name, settings.properties).entry(settings.namespace_of("stratalog"), "probe")
    except ConfigError:
        raise
    except Exception as error:
        raise LakeError(f"Iceberg catalog {settings.name}: {_error_text(error)}") from error


def _attempt(
    action: Callable[[CatalogClient, str, Registered], Registered],
    client: CatalogClient,
    path: str,
    entry: Registered,
    problems: list[str],
) -> Registered | None:
    """Result of an action on a table; None if it fails, with the reason added to the problems."""
    try:
        return action(client, path, entry)
    except Exception as error:  # noqa: BLE001 -- as above
        problems.append(f"{entry.namespace}.{entry.name}: {_error_text(error)}")
        return None


def _error_text(error: Exception) -> str:
    """The first line of an error, which may be of any client."""
    text = str(getattr(error, "message", None) or error).strip()
    return text.splitlines()[0][:300] if text else type(error).__name__


def _register(client: CatalogClient, path: str, state: Registered) -> Registered:
    """Points an entry to a table's newest metadata, if it does not already.

    Returns the entry with the version that it shows, which is an earlier one where the table could not be shown.
    """
    for _ in range(_TRIES):
        present = metadata_files.newest(path)
        if present is None:
            raise LakeError("has no Iceberg metadata")
        location = metadata_files.location(path)
        table = CatalogTable(
            state.namespace,
            state.name,
            location,
            f"{location}/{metadata_files.FOLDER}/{metadata_files.file_name(present.number)}",
            hive_columns(present.document),
        )
        entry = client.entry(table.namespace, table.name)
        if entry is None:
            client.create(table)
        elif not _is_ours(entry.metadata, location):
            raise LakeError(f"is a table at {entry.metadata} already, and is left alone; drop it, or set namespace:")
        elif entry.metadata != table.metadata:
            client.replace(table, entry)
        # Another run may have gone on meanwhile, and been first.
        newest = metadata_files.newest(path)
        if newest is not None and newest.number == present.number:
            return replace(state, version=min(state.version, present.document["current-snapshot-id"] - FIRST_ID))
    raise LakeError("other runs keep writing its metadata")


def _remove_entry(client: CatalogClient, path: str, state: Registered) -> Registered:
    """Remove an entry, if it is still the table's."""
    entry = client.entry(state.namespace, state.name)
    if entry is not None and _is_ours(entry.metadata, metadata_files.location(path)):
        client.drop(state.namespace, state.name)
    return state


def _is_ours(metadata: str | None, location: str) -> bool:
    folder = f"{location}/{metadata_files.FOLDER}/"
    return metadata is not None and metadata.removeprefix("file:").lstrip("/").startswith(
        folder.removeprefix("file:").lstrip("/")
    )


def _is_stale(wanted: Registered | None, state: Registered) -> bool:
    return wanted is None or (wanted.namespace, wanted.name) != (state.namespace, state.name)


def _targets(pipeline: Pipeline, source: str) -> dict[str, Registered]:
    """The entries that a source's tables are to have, by path."""
    settings = pipeline.iceberg_catalog
    assert settings is not None
    return {
        target.path: Registered(settings.namespace_of(target.name[0]), target.name[1], target.version or 0)
        for target in shown_targets(pipeline, source)
    }


def shown_targets(pipeline: Pipeline, source: str) -> Iterator[Target]:
    """The tables of a source that are Iceberg tables, as they are published. Raises LakeError."""
    for entry in publication.read(lake_of(pipeline), source):
        for target in entry.into:
            if target.version is not None and pipeline.has_iceberg(*target.name):
                yield target


def _catalog_identity(pipeline: Pipeline) -> list[Any]:
    """The catalog that the file is about: another one has none of its entries."""
    settings = pipeline.iceberg_catalog
    return [settings.name, dict(sorted(settings.properties.items()))] if settings else []


def _stored_states(pipeline: Pipeline) -> dict[str, _CatalogState]:
    """States by source. Without a file that can be read, nothing was registered: registering again is no harm."""
    path = RunFile.ICEBERG_CATALOG.path_for(pipeline.path)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["catalog"] != _catalog_identity(pipeline):
            return {}
        return {source: _CatalogState.from_json(state) for source, state in document["sources"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        log.warning("%s: not a list of registered tables; all are registered again: %s", path, error)
        return {}


def _write(pipeline: Pipeline, states: Mapping[str, _CatalogState]) -> None:
    path = RunFile.ICEBERG_CATALOG.path_for(pipeline.path)
    sources = {source: state.to_json() for source, state in {**_stored_states(pipeline), **states}.items()}
    try:
        document = {"catalog": _catalog_identity(pipeline), "sources": sources}
        replace_text(path, json.dumps(document, indent=1, sort_keys=True) + "\n")
    except OSError as error:
        log.warning("%s: cannot be written: %s", path, error.strerror)
