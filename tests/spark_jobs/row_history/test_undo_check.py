"""The check against a server that is a dictionary, and a script that it executes."""

import random
import re
from pathlib import Path

import pytest

from spark_jobs.row_history.trace import Selection
from spark_jobs.row_history.undo import Undo
from spark_jobs.row_history.undo_check import GuardCheck
from spark_jobs.row_history.undo_steps import UndoStep
from tests.binlogs.segment_spec import Change, Commit, Delete, Insert, Update
from tests.lakes.consumers import SOURCE, Shop
from tests.lakes.row_logs import ORDERS

Rows = dict[int, str]
_NOTE = r"CAST\(CONVERT\(`note` USING utf8mb4\) AS BINARY\) <=> CAST\('(\w+)' AS BINARY\)"


def answer(rows: Rows, query: str) -> list[tuple[object, ...]]:
    """What a server with these rows answers to a query of the check."""
    match = re.fullmatch(r"SELECT (.*) FROM `shop`.`orders` WHERE `id` = (\d+)", query)
    assert match, query
    row = rows.get(int(match[2]))
    if row is None:
        return []
    if match[1] == "1":
        return [(1,)]
    guards = [guard.rpartition(" AS ")[0] for guard in re.split(r", (?=CAST|`id`)", match[1])]
    return [tuple(_holds(int(match[2]), row, guard) for guard in guards)]


def _holds(key: int, note: str, guard: str) -> bool:
    text = re.fullmatch(_NOTE, guard)
    return text[1] == note if text else guard == f"`id` <=> {key}"


def carried_out(rows: Rows, step: UndoStep) -> bool:
    """True if a step does something, which it does to the rows."""
    # An INSERT needs its key free, an UPDATE its guards and the key that the row had.
    change = step.traced.change
    before, after = ({} if image is None else image for image in (change.before, change.after))
    old, new = (int(str(image["id"])) if image else None for image in (before, after))
    if new is None:
        assert old is not None
        if old in rows:
            return False
        rows[old] = str(before["note"]).strip('"')
        return True
    note = str(after["note"]).strip('"')
    if new not in rows or ((old is None or before["note"] != after["note"]) and rows[new] != note):
        return False
    if old is not None and old != new and old in rows:
        return False
    current = rows.pop(new)
    if old is not None:
        rows[old] = str(before["note"]).strip('"') if before["note"] != after["note"] else current
    return True


@pytest.mark.parametrize(
    "seed", [*range(10), *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(10, 30))]
)
def test_conflicts_are_the_steps_that_do_nothing(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    rows: Rows = {}
    changes: list[Change] = []
    for _ in range(25):
        key, target, note = dice.randrange(5), dice.randrange(5), dice.choice("abc")
        if key not in rows:
            rows[key] = note
            changes.append(Insert("shop.orders", (key, note)))
        elif dice.random() < 0.3:
            changes.append(Delete("shop.orders", (key, rows.pop(key))))
        elif target not in rows or target == key:
            old = rows.pop(key)
            rows[target] = note
            changes.append(Update("shop.orders", (key, old), (target, note)))
        changes.append(Commit())
    shop = Shop(tmp_path)
    shop.log([change for change in changes if not isinstance(change, Commit)] + [Commit()])
    steps = Undo.of(shop.pipeline, SOURCE, [ORDERS], Selection(), ()).steps
    # What others did since: some rows are gone, some changed, some keys taken.
    for key in range(5):
        if dice.random() < 0.3:
            rows.pop(key, None)
        elif dice.random() < 0.3:
            rows[key] = dice.choice("abc")
    conflicts = [step for step, _ in GuardCheck(lambda query: answer(rows, query)).conflicts(steps)]
    now = dict(rows)
    assert conflicts == [step for step in steps if not carried_out(now, step)]
