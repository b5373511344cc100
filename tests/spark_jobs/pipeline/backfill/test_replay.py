"""What the commit of a replay says of a table.

Not here: its rows (engine/silver/test_replay_job.py), or servers (tests/pipeline/test_redo.py).
"""

from pathlib import Path

from spark_jobs.config.filters import TableFilters
from spark_jobs.delta.snapshot import new_table
from spark_jobs.engine.silver.replay_job import ReplayedWindows
from spark_jobs.engine.silver.replay_task import ReplayedRange
from spark_jobs.engine.silver.silver_task import WindowResult
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Range
from spark_jobs.pipeline.backfill import replay
from spark_jobs.silver.compaction_job import CompactionJob, Window
from spark_jobs.silver.table_timeline import SchemaChange, TableState
from tests.binlogs.timelines import NAME, OLD, at


def test_what_rules_left_out_is_counted_over_windows_and_statements(tmp_path: Path) -> None:
    table = Table(str(tmp_path), plain=False)
    statement = SchemaChange(Range(at(50), at(60)), TableState(OLD), left_out_by="events.quiet")
    windows = Window(table, 0, (Range(at(10), at(50)), Range(at(60), at(90))))
    skips = TableFilters(skips=frozenset({at(70), at(95)}))
    work = CompactionJob("shop", NAME, windows, (statement,), table, None, 0, skips)
    results = [WindowResult(0, 0, filtered={"rows.small": 2}), WindowResult(0, 1, filtered={"rows.small": 1})]
    snapshot = new_table(str(tmp_path), {"id": "INT"}, {})
    ranges = tuple(ReplayedRange(log_range) for log_range in windows.ranges)
    replayed = ReplayedWindows(work, snapshot, snapshot, results, ranges)
    left_out = replay._left_out(replayed)
    assert (left_out["rows.small"], left_out["events.quiet"]) == (3, 1)
    assert sum(left_out.values()) == 5, "the event that is quarantined in a window"
    assert replay._ranges(replayed) == windows.ranges
