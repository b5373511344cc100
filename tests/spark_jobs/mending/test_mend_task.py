"""Rows of the server beside those of silver: what differs, and where the rows of a mend stand."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_jobs.delta import data_files
from spark_jobs.delta.snapshot import DataFile, new_table
from spark_jobs.engine.rows.restatement import SilverSource
from spark_jobs.log.position import Position
from spark_jobs.mending.mend_task import MendCounts, MendTask, compared
from spark_jobs.pipeline.initial_load.range_files import FileTarget
from spark_jobs.silver.table import ADDED, PROPERTIES

P = Position("b.000001", 500)
AT = datetime(2026, 11, 28, 10, tzinfo=UTC)
TYPES = {"id": "INT", "v": "STRING"}


class SilverRows:
    """A silver table of a key and a value, whose files no commit names."""

    def __init__(self, folder: Path) -> None:
        self.snapshot = new_table(str(folder), TYPES | ADDED, PROPERTIES)
        self.fields = self.snapshot.schema.arrow(physical=False)

    def file(self, *rows: tuple[int, str | None, str, int, int]) -> DataFile:
        """Rows of key, value, operation, offset and row of the position."""
        cells = []
        for key, value, op, offset, row in rows:
            position = {"stretch": 1, "number": 1, "offset": offset}
            cells.append(
                {"id": key, "v": value, "_op": op, "_existed": None, "_position": position | {"row": row}, "_raw": None}
                | {"_committed_at": AT, "_window_start": position, "_window_stop": position}
            )
        table = pa.Table.from_pylist(cells, schema=self.fields)
        return data_files.write(self.snapshot.path, table, self.snapshot.schema, dict(self.snapshot.configuration))

    def mend(
        self,
        files: tuple[DataFile, ...],
        server: list[tuple[int, str | None]],
        lake_keys: list[int],
        floor: Position | None = None,
    ) -> tuple[MendCounts, list[dict[str, Any]]]:
        """What a mend counts, and the rows that it writes."""
        target = FileTarget.of(self.snapshot)
        fields = pa.schema([self.fields.field(name) for name in ("id", "v", "_raw")])
        rows = pa.Table.from_pylist([{"id": key, "v": v, "_raw": None} for key, v in server], schema=fields)
        files_read: tuple[DataFile, ...] = ()
        if server:
            columns = tuple(self.snapshot.schema.column(name) for name in fields.names)
            part = FileTarget(target.path, type(self.snapshot.schema)(columns), target.configuration)
            files_read = (data_files.write(part.path, rows, part.schema, part.configuration),)
            target_read = part
        else:
            target_read = target
        task = MendTask(
            origin=SilverSource(self.snapshot.path, self.snapshot.schema, ("id",)),
            files=files,
            server_files=files_read,
            read_from=target_read,
            lake_keys=pa.Table.from_pylist(
                [{"id": key, "_raw": None} for key in lake_keys],
                schema=pa.schema([self.fields.field("id"), self.fields.field("_raw")]),
            ),
            names=tuple(TYPES),
            position=P,
            at=AT,
            floor=floor,
            target=target,
        )
        results = [*compared(task)]
        (counts,) = (result for result in results if isinstance(result, MendCounts))
        mended_rows = [
            row
            for file in results
            if isinstance(file, DataFile)
            for row in data_files.read_columns(
                target.path, file, [*self.fields.names], self.snapshot.schema
            ).to_pylist()
        ]
        return counts, mended_rows


def cells_of(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["id"], row["v"], row["_op"], row["_position"]["offset"], row["_position"]["row"]) for row in rows]


def test_rows_that_differ_stand_right_before_the_snapshot(tmp_path: Path) -> None:
    silver = SilverRows(tmp_path)
    old = silver.file(
        (1, "same", "insert", 100, 0), (2, "old", "insert", 110, 0), (3, "gone", "update", 120, 0),
        (4, None, "delete", 130, 0), (5, None, "delete", 140, 0),
    )  # fmt: skip
    counts, rows = silver.mend((old,), [(1, "same"), (2, "new"), (5, "back"), (6, None)], [1, 2, 3, 4])
    assert counts == MendCounts(inserted=2, updated=1, deleted=1, equal=2)
    assert cells_of(rows) == [
        (2, "new", "mend", 499, 0),
        (3, "gone", "mend_delete", 499, 0),
        (5, "back", "mend", 499, 0),
        (6, None, "mend", 499, 0),
    ]
    position = {"stretch": 1, "number": 1, "offset": 499}
    assert all(row["_window_start"] == row["_window_stop"] == position and row["_committed_at"] == AT for row in rows)


def test_mends_of_one_position_are_numbered_and_what_is_newer_stays(tmp_path: Path) -> None:
    silver = SilverRows(tmp_path)
    before = silver.file((1, "a", "insert", 100, 0), (2, "b", "insert", 110, 0), (3, "c", "insert", 120, 0))
    mended = silver.file((1, "first", "mend", 499, 0), (2, "b", "mend_delete", 499, 3))
    later = silver.file((3, "log", "update", 500, 0), (4, "loaded", "load", 500, -1))
    files = (before, mended, later)
    counts, rows = silver.mend(files, [(1, "second"), (2, "again"), (3, "read"), (4, "read")], [])
    assert counts == MendCounts(inserted=1, updated=1, changed=1, tied=1)
    assert cells_of(rows) == [(1, "second", "mend", 499, 1), (2, "again", "mend", 499, 4)]
    # What they have is equal, and is not written once more.
    second = silver.mend((*files, silver.file(*cells_of(rows))), [(1, "second"), (2, "again")], [1, 2])
    assert second == (MendCounts(equal=2), [])


def test_rows_from_before_a_statement_that_emptied_the_table_do_not_count(tmp_path: Path) -> None:
    silver = SilverRows(tmp_path)
    old = silver.file((1, "a", "insert", 100, 0), (2, "b", "insert", 300, 0))
    counts, rows = silver.mend((old,), [(1, "a")], [1, 2], floor=Position("b.000001", 200))
    assert counts == MendCounts(inserted=1, deleted=1)
    assert cells_of(rows) == [(1, "a", "mend", 499, 0), (2, "b", "mend_delete", 499, 0)]


def test_nothing_wanted_is_nothing(tmp_path: Path) -> None:
    assert SilverRows(tmp_path).mend((), [], []) == (MendCounts(), [])
