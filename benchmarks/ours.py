"""This project's decoder as a reader of decoding.py: the same lines in, the same lines out.

Put here: reading a file into record batches of all columns. Not here: anything that decodes.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from spark_jobs.binlog import Changes, FileDecoder, TableDefinition

_UPDATE = 2
_VARCHAR = 15


def read(path: Path) -> tuple[int, int, int, int]:
    """(changes, values of all row images, sum of all first columns, letters) of the file."""
    decoder = FileDecoder(path.name, before="all")
    counted, last = [], {}
    for table, changes in _decoded_changes(decoder, path):
        counted.append(_counted(changes))
        last[table.name] = table, changes
    changed, values, total = map(sum, zip(*counted, strict=True))
    return changed, values, total, sum(_letters(*entry) for entry in last.values())


def _decoded_changes(decoder: FileDecoder, path: Path) -> Iterator[tuple[TableDefinition, Changes]]:
    with path.open("rb", buffering=0) as file:
        yield from decoder.read(file)


def _letters(table: TableDefinition, changes: Changes) -> int:
    """The code points of all VARCHAR values of a table's last image, summed."""
    texts = [offset for offset, column in enumerate(table.columns) if column.type_code == _VARCHAR]
    return sum(sum(map(ord, changes.after.column(offset)[-1].as_py() or "")) for offset in texts)


def _counted(changes: Changes) -> tuple[int, int, int]:
    updates = int(np.count_nonzero(changes.op.to_numpy() == _UPDATE))
    total = sum(pc.sum(image.column(0)).as_py() or 0 for image in (changes.after, changes.before))
    return len(changes), (len(changes) + updates) * changes.after.num_columns, total


if __name__ == "__main__":
    for line in sys.stdin:
        print(*read(Path(line.rstrip("\n"))), flush=True)
