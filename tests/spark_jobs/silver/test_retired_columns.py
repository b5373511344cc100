import pytest

from spark_jobs.log.position import Position
from spark_jobs.silver.retired_columns import RetiredColumn, name_of, renamed_through, restarts_of, types_of

HERE, LATER = Position("b.000042", 1337), Position("b.000043", 4)
V1, V2, D = (
    RetiredColumn("_v_1", "INT", "v", HERE),
    RetiredColumn("_v_2", "STRING", "v", LATER),
    RetiredColumn("_d", "DATE", None, HERE),
)


@pytest.mark.parametrize(
    "at, names, name",
    [
        (HERE, (), "_V_until_42_1337"),
        (Position("b.000001", 4), (), "_V_until_1_4"),
        (Position("b.000042", 1337, 2), (), "_V_until_2_42_1337"),
        (HERE, {"_v_until_42_1337", "_v_until_42_1337_2"}, "_V_until_42_1337_3"),
    ],
)
def test_a_name_that_nobody_has(at: Position, names: set[str], name: str) -> None:
    assert name_of("V", at, names) == name


def test_notes_hold_all_of_them() -> None:
    assert [RetiredColumn.from_note(column.to_note()) for column in (V1, V2, D)] == [V1, V2, D]
    assert types_of((V1, D)) == {"_v_1": "INT", "_d": "DATE"}


def test_columns_are_followed_through_renames_and_drops() -> None:
    renamed = renamed_through((V1, V2, D), {"v": "w", "id": "v"})
    assert [column.of for column in renamed] == ["w", "w", None]
    assert [column.of for column in renamed_through(renamed, {"id": "id"})] == [None, None, None]


def test_a_column_began_at_the_last_statement_that_changed_it_so() -> None:
    assert restarts_of((V2, V1, D)) == {"v": LATER}
