import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.ddl.default_values import Fill
from spark_jobs.errors import TableStopped
from spark_jobs.log.position import Position
from spark_jobs.silver import table as silver
from spark_jobs.silver.schema_evolution import require_plain, steps

AT = Position("b.000001", 4)


def raw(names: dict[str, str | None]) -> str:
    """The step by which exact texts follow their columns."""
    return f"UPDATE SET _raw = {silver.raw_sql('_raw', names)} WHERE _raw IS NOT NULL"


@pytest.mark.parametrize(
    "old, new, origins, fills, expected",
    [
        ({"a": "INT"}, {"a": "INT"}, {"a": "a"}, {}, []),
        ({"a": "INT", "b": "INT"}, {"b": "INT"}, {"b": "b"}, {}, ["DROP COLUMN `a`", raw({"a": None, "b": "b"})]),
        ({"a": "INT"}, {"x": "INT"}, {"x": "a"}, {}, ["RENAME COLUMN `a` TO `x`", raw({"a": "x"})]),
        (
            {"a": "INT", "b": "INT"},
            {"b": "INT", "a": "INT"},
            {"b": "a", "a": "b"},
            {},
            [
                "RENAME COLUMN `a` TO `_renamed_0`",
                "RENAME COLUMN `b` TO `_renamed_1`",
                "RENAME COLUMN `_renamed_0` TO `b`",
                "RENAME COLUMN `_renamed_1` TO `a`",
                raw({"a": "b", "b": "a"}),
            ],
        ),
        (
            {"a": "INT"},
            {"n": "STRING", "a": "BIGINT", "d": "DATE"},
            {"n": None, "a": "a", "d": None},
            {"n": Fill("'x'"), "d": Fill("NULL", "0000-00-00")},
            [
                "SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
                "ALTER COLUMN `a` TYPE BIGINT",
                "ADD COLUMN (`n` STRING FIRST)",
                "ADD COLUMN (`d` DATE AFTER `a`)",
                "UPDATE SET `n` = CAST('x' AS STRING)",
                f"UPDATE SET _raw = {silver.raw_with('_raw', {'d': '0000-00-00'})}",
            ],
        ),
        (
            {"a": "INT"},
            {"a": "INT", "at": "TIMESTAMP_NTZ"},
            {"a": "a", "at": None},
            {},
            [
                "SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported')",
                "ADD COLUMN (`at` TIMESTAMP_NTZ AFTER `a`)",
            ],
        ),
        (
            {"a": "INT", "b": "INT"},
            {"b": "INT", "a": "INT"},
            {"b": "b", "a": "a"},
            {},
            ["ALTER COLUMN `b` FIRST"],
        ),
        (
            {"a": "INT"},
            {"a": "STRING"},
            {"a": None},
            {},
            ["DROP COLUMN `a`", "ADD COLUMN (`a` STRING FIRST)", raw({"a": None})],
        ),
    ],
)  # fmt: skip
def test_steps_lead_from_some_columns_to_others(
    old: dict[str, str],
    new: dict[str, str],
    origins: dict[str, str | None],
    fills: dict[str, Fill],
    expected: list[str],
) -> None:
    assert steps(old, new, origins, fills) == expected


_STEP = re.compile(
    r"DROP COLUMN `(?P<drop>\w+)`|RENAME COLUMN `(?P<old>\w+)` TO `(?P<new>\w+)`|SET TBLPROPERTIES .*"
    r"|ALTER COLUMN `(?P<typed>\w+)` TYPE (?P<type>\w+)|ADD COLUMN \(`(?P<add>\w+)` (?P<kind>\w+) (?P<at>.*)\)"
    r"|ALTER COLUMN `(?P<move>\w+)` (?P<to>FIRST|AFTER .*)|UPDATE SET _raw .*"
)


def applied(columns: list[tuple[str, str, str]], step: str) -> list[tuple[str, str, str]]:
    """What a step makes of columns (name, type, identity), as Delta does it: names are compared in small letters."""
    match = _STEP.fullmatch(step)
    assert match, step
    part = match.groupdict()
    names = [name.lower() for name, _, _ in columns]

    def index(text: str) -> int:
        names = [name for name, _, _ in columns]
        return 0 if text == "FIRST" else names.index(text.removeprefix("AFTER ").strip("`")) + 1

    if part["drop"]:
        return [column for column in columns if column[0] != part["drop"]]
    if part["old"]:
        assert part["new"].lower() not in names
        return [(part["new"] if name == part["old"] else name, kind, fill) for name, kind, fill in columns]
    if part["typed"]:
        return [(name, part["type"] if name == part["typed"] else kind, fill) for name, kind, fill in columns]
    if part["add"]:
        assert part["add"].lower() not in names
        columns.insert(index(part["at"]), (part["add"], part["kind"], "new"))
    if part["move"]:
        moved = next(lake_column for lake_column in columns if lake_column[0] == part["move"])
        columns.remove(moved)
        columns.insert(index(part["to"]), moved)
    return columns


NAMES = st.lists(st.sampled_from("abcdefABCDEF"), min_size=1, max_size=6, unique_by=str.lower)


@given(NAMES, NAMES, st.randoms())
def test_any_columns_become_any_others(before: list[str], behind: list[str], generator: random.Random) -> None:
    old = dict.fromkeys(before, "INT")
    pending = generator.sample(before, len(before))
    origins = {name: pending.pop() if pending and generator.random() < 0.7 else None for name in behind}
    new = {name: generator.choice(["INT", "BIGINT"]) for name in behind}
    columns = [(name, kind, name) for name, kind in old.items()]
    for step in steps(old, new, origins, {}):
        columns = applied(columns, step)
    assert columns == [(name, kind, origins[name] or "new") for name, kind in new.items()]


def test_plain_tables_take_new_columns_alone() -> None:
    require_plain("t", ["ADD COLUMN (`n` STRING FIRST)"])
    with pytest.raises(TableStopped, match="t: DROP COLUMN `id` needs a feature of Delta"):
        require_plain("t", ["ADD COLUMN (`n` STRING FIRST)", "DROP COLUMN `id`"])


def test_of_many_columns_only_those_move_that_have_to() -> None:
    names = [f"c{at}" for at in range(50)]
    old = dict.fromkeys(names, "INT")
    retired = {name: f"_{name}_until_1_4" for name in ("c3", "c7")}
    new = old | dict.fromkeys(retired.values(), "INT")
    origins = {name: None if name in retired else name for name in names} | {new: old for old, new in retired.items()}
    assert [step for step in steps(old, new, origins, {}) if not step.startswith("UPDATE")] == [
        "RENAME COLUMN `c3` TO `_c3_until_1_4`",
        "RENAME COLUMN `c7` TO `_c7_until_1_4`",
        "ADD COLUMN (`c3` INT AFTER `c2`)",
        "ADD COLUMN (`c7` INT AFTER `c6`)",
        "ALTER COLUMN `_c3_until_1_4` AFTER `c49`",
        "ALTER COLUMN `_c7_until_1_4` AFTER `_c3_until_1_4`",
    ]
