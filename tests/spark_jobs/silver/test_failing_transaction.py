"""The transaction that a table stops at, in slices of several transactions."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from spark_jobs.binlog import Decoder
from spark_jobs.engine.silver.silver_task import OpenSlices
from spark_jobs.errors import DecodeError, TableStopped
from spark_jobs.log.position import Position
from spark_jobs.silver.failing_transaction import first_failing
from spark_jobs.silver.slice_runs import SliceRun
from tests.spark_jobs.engine.logs_of_rows import FILE, NAMES, Log, definition, log_of, works_of

SLICE_BYTES = [150, 1000, 1 << 20]


def runs_of(log: Log, folder: Path, target: int) -> Iterator[SliceRun]:
    """The slices of a table in the log, each a run. target: bytes of a slice, about."""
    works, index = works_of(log, folder, [], target)
    return OpenSlices(works[1].window.table.path).runs(index.slices_of_table(NAMES[1], works[1].window.ranges))


def decode(run: SliceRun) -> None:
    for _ in run.changes(Decoder(definition(NAMES[1]))):
        pass


@pytest.mark.parametrize("target", SLICE_BYTES)
def test_the_transaction_whose_row_is_cut_is_found(target: int, tmp_path: Path) -> None:
    log = log_of(Random(5), broken=str(NAMES[1]))
    failing = first_failing(runs_of(log, tmp_path, target), decode)
    assert failing is not None
    at, error = failing
    assert at == Position(FILE, log.starts[-2])
    assert isinstance(error, DecodeError)


@pytest.mark.parametrize("target", SLICE_BYTES)
def test_the_first_of_several_is_found(target: int, tmp_path: Path) -> None:
    log = log_of(Random(3))
    starts = {start for nth, start in enumerate(log.starts[:-1]) if any(log.changes(NAMES[1], nth, nth + 1))}
    for limit in sorted(starts):

        def stop_from(run: SliceRun, limit: int = limit) -> None:
            """Stops at rows of transactions from a position on."""
            for changes in run.changes(Decoder(definition(NAMES[1]))):
                if max(changes.offset.to_pylist()) > limit:
                    raise TableStopped("later")

        failing = first_failing(runs_of(log, tmp_path / str(limit), target), stop_from)
        assert failing is not None
        assert failing[0] == Position(FILE, limit)


def test_nothing_is_found_where_each_transaction_can_be_taken(tmp_path: Path) -> None:
    def stop_at_several(run: SliceRun) -> None:
        if (
            len({at for changes in run.changes(Decoder(definition(NAMES[1]))) for at in changes.offset.to_pylist()})
            > 50
        ):
            raise TableStopped("too many together")

    assert first_failing(runs_of(log_of(Random(3), 100), tmp_path, 1 << 20), stop_at_several) is None
