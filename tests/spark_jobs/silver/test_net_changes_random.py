"""Many operations over few keys, compacted window by window, against a dict that is kept up to date."""

import os
import random
import time

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.binlog import Changes
from spark_jobs.silver.net_changes import (
    DELETE,
    INSERT,
    UPDATE,
    SliceOrigin,
    first_and_last_rows,
    net_rows,
    one_row_per_key,
)

OPERATIONS = int(os.environ.get("STRATALOG_OPERATIONS", "20000"))
"""A million takes a minute; so many are made where the variable says so."""
KEYS = 1000
_SLICE = 700


class Log:
    """Random operations: inserts where no row is, updates and deletes where one is; a tenth of all changes the key."""

    def __init__(self, seed: int, count: int) -> None:
        generator = random.Random(seed)
        self.rows: dict[int, int] = {}
        cells: list[tuple[int, int, int, int]] = []  # operation, key before, key after, value after
        for value in range(count):
            key, chance = generator.randrange(KEYS), generator.random()
            if key not in self.rows:
                cells.append((INSERT, -1, key, value))
                self.rows[key] = value
            elif chance < 0.45:
                cells.append((DELETE, -1, key, self.rows.pop(key)))
            else:
                del self.rows[key]
                candidates = (generator.randrange(KEYS) for _ in range(50))
                into = (
                    next((candidate for candidate in candidates if candidate not in self.rows), key)
                    if chance < 0.6
                    else key
                )
                self.rows[into] = value
                cells.append((UPDATE, key, into, value))
        self.cells = np.array(cells, np.int64)

    def moves(self) -> int:
        return int(((self.cells[:, 0] == UPDATE) & (self.cells[:, 1] != self.cells[:, 2])).sum())

    def changes(self, first: int, stop: int) -> Changes:
        """Some of the changes, as the decoder gives them; ten share an event."""
        op, old, new, value = self.cells[first:stop].T
        at = np.arange(first, stop)
        is_kept = pa.array(op != UPDATE)
        return Changes(
            op=pa.array(op.astype(np.uint8)),
            offset=pa.array(at // 10 * 100),
            row=pa.array((at % 10).astype(np.int32)),
            committed_at=pa.array(at, pa.timestamp("us", "UTC")),
            gtid=None,
            after=pa.RecordBatch.from_arrays([pa.array(new), pa.array(value)], names=["k", "v"]),
            before=pa.RecordBatch.from_arrays(
                [pa.array(old, mask=is_kept.to_numpy(zero_copy_only=False))], names=["k"]
            ),
            raw=None,
            before_raw=None,
        )


def compacted(log: Log, start: int, stop: int, window: int, generator: random.Random) -> pa.Table:
    """The net rows of one window, whose slices several tasks got in any order."""
    slices = [(at, min(at + _SLICE, stop)) for at in range(start, stop, _SLICE)]
    generator.shuffle(slices)
    origin = SliceOrigin("b.000001", 1, 1, window)
    pieces = [pa.concat_tables(net_rows(log.changes(*log_slice), origin, ["k", "v"], ["k"])) for log_slice in slices]
    tasks = [pieces[at::3] for at in range(3) if pieces[at::3]]
    return one_row_per_key(
        pa.concat_tables([first_and_last_rows(pa.concat_tables(task), ["k"]) for task in tasks]), ["k"]
    )


@pytest.mark.parametrize("seed", [1, 2])
def test_what_windows_leave_is_the_plain_state(seed: int, summary: list[str]) -> None:
    log, generator = Log(seed, OPERATIONS), random.Random(seed)
    assert log.moves() > OPERATIONS / 12
    began, state, start, windows, net_count = time.monotonic(), dict[int, int](), 0, 0, 0
    while start < OPERATIONS:
        stop = min(start + generator.choice([1, 30, 900, 5000, 20_000]), OPERATIONS)
        rows = compacted(log, start, stop, windows, generator)
        assert len(rows) == len(rows.select(["k"]).group_by("k").aggregate([])), "one row a key"
        for row in rows.select(["k", "v", "_existed", "_exists"]).to_pylist():
            assert row["_existed"] == (row["k"] in state), "what silver says of the time before its window"
            if row["_exists"]:
                state[row["k"]] = row["v"]
            else:
                state.pop(row["k"], None)
        start, windows, net_count = stop, windows + 1, net_count + len(rows)
    assert state == log.rows
    summary.append(
        f"{OPERATIONS} operations of {KEYS} keys, {log.moves()} changed their key: {windows} windows, {net_count} net "
        f"rows, no difference, {time.monotonic() - began:.1f} s"
    )
