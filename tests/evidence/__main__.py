"""Runs what the page of evidence is about, and writes what came of it: ``make evidence``.

    python -m tests.evidence faults [FAULTS]               injected faults over all layouts, until there are so many
    python -m tests.evidence cascades [CHANGES [SECONDS]]  random foreign keys, until so many changes are derived
    python -m tests.evidence traces [SCENARIOS]            runs with faults, held against the models
    python -m tests.evidence models [small|full]           states of the models, and their mutants
    python -m tests.evidence mutants [PART OF A NAME]      guards of the code taken away
    python -m tests.evidence fuzz [SECONDS [TARGET…]]      executions of each fuzzer
    python -m tests.evidence hours [HOURS [SEED…]]         a follower by a clock, with all that operators have beside it
    python -m tests.evidence soak [SECONDS [SEED]]         a pipeline under load whose processes and servers die
    python -m tests.evidence corpus                        cases of the corpus that are read as their servers said

Each writes a record in docs/evidence, with the date, the commit and the command, and then the page: again and again
while it runs, so that one that is ended keeps what it has. Faults, cascades and mutants go on where the record ends; a
removed record begins again. Exits with 1 where something was wrong, which is in the record too.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from docs.evidence.__main__ import FOLDER, write_page
from tests.evidence.records import Record, cascades, corpus, faults, fuzz, hours, models, mutants, say, soak, traces
from tests.mutants.judging import ROOT

PARTS: dict[str, Callable[..., Iterator[Record]]] = {
    "models": models,
    "traces": traces,
    "faults": faults,
    "cascades": cascades,
    "mutants": mutants,
    "fuzz": fuzz,
    "hours": hours,
    "soak": soak,
    "corpus": corpus,
}


def main(arguments: Sequence[str]) -> int:
    """Runs one part, writes its record and the page. Returns the exit status."""
    name, *rest = arguments
    file, began = FOLDER / f"{name}.json", time.monotonic()
    before = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    run = {"commit": _commit(), "date": f"{datetime.now(UTC):%Y-%m-%d}"}
    run |= {"command": " ".join(["python -m tests.evidence", *arguments])}
    record = before
    for counted in PARTS[name](before, run, *rest):
        seconds = counted.pop("seconds_before", 0) + round(time.monotonic() - began)
        record = run | counted | {"seconds": seconds}
        file.write_text(f"{json.dumps(record, indent=1, ensure_ascii=False)}\n", encoding="utf-8")
        write_page()
    say("\n".join([f"{name}: {round(time.monotonic() - began):,} s", *map(str, record["wrong"])]))
    return 1 if record["wrong"] else 0


def _commit() -> str:
    """The commit that is checked out; with a sign where files that are no record differ from it."""
    described = subprocess.run(
        ["git", "describe", "--always", "--exclude=*", "--abbrev=12"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    changed = subprocess.run(
        ["git", "diff", "--quiet", "HEAD", "--", ".", ":!docs/evidence", ":!docs/evidence.md"], cwd=ROOT, check=False
    )
    return f"{described}+" if changed.returncode else described


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
