"""Parts of downstream tables of several source tables, as units of the engine.

Put here: which parts the engine takes, which files may have rows of one, and a commit upon what other parts have
committed in between. Not here: what such a table says of its parts (downstream/multi_source.py), the merge itself
(downstream_job.py).

Parts are planned side by side and committed one after the other, so most commits find a newer version than they were
planned on. Rows have the marks of their part, and only commits of a part write or remove rows of it. So what a task
found is right in a newer version too, where the part is as it was and no file with marked rows has gone.
"""

from collections.abc import Iterable

from spark_jobs.config.modes import Mode
from spark_jobs.delta.snapshot import DataFile, Snapshot, new_table, snapshot_of
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.merge_job import ADDED, MergeJob, SilverDelta, require_settled
from spark_jobs.downstream.multi_source import MARKS, PartTable, SharedPart, holding_both
from spark_jobs.errors import LostRace
from spark_jobs.lake.commit import Head
from spark_jobs.silver import table as silver

NewTables = dict[str, Snapshot]
"""By path, tables that the first commit of a part will make: all parts of one have the same columns."""


def why_not_part(work: MergeJob) -> str | None:
    """Why a part is merged by Spark SQL, whatever is new of it; None where the engine may take it."""
    if isinstance(work.target, SharedPart):
        return "source tables have keys in common"
    if work.mode is not Mode.MIRROR:
        return "several tables are merged into one, in which deleted rows stay"
    if silver.is_numbered(work.pinned) or any(name.lower() in MARKS for name in work.columns.types):
        return "several tables are merged into one, and its columns do not fit"  # where it stops, with its message
    return None


def head_of_part(work: MergeJob) -> Head:
    """The head of a table of several as one of its parts has it. Raises TableStopped."""
    require_settled(work)
    columns = work.columns.types | MARKS | ADDED
    return work.target.head() or work.target.new(columns, silver.properties(work.target))


def why_not_fitting(work: MergeJob, delta: SilverDelta, snapshot: Snapshot) -> str | None:
    """Why what is new of a part is merged by Spark SQL, which gives the table other columns; None where it fits."""
    if not snapshot.has_deletion_vectors:
        return "several tables are merged into one, without deletion vectors"
    if delta.steps:
        return "several tables are merged into one, and statements changed its columns"
    # A type of another part may be wider; the rows get it on the way.
    types = snapshot.schema.spark_types
    fits = (
        name in types and holding_both(types[name], kind) == types[name] for name, kind in work.columns.types.items()
    )
    if not all(fits):
        return "several tables are merged into one, and its columns are others than the table's"
    return None


def new_snapshot(head: Head, path: str, new_tables: NewTables) -> Snapshot:
    """The table that does not exist yet, the same one for all its parts: data files have the names of its columns."""
    assert head.design
    return new_tables.setdefault(path, new_table(path, head.design.columns, head.design.properties))


def files_of_part(snapshot: Snapshot, marks: Iterable[tuple[str, str]]) -> list[DataFile]:
    """The files that may have rows with these marks, by their statistics."""

    def may_have(file: DataFile, name: str, value: str) -> bool:
        bounds = file.bounds(snapshot.schema, name)
        return bounds.minimum is None or bounds.maximum is None or bool(bounds.minimum <= value <= bounds.maximum)

    all_marks = tuple(marks)
    return [file for file in snapshot.files if all(may_have(file, *mark) for mark in all_marks)]


def rebased(target: PartTable, planned: tuple[Snapshot, Head], marked: Iterable[str]) -> tuple[Snapshot, Head]:
    """The newest version of the table, for a commit of what was planned on an older one.

    planned: the snapshot and the head that the merge was planned on. marked: paths of the files that it marks rows of.
    Raises LostRace where the part, the columns or one of these files is not as it was.
    """
    snapshot, planned_head = planned
    head = target.head()
    if head is None or head.version == snapshot.version:
        return planned
    newest = snapshot_of(target.path, head.version)
    if (
        newest is None
        or _standing(head) != _standing(planned_head)
        or newest.metadata.schema != snapshot.metadata.schema
        or newest.protocol != snapshot.protocol
        or not {*marked} <= {file.path for file in newest.files}
    ):
        raise LostRace(f"{target.path}: planned on version {snapshot.version}, but another writer committed first")
    return newest, head


def _standing(head: Head) -> tuple[object, ...] | None:
    """Up to where the part is merged."""
    commit = DownstreamCommit.of_head(head)
    return (commit.position, commit.silver_version, commit.is_complete) if commit else None
