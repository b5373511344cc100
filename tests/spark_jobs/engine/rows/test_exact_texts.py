"""Exact texts after statements, against a loop over the rows of dictionaries."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.ddl.default_values import Fill
from spark_jobs.engine.rows.exact_texts import ExactTextChange, change_of, with_text_changes
from spark_jobs.silver import table as silver
from spark_jobs.silver.schema_evolution import OF_ABSENT, steps
from tests.fix_hypothesis import examples

NASTY = st.lists(st.sampled_from(["'", "\\", "WHEN ", " THEN ", ", ", "NOT IN (", "${", "ü", "\n", "a"]), max_size=4)
NAMES = st.lists(NASTY.map("".join).filter(bool), min_size=1, max_size=5, unique_by=str.casefold)
KIND = pa.map_(pa.string(), pa.string())
ROWS = st.lists(st.none() | st.dictionaries(st.sampled_from("abcd"), st.sampled_from("xy"), min_size=1), max_size=6)
CHANGES = st.lists(
    st.builds(
        ExactTextChange,
        st.dictionaries(st.sampled_from("abcd"), st.none() | st.sampled_from("efgh")).filter(
            lambda names: len(new := [name for name in names.values() if name]) == len(set(new))
        ),
        st.dictionaries(st.sampled_from("ij"), st.just("z")),
    ),
    max_size=2,
)


@examples(300)
@given(NAMES, st.data())
def test_changes_are_the_inverse_of_steps(names: list[str], data: st.DataObject) -> None:
    dropped = data.draw(st.sets(st.sampled_from(names)))
    renamed = {name: f"{name}2" for name in names if name not in dropped and data.draw(st.booleans())}
    texts = {f"{name}3": f"{name}\\" for name in data.draw(st.sets(st.sampled_from(names)))}
    origins_by_name = {renamed.get(name, name): name for name in names if name not in dropped}
    types = dict.fromkeys(names, "DATE") | {"id": "INT"}
    after = dict.fromkeys(origins_by_name, "DATE") | {"id": "INT"} | dict.fromkeys(texts, "DATE")
    origins = {"id": "id"} | origins_by_name | dict.fromkeys(texts)
    fills = {name: Fill("NULL", exact=text) for name, text in texts.items()}
    changes = [change for step in steps(types, after, origins, fills) if (change := change_of(step))]
    expected = [ExactTextChange(dict.fromkeys(dropped) | renamed)] if dropped or renamed else []
    assert changes == expected + ([ExactTextChange(texts=texts)] if texts else [])


def after(row: dict[str, str] | None, change: ExactTextChange) -> dict[str, str] | None:
    """A row's exact texts after one change, as Spark's statement of it says."""
    remaining = {name: text for name, text in (row or {}).items() if change.names.get(name, name) is not None}
    moved = {change.names.get(name) or name: text for name, text in remaining.items()}
    is_null = row is None or (not moved and None in change.names.values())
    return moved | dict(change.texts) if change.texts else None if is_null else moved


@examples(300)
@given(ROWS, CHANGES, st.integers(0, 3))
def test_rows_after_changes(rows: list[dict[str, str] | None], changes: list[ExactTextChange], start: int) -> None:
    cells = pa.array([None if row is None else [*row.items()] for row in rows], KIND)
    table = pa.table({"id": pa.array(range(len(rows))), "_raw": cells}).slice(start)
    expected = rows[start:]
    for change in changes:
        expected = [after(row, change) for row in expected]
    result = with_text_changes(table, changes)
    assert result.schema == table.schema
    cells_after = [None if cell is None else dict(cell) for cell in result.column("_raw").to_pylist()]
    assert cells_after == expected


@examples(100)
@given(NAMES, st.data())
def test_names_of_absent_columns_are_the_inverse_of_their_step(names: list[str], data: st.DataObject) -> None:
    targets = data.draw(st.permutations([*names, *(None for _ in names)]))[: len(names)]
    renamed = dict(zip(names, targets, strict=True))
    step = f"{OF_ABSENT}{silver.absent_sql(renamed)} WHERE _absent IS NOT NULL"
    change = change_of(step)
    assert change == ExactTextChange(absent={old: new for old, new in renamed.items() if old != new})
    rows = pa.table({"_raw": pa.nulls(1, KIND), "_absent": pa.array([names], pa.list_(pa.string()))})
    expected = [new for new in renamed.values() if new is not None] or None
    assert with_text_changes(rows, [change]).column("_absent").to_pylist() == [expected]
