"""This project's decoder as a reader of decoding.py: the same lines in, the same lines out.

Put here: reading a file into record batches of all columns. Not here: anything that decodes.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.binlog import Changes, FileDecoder

_UPDATE = pa.scalar(2, pa.uint8())


def read(path: Path) -> tuple[int, int, int]:
    """(changes, values of all row images, sum of all first columns) of the file."""
    decoder = FileDecoder(path.name, before="all")
    counts = [_counted(found) for found in _changes(decoder, path)]
    return sum(one[0] for one in counts), sum(one[1] for one in counts), sum(one[2] for one in counts)


def _changes(decoder: FileDecoder, path: Path) -> Iterator[Changes]:
    with path.open("rb", buffering=0) as file:
        for _, changes in decoder.read(file.readinto):
            yield changes


def _counted(changes: Changes) -> tuple[int, int, int]:
    updates = pc.sum(pc.equal(changes.op, _UPDATE)).as_py() or 0
    total = sum(pc.sum(image.column(0)).as_py() or 0 for image in (changes.after, changes.before))
    return len(changes), (len(changes) + updates) * changes.after.num_columns, total


if __name__ == "__main__":
    for line in sys.stdin:
        print(*read(Path(line.rstrip("\n"))), flush=True)
