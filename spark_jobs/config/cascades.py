"""Choices for child tables whose rows a server changes by a foreign key without logging it: ``on_cascade:``.

Put here: which table has which choice. Not here: which tables such keys have (ddl/unlogged_changes.py), carrying the
choice out (pipeline/cascades/unlogged_changes.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from spark_jobs.config.table_patterns import Pattern
from spark_jobs.config.values import ONE, SEVERAL, form_of, listed, mode_pattern

OnCascade = Literal["warn", "stop", "ignore", "apply"]
"""The choice for a child table."""
CascadeAction = OnCascade | Literal["apply_known"]
"""Action for a child table: the choice for it, or without a choice ``warn`` or ``apply_known``, which is ``apply``
where everything is known that it needs, and ``warn`` where not."""


class CascadeRule(BaseModel):
    """One line of ``on_cascade:``, where it is a list."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    tables: Annotated[
        tuple[Annotated[str, AfterValidator(mode_pattern)], ...], BeforeValidator(listed), Field(min_length=1)
    ]
    """A pattern of child tables, or a list of several; the last line that matches a table decides."""
    action: OnCascade
    """The choice for these tables, as ``on_cascade`` is for all tables."""


CascadeChoices = Annotated[
    Annotated[OnCascade, Tag(ONE)] | Annotated[tuple[CascadeRule, ...], Tag(SEVERAL)], Discriminator(form_of)
]
"""One choice for all tables, or a list of lines."""


@dataclass(frozen=True)
class CascadeActions:
    """The choices for all child tables: patterns in order, of which the last that matches decides.

    default: for tables that no pattern matches.
    """

    rules: tuple[tuple[Pattern, OnCascade], ...] = ()
    default: CascadeAction = "warn"

    @classmethod
    def parse(cls, value: OnCascade | Iterable[CascadeRule]) -> "CascadeActions":
        """value: as pipeline.yaml has it."""
        if isinstance(value, str):
            return cls(((Pattern("*", "*"), value),))
        return cls(tuple((Pattern.parse(text), rule.action) for rule in value for text in rule.tables))

    def of(self, schema: str, table: str) -> CascadeAction:
        """The action for a child table."""
        return self.chosen(schema, table)[0]

    def chosen(self, schema: str, table: str) -> tuple[CascadeAction, str | None]:
        """The action for a child table, and the setting that decides, as ``on_cascade: stop of the line shop.*``.

        None where no line is about it.
        """
        rules = ((pattern, action) for pattern, action in reversed(self.rules) if pattern.matches(schema, table))
        pattern, action = next(rules, (None, self.default))
        if pattern is None:
            return action, None
        is_for_all = (pattern.schema, pattern.table) == ("*", "*")
        line = "" if is_for_all else f" of the line {pattern.schema}.{pattern.table}"
        return action, f"on_cascade: {action}{line}"

    def is_derived(self, schema: str, table: str) -> bool:
        """True if changes of a child table are to be derived, where that is possible."""
        return self.of(schema, table) in ("apply", "apply_known")
