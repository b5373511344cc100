"""Evolution of a lake table's columns to what a statement made of the source's: the steps, and their execution.

Put here: which statements of Delta lead from some columns to others, and running them so that a run may die between any
two. Not here: why columns change (table_timeline.py).

A step is what stands behind ALTER TABLE, or ``UPDATE SET …``. Every step is a commit; each names those that
are left, so that a run that finds such a head resumes there. The table's position does not move meanwhile.
"""

import re
from collections.abc import Mapping, Sequence

from spark_jobs.ddl.default_values import Fill
from spark_jobs.errors import TableStopped
from spark_jobs.silver.table import raw_sql, raw_with
from spark_jobs.text.sql import identifier

_UPDATE = "UPDATE "
FILL = f"{_UPDATE}SET `"
"""Beginning of a step that fills columns of rows that are there."""
WITH_EXACT = f"{_UPDATE}SET _raw = map_concat("
"""Beginning of a step that gives rows exact texts of new columns."""
OF_ABSENT = f"{_UPDATE}SET _absent = "
"""Beginning of a step that renames columns that rows lack."""
OF_EXACT = " WHERE _raw IS NOT NULL"
"""End of a step that is about exact texts of columns: it changes nothing where no row has any."""
_WIDENING = "SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
_WITHOUT_ZONE = "SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported')"
"""A table that is made with such a column has it by itself; one that gets it later does not."""
_NEEDS_MAPPING = ("DROP", "RENAME", "ALTER COLUMN", _WIDENING)


def steps(
    old: Mapping[str, str], new: Mapping[str, str], origins: Mapping[str, str | None], fills: Mapping[str, Fill]
) -> list[str]:
    """Steps from columns (names and types, in order) to others. origins: old names by new ones, None for new ones."""
    # Columns by their old names: what has no new name is dropped.
    new_names = {origin: name for name, origin in origins.items() if origin is not None}
    drops = [f"DROP COLUMN {identifier(name)}" for name in old if name not in new_names]
    renames = _renames(new_names)
    widened = [
        f"ALTER COLUMN {identifier(name)} TYPE {new[name]}"
        for origin, name in new_names.items()
        if old[origin] != new[name]
    ]
    # Columns as they stand after drops and renames, before the new ones are added.
    order = [new_names[name] for name in old if name in new_names]
    set_ = [f"{identifier(name)} = CAST({fill.sql} AS {new[name]})" for name, fill in fills.items() if not fill.exact]
    exact = {name: fill.exact for name, fill in fills.items() if fill.exact}
    names = {name: new_names.get(name) for name in old}
    # Exact texts have column names as keys: they change with the names.
    texts = [f"{_UPDATE}SET _raw = {raw_sql('_raw', names)}{OF_EXACT}"] if drops or renames else []
    # Table features come before the types that need them, new columns before their values.
    return [
        *drops,
        *renames,
        *([_WITHOUT_ZONE] if "TIMESTAMP_NTZ" in new.values() and "TIMESTAMP_NTZ" not in old.values() else []),
        *([_WIDENING] if widened else []),
        *widened,
        *_placement_clauses(order, new, {name for name in new if origins[name] is None}),
        *([f"{_UPDATE}SET {', '.join(set_)}"] if set_ else []),
        *texts,
        *([f"{_UPDATE}SET _raw = {raw_with('_raw', exact)}"] if exact else []),
    ]


def assignments(step: str) -> dict[str, str]:
    """The columns that a step fills, and the SQL of what each gets: the inverse of ``steps``' own text."""
    text = step.removeprefix(f"{_UPDATE}SET ")
    matches = [*_ASSIGNED.finditer(_without_texts(text))]
    ends = [*(match.start() for match in matches[1:]), len(text)]
    return {
        match[1].replace("``", "`"): text[match.end() : end].removesuffix(", ")
        for match, end in zip(matches, ends, strict=True)
    }


_ASSIGNED = re.compile(r"(?:(?<=, )|\A)`((?:[^`]|``)+)` = (?=CAST\()")
_NAME_OR_TEXT = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'", re.DOTALL)


def _without_texts(text: str) -> str:
    """The text with blanks in the place of what string literals hold."""
    return _NAME_OR_TEXT.sub(lambda match: match[0] if match[0][0] == "`" else " " * len(match[0]), text)


def _renames(new_names: Mapping[str, str]) -> list[str]:
    """Old names to new ones; where a new name is still another column's, by way of one that is nobody's."""
    moving = {old: new for old, new in new_names.items() if old != new}
    colliding = {old.casefold() for old in moving}
    aside = {old: f"_renamed_{at}" for at, (old, new) in enumerate(moving.items()) if new.casefold() in colliding}
    first = [
        f"RENAME COLUMN {identifier(old)} TO {identifier(aside.get(old, new))}"
        for old, new in _free_first(moving, aside)
    ]
    return first + [f"RENAME COLUMN {identifier(name)} TO {identifier(moving[old])}" for old, name in aside.items()]


def _free_first(moving: Mapping[str, str], aside: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted(moving.items(), key=lambda pair: pair[0] not in aside)


def _placement_clauses(order: Sequence[str], new: Mapping[str, str], added: set[str]) -> list[str]:
    """Add columns, and move as few as will do to their places; ``order``: how those that are there stand."""
    actions, stays, behind = [], _staying(order, list(new)), "FIRST"
    for name, kind in new.items():
        if name in added:
            actions.append(f"ADD COLUMN ({identifier(name)} {kind} {behind})")
        elif name not in stays:
            actions.append(f"ALTER COLUMN {identifier(name)} {behind}")
        behind = f"AFTER {identifier(name)}"
    return actions


def _staying(order: Sequence[str], new_order: Sequence[str]) -> set[str]:
    """The most columns that can stay where they are: those that stand behind one another as they are to."""
    rank = {name: at for at, name in enumerate(new_order)}
    longest: dict[str, list[str]] = {}
    for name in order:
        before = [length for previous, length in longest.items() if rank[previous] < rank[name]]
        longest[name] = [*max(before, key=len, default=[]), name]
    best: list[str] = max(longest.values(), key=len, default=[])
    return set(best)


def require_plain(path: str, statements: Sequence[str]) -> None:
    """Check that a step needs no column mapping, which tables with compat: plain lack. Raises TableStopped."""
    demanding = [statement for statement in statements if statement.startswith(_NEEDS_MAPPING)]
    if demanding:
        raise TableStopped(
            f"{path}: {demanding[0]} needs a feature of Delta that tables with compat: plain do not have"
        )
