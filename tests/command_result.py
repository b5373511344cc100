"""Output and exit status of a command. Not here: running commands (fix_cli.py, cluster/ways.py)."""

import re
from dataclasses import dataclass, field

_CODE = re.compile(r"\[(SL-\d{4})\] ")


@dataclass(frozen=True)
class CommandResult:
    """Output and exit status. err: standard error without the codes of messages, which are in codes."""

    status: int
    out: str
    err: str
    codes: tuple[str, ...] = field(default=(), compare=False)


def without_codes(text: str) -> str:
    """Messages without their codes, which tests of their texts say nothing of."""
    return _CODE.sub("", text)


def codes_of(text: str) -> tuple[str, ...]:
    """The codes of a text's messages, in order."""
    return tuple(_CODE.findall(text))
