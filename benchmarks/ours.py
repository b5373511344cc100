"""This project's decoder as a reader of decoding.py: the same lines in, the same lines out.

Put here: reading a file into record batches of all columns. Not here: anything that decodes.
"""

import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.binlog import Changes, Decoder, Slicer, definitions_of

CHUNK = 4 << 20
_UPDATE = pa.scalar(2, pa.uint8())


def read(path: Path) -> tuple[int, int, int]:
    """(changes, values of all row images, sum of all first columns) of the file."""
    slicer, decoders = Slicer(path.name, 0, None), {}
    counts = [0, 0, 0]

    def count(batch: pa.RecordBatch) -> None:
        for at in range(len(batch)):
            cells = {name: batch.column(name)[at] for name in ("kind", "start", "context", "payload", "tables")}
            if cells["kind"].as_py() != "rows":
                continue
            start, context, payload = cells["start"].as_py(), cells["context"].as_py(), cells["payload"].as_buffer()
            tables = [one["table"] for one in cells["tables"].as_py()]
            if any(one not in decoders for one in tables):
                for found in definitions_of(path.name, start, context, payload):
                    decoders.setdefault(found.name.table, Decoder(found, before="all"))
            for one in tables:
                for changes in decoders[one].decode(path.name, start, context, payload):
                    for place, more in enumerate(_counted(changes)):
                        counts[place] += more

    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            for batch in slicer.feed(chunk):
                count(batch)
    for batch in slicer.finish():
        count(batch)
    return counts[0], counts[1], counts[2]


def _counted(changes: Changes) -> tuple[int, int, int]:
    updates = pc.sum(pc.equal(changes.op, _UPDATE)).as_py() or 0
    total = sum(pc.sum(image.column(0)).as_py() or 0 for image in (changes.after, changes.before))
    return len(changes), (len(changes) + updates) * changes.after.num_columns, total


if __name__ == "__main__":
    for line in sys.stdin:
        began = time.perf_counter_ns()
        found = read(Path(line.rstrip("\n")))
        print(*found, time.perf_counter_ns() - began, flush=True)
