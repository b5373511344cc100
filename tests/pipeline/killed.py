"""Runs a pipeline, maintains, loads or mends it, and dies by SIGKILL at one commit. Started by tests of this folder.

``killed.py CONFIG LAYER before|after [maintain|load|mend [NTH]]``: at the first, or at the NTH, of these commits. The
commits of a layer, or of one table, are identified by the table's path. The
process is gone as a machine without power is: no exit handler, no clean-up, no last word.
"""

import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from spark_jobs.config.loader import load
from spark_jobs.delta.snapshot import Snapshot
from spark_jobs.lake import table as lake
from spark_jobs.lake.commit import Checkpoint, Head
from spark_jobs.lake.table import Table
from spark_jobs.mending.mend_source import mend_source
from spark_jobs.operations.retention.maintenance import maintain_source
from spark_jobs.pipeline.initial_load.load import load_source
from spark_jobs.pipeline.run import run_source
from spark_jobs.runtime.spark_session import spark_session


def main(path: str, layer: str, moment: str, verb: str = "run", nth: str = "1") -> None:
    land, commits = Table.land, count(1)

    def fatal(self: Table, upon: Snapshot, head: Head, checkpoint: Checkpoint, **changes: Any) -> Head:
        is_it = f"/{layer}" in self.path and next(commits) >= int(nth)
        landed = None if is_it and moment == "before" else land(self, upon, head, checkpoint, **changes)
        if is_it:
            os.kill(os.getpid(), signal.SIGKILL)
        assert landed, "still alive"
        return landed

    lake.Table.land = fatal  # type: ignore[method-assign]
    pipeline = load(Path(path))
    mend = partial(mend_source, is_applied=True)
    verbs: dict[str, Callable[..., Any]] = {
        "maintain": maintain_source,
        "load": load_source,
        "mend": mend,
        "run": run_source,
    }
    verbs[verb](spark_session(pipeline.spark), pipeline, next(iter(pipeline.sources)))


if __name__ == "__main__":
    main(*sys.argv[1:])
