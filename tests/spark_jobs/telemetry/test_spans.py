import pytest

from spark_jobs.telemetry.spans import annotate, recorded, span


def test_a_run_has_its_parts_in_order() -> None:
    with recorded("run", verb="run") as root:
        with span("extract", layer="bronze"):
            annotate(bytes=5)
        with span("compact"), span("engine", tables=2):
            pass
    assert [(part.name, part.attributes) for part in root.parts] == [
        ("extract", {"layer": "bronze", "bytes": 5}),
        ("compact", {}),
    ]
    assert [part.name for part in root.parts[1].parts] == ["engine"]
    assert root.ended is not None
    assert root.seconds >= sum(part.seconds for part in root.parts) >= 0


def test_an_error_is_of_each_span_around_it_and_closes_them() -> None:
    with pytest.raises(ValueError, match="lost"), recorded("run") as root, span("extract"):
        raise ValueError("the connection was lost")
    assert [(part.error, part.ended is not None) for part in (root, root.parts[0])] == [
        ("the connection was lost", True)
    ] * 2


def test_a_span_of_no_run_is_seen_by_nobody() -> None:
    with span("extract") as part:
        annotate(bytes=5)
    assert (part.attributes, part.ended) == ({}, None)
