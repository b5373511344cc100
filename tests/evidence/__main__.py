"""Runs what the page of evidence is about, and writes what came of it: ``make evidence``.

    python -m tests.evidence faults [FAULTS [SEED]]    injected faults, over all layouts
    python -m tests.evidence models [small|full]       states of the models, and their mutants
    python -m tests.evidence mutants [PART OF A NAME]  guards of the code taken away
    python -m tests.evidence fuzz [SECONDS]            executions of each fuzzer

Each writes a record in docs/evidence, with the date, the commit and the command, and then the page. Exits with 1 where
something was wrong, which is in the record too.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from docs.evidence.__main__ import FOLDER, write_page
from tests.evidence.records import ROOT, Record, faults, fuzz, models, mutants
from tests.mutants.__main__ import say

PARTS: dict[str, Callable[..., Record]] = {"faults": faults, "models": models, "mutants": mutants, "fuzz": fuzz}


def main(arguments: Sequence[str]) -> int:
    """Runs one part, writes its record and the page. Returns the exit status."""
    name, *rest = arguments
    began, commit = time.monotonic(), _commit()
    record = PARTS[name](*rest)
    record |= {
        "command": " ".join(["python -m tests.evidence", *arguments]),
        "commit": commit,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "seconds": round(time.monotonic() - began),
    }
    (FOLDER / f"{name}.json").write_text(f"{json.dumps(record, indent=1, ensure_ascii=False)}\n", encoding="utf-8")
    write_page()
    say("\n".join([f"{name}: {record['seconds']:,} s", *map(str, record["wrong"])]))
    return 1 if record["wrong"] else 0


def _commit() -> str:
    """The commit that is checked out; with a sign where files differ from it."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--exclude=*", "--abbrev=12"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return described.stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
