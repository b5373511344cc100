"""Codes of messages: ``SL-1042`` names a message whatever names, numbers and positions are in it.

codes.tsv has a line a code: the code, the class of the error, and the text with … for what differs; the line of a class
has no text and is the code of messages that have none of their own. ``make docs`` assigns codes to new messages, and a
code is never given to another message (docs/reference/messages.py).

Put here: which code a message has. Not here: what to do about it (remedies.py).
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from spark_jobs.errors import ConfigError, StratalogError

FILE = Path(__file__).with_name("codes.tsv")
PATTERN = re.compile(r"SL-\d{4}")
ELIDED = "…"
"""Text in place of what is known at run time alone."""
_WORDS = 3
"""Words of a text by which a message of any class has its code."""
_CODED = re.compile(r"\[SL-\d{4}\] ")


@dataclass(frozen=True, slots=True)
class MessageCode:
    """A line of codes.tsv.

    Attributes:
        code: ``SL-`` and four digits.
        cls: name of the class in spark_jobs/errors.py; empty for a message that there is no more.
        text: the message with … for what differs; empty for all others of the class.
    """

    code: str
    cls: str
    text: str

    @property
    def size(self) -> int:
        """Characters that a message has to have."""
        return len(self.text.replace(ELIDED, ""))

    def fits(self, message: str) -> bool:
        """True if a message, with single blanks, has the parts of the text in their order."""
        at = 0
        for part in self.text.split(ELIDED):
            at = message.find(part, at)
            if at < 0:
                return False
            at += len(part)
        return True


@cache
def catalogue() -> tuple[MessageCode, ...]:
    """All codes in their order."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    return tuple(MessageCode(*line.split("\t")) for line in lines)


def as_markdown(text: str) -> str:
    """The text of a message as code in Markdown, whatever backticks it has."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def code_of(error: StratalogError | type[StratalogError], text: str | None = None) -> str:
    """The code of the longest message of the catalogue that an error's text contains, else the code of its class.

    Errors pass texts on, so the class decides only between messages of one length, and where no message fits. A message
    of one or two words is looked for in errors of its own class alone, since many texts contain it.
    text: takes the place of the error's own.
    """
    cls = error if isinstance(error, type) else type(error)
    message = " ".join((str(error) if text is None else text).split())
    names = [ancestor.__name__ for ancestor in cls.__mro__]
    fitting = [
        code
        for code in catalogue()
        if code.text and (code.cls in names or len(code.text.split()) >= _WORDS) and code.fits(message)
    ]
    if fitting:
        return max(fitting, key=lambda code: (code.size, code.cls == cls.__name__)).code
    return next(code.code for name in names for code in catalogue() if code.cls == name and not code.text)


def coded(text: str, error: StratalogError | type[StratalogError]) -> str:
    """A message after its code; each problem of a configuration, which is a line, has one.

    The code is not at the end, where a message may have a statement to copy.
    """
    if isinstance(error, ConfigError):
        problems = (f"{key}: {line}" if key else line for key, line in error.problems.items())
        return "\n".join(_with(problem, code_of(ConfigError, problem)) for problem in problems)
    return _with(text, code_of(error))


def _with(text: str, code: str) -> str:
    return text if _CODED.search(text) else f"[{code}] {text}"


def codes_in(text: str) -> list[str]:
    """The codes of a text that was reported, in order."""
    return re.findall(r"\[(SL-\d{4})\]", text)


def uncoded(text: str) -> str:
    """A reported text without codes, as a part of a message that has a code of its own."""
    return _CODED.sub("", text)
