from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.delta import data_files
from spark_jobs.delta.snapshot import new_table
from spark_jobs.engine.downstream_task import DownstreamUnit, pending
from spark_jobs.silver import table as silver

COLUMNS = silver.Columns({"day": "DATE", "note": "STRING"}, ("day",))


def unit(folder: Path, rows: list[dict[str, Any]], part: int, parts: int) -> DownstreamUnit:
    """One part of a target without files, whose silver has these rows in one file."""
    snapshot = new_table(str(folder), COLUMNS.stored, {})
    places = {"_position": {"stretch": 1, "number": 1, "offset": 4, "row": 0}, "_op": silver.Op.INSERT}
    every = [dict.fromkeys(COLUMNS.stored) | places | row for row in rows]
    file = data_files.write(
        str(folder), pa.Table.from_pylist(every, snapshot.schema.arrow(physical=False)), snapshot.schema, {}
    )
    return DownstreamUnit(
        number=0,
        name="shop.days",
        columns=COLUMNS,
        origin=str(folder),
        origin_schema=snapshot.schema,
        pending=(file,),
        after=None,
        windows=1,
        target=str(folder / "target"),
        schema=snapshot.schema,
        configuration={},
        files=(),
        rewrites=False,
        part=part,
        parts=parts,
    )


@pytest.mark.parametrize(
    "rows, expected",
    [
        ([{"note": "a", "_raw": [("day", "0000-00-00")]}, {"note": "b", "_raw": [("day", "2026-00-01")]}], ["a", "b"]),
        ([{"_op": silver.Op.TRUNCATE}], []),
    ],
    ids=["keys that only texts hold", "a statement that empties the table"],
)
def test_rows_without_a_value_in_the_key_are_in_one_part(
    rows: list[dict[str, Any]], expected: list[str], tmp_path: Path
) -> None:
    parts = [pending(unit(tmp_path / str(part), rows, part, 3)).column("note").to_pylist() for part in range(3)]
    assert parts == [expected, [], []]
