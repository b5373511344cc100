"""Progress lines on standard error while a benchmark is running."""

import sys


def print_progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
