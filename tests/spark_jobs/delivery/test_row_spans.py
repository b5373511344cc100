import random

from spark_jobs.delivery.row_spans import ChangeKind, RemainingRows, RowSpan


def test_what_remains_of_a_span() -> None:
    remaining = RemainingRows(["i10-20", "i20-25", "u0-9", "i40-50"])
    span = RowSpan(ChangeKind.INSERT, 0, 60)
    assert [*map(str, remaining.of(span))] == ["i0-10", "i25-40", "i50-60"]
    assert [*map(str, remaining.of(RowSpan(ChangeKind.INSERT, 12, 25)))] == []
    assert [*map(str, remaining.of(RowSpan(ChangeKind.UPDATE, 8, 10)))] == ["u9-10"]
    assert [*map(str, remaining.of(RowSpan(ChangeKind.DELETE, 0, 3)))] == ["d0-3"]


def test_parts_of_any_size_cover_each_row_once() -> None:
    """Rows are written in parts of changing sizes, and at random only some of them, until all are."""
    generator = random.Random(7)
    for _ in range(200):
        rows, times_written = generator.randint(1, 60), [0] * 60
        names: list[str] = []
        while min(times_written[:rows]) == 0:
            size, remaining = generator.randint(1, 9), RemainingRows(names)
            for begin in range(0, rows, size):
                for span in remaining.of(RowSpan(ChangeKind.INSERT, begin, min(rows, begin + size))):
                    if generator.random() < 0.4:
                        names.append(str(span))
                        for row in range(span.begin, span.end):
                            times_written[row] += 1
        assert set(times_written[:rows]) == {1}
