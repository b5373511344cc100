"""Iceberg metadata of a commit, by the number of the table's data files: milliseconds, bytes, files.

A commit of ten deletion vectors and one new file, as a merge of a few rows makes it. Of the data files one is written;
the log names it under as many other names, since metadata is made from the log alone.

Put here: how long, and how much is written. Not here: merges (operations.py).
"""

import time
from pathlib import Path
from statistics import median

from pyroaring import BitMap64

from spark_jobs.delta import deletion_vectors
from spark_jobs.delta.commits import commit
from spark_jobs.delta.snapshot import DataFile, Snapshot, snapshot_of
from spark_jobs.iceberg.table_view import show
from tests.spark_jobs.delta.tables import MAPPED, append, begin

_COMMITS = 12
_VECTORS = 10
_TYPES = {"key": "BIGINT", "text": "STRING", "i32": "INT", "m": "DECIMAL(12,2)", "at": "TIMESTAMP", "d": "DOUBLE"}


def measure(folder: Path, most_files: int) -> None:
    """Prints a line for 10, 1,000, … files, up to ``most_files``."""
    print("| data files | ms, median | ms, most | processor ms | bytes | files | all metadata, MB | first, s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for files in (10, 100, 1_000, 10_000, 100_000):
        if files <= most_files:
            _measure_files(folder / f"t{files}", files)


def _measure_files(folder: Path, files: int) -> None:
    path = str(folder)
    snapshot = append(begin(path, MAPPED, _TYPES), range(50))
    (file,) = snapshot.files
    copies = [DataFile({**file.action, "path": f"copy-{number}.parquet"}) for number in range(files - 1)]
    commit(snapshot, adds=copies)
    began = time.perf_counter()
    show(path)
    first = time.perf_counter() - began
    # Each commit deletes a row of other files.
    times, processor, sizes, counts = [], [], [], []
    for number in range(_COMMITS):
        _commit_change(_newest(path), number)
        before = _sizes(folder)
        began, busy = time.perf_counter(), time.process_time()
        show(path)
        times.append((time.perf_counter() - began) * 1000)
        processor.append((time.process_time() - busy) * 1000)
        written = {name: size for name, size in _sizes(folder).items() if name not in before}
        sizes.append(sum(written.values()))
        counts.append(len(written))
    print(
        f"| {files:,} | {median(times):.0f} | {max(times):.0f} | {median(processor):.0f} | {median(sizes):,.0f} | "
        f"{median(counts):.0f} | {sum(_sizes(folder).values()) / 1e6:.1f} | {first:.1f} |",
        flush=True,
    )


def _commit_change(snapshot: Snapshot, number: int) -> None:
    chosen = sorted(snapshot.files, key=lambda file: file.path)
    chosen = [chosen[(number * _VECTORS + at) * 7 % len(chosen)] for at in range(_VECTORS)]
    chosen = list({file.path: file for file in chosen}.values())
    rows = [set(deletion_vectors.row_numbers(snapshot.path, file.deletion_vector).tolist()) for file in chosen]
    bitmaps = [BitMap64(sorted(numbers | {number})) for numbers in rows]
    vectors = deletion_vectors.write(snapshot.path, bitmaps)
    like = dict(snapshot.files[0].action) | {"path": f"new-{number}.parquet", "deletionVector": None}
    new = DataFile({key: value for key, value in like.items() if value is not None})
    commit(snapshot, adds=[new], dv_updates=list(zip(chosen, vectors, strict=True)))


def _newest(path: str) -> Snapshot:
    snapshot = snapshot_of(path)
    assert snapshot is not None
    return snapshot


def _sizes(folder: Path) -> dict[str, int]:
    return {file.name: file.stat().st_size for file in (folder / "metadata").iterdir()}
