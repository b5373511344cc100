"""Which tables are written, and which keys are merged by all of silver.

Put here: these decisions. Not here: the merges (downstream_job.py), or which features of Delta are written
(delta/features.py).
"""

from spark_jobs.delta import features
from spark_jobs.delta.snapshot import Snapshot
from spark_jobs.downstream.merge_job import SilverDelta
from spark_jobs.errors import LakeError
from spark_jobs.lake.commit import Head

ENGINE = "engine"
"""What a run's metadata calls this way."""


def require_written(snapshot: Snapshot, *, appends: bool = False) -> None:
    """Raises LakeError where another tool gave a table what the engine does not write. appends: of ``features``."""
    reason = features.why_not(snapshot, appends=appends)
    if reason:
        raise LakeError(
            f"{reason}: Stratalog does not write such a table; take back what another tool changed (ALTER TABLE … "
            "UNSET TBLPROPERTIES, DROP FEATURE or DROP CONSTRAINT)"
        )


def is_restated(head: Head, delta: SilverDelta) -> bool:
    """Whether keys are merged by all of silver, since not only windows were appended to it."""
    return bool(delta.redone) or (delta.is_loaded and not head.design)
