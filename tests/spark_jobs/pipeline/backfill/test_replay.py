from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.backfill.replay import rows_of_windows

WINDOW = Range(Position("b.000007", 4), Position("b.000008", 4))
NEXT = Range(Position("b.000009", 4), Position("b.000009", 99))


def test_several_windows_are_one_condition() -> None:
    text = rows_of_windows([WINDOW, NEXT])
    assert text.count("_window_start >=") == text.count("_window_start <") == 2, "few are plain comparisons"
    assert ") OR (" in text


def test_of_the_statement_that_gave_the_name_only_inherited_rows_are_meant() -> None:
    assert rows_of_windows([WINDOW, NEXT], NEXT).count("_op = 'rename'") == 1
    assert rows_of_windows([WINDOW], NEXT) == rows_of_windows([WINDOW]), "it is none of these"
