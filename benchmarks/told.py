"""What is said on standard error while a benchmark is under way."""

import sys


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
