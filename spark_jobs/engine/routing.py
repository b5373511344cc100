"""Which downstream tables the engine takes, and which go by Spark SQL: the one place that decides.

Put here: the reasons. Not here: either way (downstream_job.py; downstream/merge.py).

Spark SQL takes what is rare, and what is about all of a table. A reason is text for the run's
metadata.
"""

from spark_jobs.delta import features
from spark_jobs.delta.snapshot import Snapshot
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.merge_job import MergeJob, SilverDelta
from spark_jobs.downstream.multi_source import PartTable
from spark_jobs.engine.part_merge import why_not_part
from spark_jobs.errors import LakeError
from spark_jobs.lake.commit import Head
from spark_jobs.silver.compaction_job import BY_SPARK_SQL

ENGINE = "engine"
"""What a run's metadata calls this way."""


def by_spark_sql(reason: str) -> str:
    """What a run's metadata calls the other one."""
    return f"{BY_SPARK_SQL}: {reason}" if reason else BY_SPARK_SQL


def require_written(snapshot: Snapshot, *, appends: bool = False) -> None:
    """Raises LakeError where another tool gave a table what the engine does not write. appends: of ``features``."""
    reason = features.why_not(snapshot, appends=appends)
    if reason:
        raise LakeError(
            f"{reason}: Stratalog does not write such a table; take back what another tool changed (ALTER TABLE … "
            "UNSET TBLPROPERTIES, DROP FEATURE or DROP CONSTRAINT)"
        )


def why_not_merged(work: MergeJob) -> str | None:
    """Why a table is merged by Spark SQL, whatever is new of it; None where the engine may take it."""
    if isinstance(work.target, PartTable) and (reason := why_not_part(work)):
        return reason
    return None


def why_downstream_by_sql(work: MergeJob, head: Head, delta: SilverDelta) -> str | None:
    """Why what is new of a table is merged by Spark SQL; None where the engine takes it."""
    if work.mode.has_every_change:
        return None
    is_part, last = isinstance(work.target, PartTable), DownstreamCommit.of_head(head)
    reasons = {
        "all of silver was replaced": delta.is_renewed and is_part,
        "a statement emptied it, and several tables are merged into one": is_part and _empties(work, head, delta),
        "a run ended during a statement that changes it": is_part and last and last.steps_left,
    }
    return next((reason for reason, applies in reasons.items() if applies), None)


def _empties(work: MergeJob, head: Head, delta: SilverDelta) -> bool:
    """Whether rows of the target from before a statement go."""
    return bool(work.floor and head.position and (is_restated(head, delta) or head.position <= work.floor))


def is_restated(head: Head, delta: SilverDelta) -> bool:
    """Whether keys are merged by all of silver, since not only windows were appended to it."""
    return bool(delta.redone) or (delta.is_loaded and not head.design)
