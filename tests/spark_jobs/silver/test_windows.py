"""Windows by statistics are those of the rows, however these lie in files."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.delta import data_files
from spark_jobs.delta.snapshot import new_table
from spark_jobs.silver.table import MENDED, Columns, Op
from spark_jobs.silver.windows import OF_CHANGES, windows_of
from tests.fix_hypothesis import examples
from tests.spark_jobs.engine.lake_rows import MAPPED, Row, stored, table_of

COLUMNS = Columns({"id": "INT", "v": "INT"}, ("id",))
LOADED, RENAMED, EMPTIED, MENDED_AT = 50, 1000, 2000, 3000
"""Position where rows of no window of the log stand."""

changes = st.builds(
    lambda key, op, window: Row((key,), 1, window, op, window),
    st.integers(0, 9),
    st.sampled_from(OF_CHANGES),
    st.sampled_from([100, 200, 300]),
)
other_names = st.sampled_from(
    [
        Row((1,), 1, LOADED, Op.LOAD, LOADED),
        Row((2,), 1, RENAMED, Op.RENAME, RENAMED),
        Row((None,), None, EMPTIED, Op.TRUNCATE, EMPTIED),
        Row((3,), 1, MENDED_AT, Op.MEND, MENDED_AT),
        Row((4,), 1, MENDED_AT, Op.MEND_DELETE, MENDED_AT),
    ]
)


def test_the_windows_of_rows_are_found(tmp_path: Path) -> None:
    number = 0

    @examples(60)
    @given(st.lists(st.lists(st.one_of(changes, other_names), min_size=1, max_size=4), max_size=4), st.data())
    def check(files: list[list[Row]], data: st.DataObject) -> None:
        nonlocal number
        number += 1
        table = new_table(str(tmp_path / str(number)), COLUMNS.stored, MAPPED)
        dead = {
            at: data.draw(st.sets(st.integers(0, len(rows) - 1), max_size=len(rows) - 1))
            for at, rows in enumerate(files)
        }
        table = (
            stored(
                table,
                [table_of(rows, ("id",), table.schema) for rows in files],
                {at: [*rows] for at, rows in dead.items() if rows},
            )
            if files
            else table
        )
        alive = [row for at, rows in enumerate(files) for nth, row in enumerate(rows) if nth not in dead[at]]
        for operations in (OF_CHANGES, (Op.DELETE,), (Op.LOAD,), (Op.TRUNCATE,), (Op.RENAME,), MENDED):
            expected = {row.window for row in alive if row.op in operations}
            windows = windows_of(table, operations)
            assert {start[2] for start, _ in windows} == expected
            assert all(stop == (*start[:2], start[2] + 100) for start, stop in windows)

    check()


def test_a_file_of_one_window_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(str(tmp_path / "t"), COLUMNS.stored, MAPPED)
    rows = [Row((1,), 1, 100, Op.INSERT, 100), Row((2,), 1, 101, Op.UPDATE, 100)]
    emptied = [Row((None,), None, 300, Op.TRUNCATE, 300)]
    table = stored(table, [table_of(file, ("id",), table.schema) for file in (rows, emptied)])
    monkeypatch.setattr(data_files, "read_columns", None)
    assert windows_of(table) == {((1, 1, 100), (1, 1, 200))}
    assert windows_of(table, (Op.TRUNCATE,)) == {((1, 1, 300), (1, 1, 400))}
