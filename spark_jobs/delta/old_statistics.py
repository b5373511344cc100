"""Removal of bounds of values from a table's log, for files that its newest version does not have.

Commits and checkpoints are written again in their place without them. A file is read without its bounds as with them,
so every version reads as before, and a commit that is written again twice is the same. Delta keeps statistics optional
(PROTOCOL.md, "Per-file Statistics").

Put here: statistics in the log. Not here: which files are removed (operations/forgetting/), or the log of versions that
nobody needs (vacuum.py).
"""

import io
import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.delta.data_files import parquet
from spark_jobs.delta.log_files import log_directory
from spark_jobs.delta.snapshot import Snapshot
from spark_jobs.errors import LakeError
from spark_jobs.storage import files
from spark_jobs.storage.files import StoredPath, reason

_COMMIT = re.compile(r"\d{20}\.json")
_SUMS = re.compile(r"\d{20}\.crc")
"""Names of Spark's checksums: what a version comes to, which may list its files with their statistics."""
_OWN = "Stratalog"
_STATISTICS = ("stats", "stats_parsed")


def remove_old_statistics(snapshot: Snapshot) -> int:
    """Remove the bounds of files that a version does not have, from all of the table's log; how many files of the log.

    snapshot: the newest version. What another tool says that it searched for is removed, too. Raises LakeError.
    """
    # Sums go, commits and checkpoints are written again where they say more than they may.
    present = {file.path for file in snapshot.files}
    log, count = log_directory(snapshot.path), 0
    try:
        for name, _ in list(files.walk(log)):
            file = log / name
            if _SUMS.fullmatch(name):
                file.unlink(missing_ok=True)
                continue
            content = file.read_bytes() if _COMMIT.fullmatch(name) else None
            new = _commit(content, present) if content else None
            if name.endswith(".parquet"):
                new = _checkpoint(file, present)
            if new is not None and new != content:
                files.replace(file, new)
                _remove_sum(file)
                count += 1
    except (OSError, ValueError, pa.ArrowException) as error:
        text = reason(error) if isinstance(error, OSError) else str(error)
        raise LakeError(f"{snapshot.path}: the statistics in its log cannot be removed: {text}") from error
    return count


def _remove_sum(file: StoredPath) -> None:
    """Hadoop keeps a sum beside a file that it wrote to a file system, and would find the file damaged."""
    if isinstance(file, Path):
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def _commit(content: bytes, present: Collection[str]) -> bytes:
    lines = []
    for line in content.splitlines():
        action = json.loads(line)
        lines.append(line if not _lose_values(action, present) else _text(action))
    return b"\n".join(lines) + b"\n"


def _text(action: dict[str, Any]) -> bytes:
    return json.dumps(action, separators=(",", ":"), ensure_ascii=False).encode()


def _lose_values(action: dict[str, Any], present: Collection[str]) -> bool:
    """True if an action said anything of values that it does not say now."""
    parameters = action.get("commitInfo", {}).get("operationParameters", {})
    if "predicate" in parameters and action["commitInfo"].get("engineInfo") != _OWN and parameters["predicate"] != "[]":
        parameters["predicate"] = "[]"
        return True
    file = action.get("add") or action.get("remove")
    if not file or file["path"] in present or not file.get("stats"):
        return False
    counted = counts_alone(file["stats"])
    is_changed: bool = counted != file["stats"]
    file["stats"] = counted
    return is_changed


def counts_alone(stats: str) -> str:
    """Statistics without bounds: how many rows a file has."""
    count = json.loads(stats).get("numRecords")
    return json.dumps({} if count is None else {"numRecords": count}, separators=(",", ":"))


def _checkpoint(file: StoredPath, present: Collection[str]) -> bytes | None:
    """A checkpoint without such bounds; None where it has none."""
    with parquet(file) as opened:
        table = opened.read()
    is_changed = False
    for kind in ("add", "remove"):
        if kind in table.column_names:
            column = table.column(kind).combine_chunks()
            new = _without_bounds(column, present)
            if new is not None:
                is_changed = True
                table = table.set_column(table.column_names.index(kind), table.schema.field(kind), new)
    if not is_changed:
        return None
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def _without_bounds(actions: pa.StructArray, present: Collection[str]) -> pa.StructArray | None:
    names = [field.name for field in actions.type]
    statistics = [name for name in _STATISTICS if name in names]
    # Files that the newest version does not have lose their bounds, in both forms.
    paths = actions.field("path")
    is_old = pc.and_(pc.is_valid(actions), pc.invert(pc.is_in(paths, value_set=pa.array([*present], paths.type))))
    is_stated = [pc.and_(is_old, pc.is_valid(actions.field(name))) for name in statistics]
    cells = {name: actions.field(name) for name in names}
    if "stats" in statistics:
        texts = [
            counts_alone(text) if is_of_old_version and text else text
            for text, is_of_old_version in zip(cells["stats"].to_pylist(), is_old.to_pylist(), strict=True)
        ]
        stats = pa.array(texts, cells["stats"].type)
        is_stated = [pc.not_equal(pc.fill_null(stats, ""), pc.fill_null(cells["stats"], "")), *is_stated[1:]]
        cells["stats"] = stats
    if "stats_parsed" in statistics:
        parsed = cells["stats_parsed"]
        cells["stats_parsed"] = pc.if_else(is_old, pa.scalar(None, parsed.type), parsed)
    if not any(pc.any(flags).as_py() for flags in is_stated):
        return None
    return pa.StructArray.from_arrays([cells[name] for name in names], fields=[*actions.type], mask=pc.is_null(actions))
