import os
import signal
import time
from dataclasses import dataclass

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.errors import DecodeError, LostRace, TableStopped
from spark_jobs.pipeline.tables_at_once import each_table
from spark_jobs.text.remedies import advised

ORDERS, LINES, AUDIT = (TableName("shop", table) for table in ("orders", "lines", "audit"))


@dataclass(frozen=True)
class Item:
    name: TableName


def test_what_one_table_raises_stops_that_table_alone() -> None:
    def work(item: Item) -> str:
        if item.name == LINES:
            raise TableStopped("no key")
        if item.name == AUDIT:
            raise DecodeError("bad bytes")
        return item.name.table

    stopped: dict[TableName, str] = {}
    assert each_table([Item(LINES), Item(ORDERS), Item(AUDIT)], work, stopped) == ["orders"]
    assert stopped == {
        LINES: advised(TableStopped("no key"), table=LINES),
        AUDIT: advised(DecodeError("bad bytes"), table=AUDIT),
    }
    assert f"--table {AUDIT} (" in stopped[AUDIT]


def test_a_lost_race_is_raised_when_the_others_are_done() -> None:
    names: list[TableName] = []

    def work(item: Item) -> None:
        if item.name == LINES:
            raise LostRace("another run was first")
        names.append(item.name)

    stopped: dict[TableName, str] = {}
    with pytest.raises(LostRace, match="another run was first"):
        each_table([Item(LINES), Item(ORDERS)], work, stopped)
    assert (names, stopped) == ([ORDERS], {}), "nothing is wrong with the table"


def test_an_error_of_ours_is_not_taken_for_a_table_s() -> None:
    def work(_: Item) -> None:
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        each_table([Item(ORDERS)], work, {})


def test_an_interrupt_does_not_wait_for_the_tables_that_have_not_begun() -> None:
    started: list[TableName] = []

    def work(item: Item) -> None:
        started.append(item.name)
        if len(started) == 5:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)

    tables = [TableName("shop", f"t{number}") for number in range(40)]
    with pytest.raises(KeyboardInterrupt):
        each_table([Item(table) for table in tables], work, {})
    assert len(started) < 12, "those that had begun end, and the rest waits for the next run"
