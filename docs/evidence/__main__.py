"""Writes docs/evidence.md of the records in this folder, which ``make evidence`` wrote: ``python -m docs.evidence``.

Put here: the page's text. Not here: a figure; each one is from a record (tests/evidence/__main__.py).
"""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
PAGE = FOLDER.with_suffix(".md")
Record = dict[str, Any]

_HEAD = """# Evidence

<!-- Made by `make evidence` from the records in docs/evidence: nothing here is written by hand. -->

What Stratalog promises, how each promise is tested, and what the last run of each test found. The records of these
runs are in the folder `docs/evidence` of the repository; the commands repeat them.

| promise | how it is tested | the last run | |
| --- | --- | --- | --- |
"""
_PARTS = {
    "faults": "exactly once: no change is lost or doubled, and no position moves without its data | runs of the engine "
    "on generated logs, whose calls to the file system fail, are killed, lose their answers or race, at places chosen "
    "by a seed; after each, all tables are compared with a plain model",
    "models": "the protocol of commits, deliveries and consumer groups is right | [models in TLA+](spec.md), checked "
    "by TLC in every order of steps; each guard is left out once, and TLC has to find what goes wrong",
    "mutants": "the tests notice where a guard of the code is gone | each of the guards in `tests/mutants/guards.yaml` "
    "is removed or inverted, and tests have to fail",
    "fuzz": "no input breaks the decoder | fuzzers guided by coverage change logs and JSON documents; every load of a "
    "kernel is checked",
}
"""By record the promise, and how it is tested."""


def page() -> str:
    """The page's text."""
    lines = [_HEAD]
    results = {"faults": _of_faults, "models": _of_models, "mutants": _of_mutants, "fuzz": _of_fuzz}
    records = {name: record for name in _PARTS if (record := _read(name))}
    for name, record in records.items():
        minutes = max(1, round(record["seconds"] / 60))
        run = f"{record['date']}, `{record['commit']}`, {minutes} min"
        lines.append(f"| {_PARTS[name]} | **{results[name](record)}** ({run}) | `{record['command']}` |\n")
    if faults := records.get("faults"):
        lines.append(_table_of_faults(faults))
    if mutants := records.get("mutants"):
        lines.append(_survivors(mutants))
    return "".join(lines)


def write_page() -> None:
    """Writes the page."""
    PAGE.write_text(page(), encoding="utf-8")


def _read(name: str) -> Record | None:
    file = FOLDER / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def _of_faults(record: Record) -> str:
    first, last = record["seeds"]
    wrong = len(record["wrong"])
    return (
        f"{record['faults']:,} faults in {record['scenarios']:,} scenarios of {len(record['by_layout'])} layouts, "
        f"seeds {first} to {last}: {wrong or 'none'} wrong"
    )


def _of_models(record: Record) -> str:
    refuted = sum(violated is not None for violated in record["mutants"].values())
    return (
        f"{sum(record['states'].values()):,} distinct states of {len(record['states'])} models, {record['bounds']} "
        f"bounds: {len(record['wrong']) or 'none'} wrong; {refuted} of {len(record['mutants'])} mutants refuted"
    )


def _of_mutants(record: Record) -> str:
    killers = record["killers"]
    return f"{len(killers) - len(record['wrong'])} of {len(killers)} mutants killed"


def _of_fuzz(record: Record) -> str:
    counts = ", ".join(f"{count:,} of {target}" for target, count in record["executions"].items())
    return f"{counts}: {len(record['wrong']) or 'nothing'} found"


def _table_of_faults(record: Record) -> str:
    kinds = "".join(f"| {kind} | {count:,} |\n" for kind, count in record["by_kind"].items())
    layouts = "".join(f"| {layout} | {count:,} |\n" for layout, count in record["by_layout"].items())
    wrong = "".join(f"- {text}\n" for text in record["wrong"])
    return (
        f"\n## Faults\n\n| kind | injected |\n| --- | --- |\n{kinds}\n| tables | faults |\n| --- | --- |\n{layouts}"
        + (f"\nWrong:\n\n{wrong}" if wrong else "")
    )


def _survivors(record: Record) -> str:
    names = "".join(f"- {promise}\n" for promise in record["wrong"])
    return f"\n## Mutants that no test noticed\n\n{names}" if names else ""


if __name__ == "__main__":
    write_page()
