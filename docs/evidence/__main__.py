"""Writes docs/evidence.md of the records in this folder, which ``make evidence`` wrote: ``python -m docs.evidence``.

Put here: the page's text. Not here: a figure; each one is from a record (tests/evidence/__main__.py).
"""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
PAGE = FOLDER.with_suffix(".md")
FINDINGS = FOLDER / "findings.json"
"""What these tests found, written down by whoever mended it: what was wrong, what showed it, the test that has it."""
Record = dict[str, Any]

_HEAD = """# Evidence

<!-- Made by `make evidence` from the records in docs/evidence: nothing here is written by hand. -->

This page lists Stratalog's promises, how each is tested, and the result of the last run of each test. The records of
these runs are in the folder `docs/evidence` of the repository; the commands repeat them. A commit with a plus sign had
files that differed from it.

| promise | how it is tested | the last run | |
| --- | --- | --- | --- |
"""
_PARTS = {
    "models": "the protocol of commits, deliveries and consumer groups is right | [models in TLA+](spec.md), checked "
    "by TLC in every order of steps; each guard is left out once, and TLC has to find what goes wrong",
    "traces": "the code does what the models do | [traces](spec.md#traces-of-runs) of runs with faults, of tables, "
    "consumer groups and deliveries, are followed by the models event by event",
    "faults": "exactly once: no change is lost or doubled, and no position moves without its data | the engine, "
    "deliveries and consumer groups run on generated logs; at points chosen by a seed, calls to the file system fail "
    "or lose their answer, and processes are killed or race; after each, all tables are compared with a plain model",
    "cascades": "what foreign keys do to child rows is derived as the server did it | pipelines over random schemas of "
    "two to six tables with [foreign keys](cascades.md), random transactions, statements about "
    "tables, runs that are killed, and replays; after each run every row of every table is compared with the server's",
    "hours": "the same over hours, in which log expires and files are removed | a follower's runs each "
    "ten seconds of a clock, with deliveries, a consumer, gc, maintenance and backfills beside it, a third of them "
    "with faults; each minute, tables of all modes, and in each sixth seed mirrors alone, whose old windows are "
    "folded, are compared with a plain model, each hour the target and the consumer's changes too",
    "soak": "the same of whole processes, servers and deliveries | writers at real servers, while runs, JVMs, servers, "
    "targets and connections die at random moments; then all rows are compared with the source's",
    "mutants": "the tests notice where a guard of the code is gone | each of the guards in `tests/mutants/guards.yaml` "
    "is removed or inverted, and tests have to fail",
    "fuzz": "no input breaks what reads it | fuzzers guided by coverage, each with its corpus in `tests/fuzz/corpus`; "
    "of kernels every load is checked",
    "corpus": "logs are read as their servers meant them | the [corpus](cases.md), which other projects can run: small "
    "logs of real servers, with what each server said of them",
}
"""By record the promise, and how it is tested."""


def page() -> str:
    """The page's text."""
    lines = [_HEAD]
    results = {
        "faults": _of_faults,
        "cascades": _of_cascades,
        "models": _of_models,
        "traces": _of_traces,
        "mutants": _of_mutants,
        "fuzz": _of_fuzz,
        "hours": _of_hours,
        "soak": _of_soak,
        "corpus": _of_corpus,
    }
    records = {name: record for name in _PARTS if (record := _read(name))}
    for name, record in records.items():
        minutes = max(1, round(record["seconds"] / 60))
        run = f"{record['date']}, `{record['commit']}`, {minutes:,} min"
        lines.append(f"| {_PARTS[name]} | **{results[name](record)}** ({run}) | `{record['command']}` |\n")
    missing = [name for name in _PARTS if name not in records]
    if missing:
        lines.append(f"\nWithout a record so far: {', '.join(missing)}.\n")
    details = {
        "faults": _table_of_faults,
        "cascades": _table_of_cascades,
        "hours": _table_of_hours,
        "soak": _table_of_soak,
        "mutants": _table_of_mutants,
        "fuzz": _table_of_fuzzers,
    }
    lines += [details[name](records[name]) for name in details if name in records]
    lines.append(_findings())
    return "".join(lines)


def write_page() -> None:
    """Writes the page."""
    PAGE.write_text(page(), encoding="utf-8")


def _read(name: str) -> Record | None:
    file = FOLDER / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def _of_faults(record: Record) -> str:
    (first, last), wrong, mended = record["seeds"], len(record["wrong"]), len(record.get("mended", []))
    return (
        f"{record['faults']:,} faults in {record['scenarios']:,} scenarios of {len(record['by_layout'])} layouts, "
        f"seeds {first} to {last}: {wrong or 'none'} wrong"
        + (f", {mended} more when they were played, and right since" if mended else "")
    )


def _of_cascades(record: Record) -> str:
    first, last = record["seeds"]
    servers = sum(bool(counted) for counted in record["by_server"].values())
    return (
        f"{record['parents']:,} updates and deletes of parents, {record['derived']:,} changes derived, with "
        f"{servers} of {len(record['by_server'])} kinds of servers, seeds {first} to {last}: "
        f"{len(record['wrong']) or 'none'} wrong"
    )


def _of_models(record: Record) -> str:
    refuted = sum(violated is not None for violated in record["mutants"].values())
    return (
        f"{sum(record['states'].values()):,} distinct states of {len(record['states'])} models, {record['bounds']} "
        f"bounds: {len(record['wrong']) or 'none'} wrong; {refuted} of {len(record['mutants'])} mutants refuted"
    )


def _of_traces(record: Record) -> str:
    counts = ", ".join(f"{count:,} of {name}" for name, count in record["traces"].items())
    return (
        f"{sum(record['traces'].values()):,} traces, {counts}, with {sum(record['events'].values()):,} events: "
        f"{len(record['wrong']) or 'none'} refused"
    )


def _of_mutants(record: Record) -> str:
    guards = record["guards"]
    killed = sum(entry["killer"] is not None for entry in guards.values())
    waiting = len(record["wrong"]) - (len(guards) - killed)
    percent = 100 * killed / max(1, len(guards))
    share = f"{killed} of {len(guards) + waiting} guards are noticed ({percent:.0f} % of those judged)"
    rest = {"are not": len(guards) - killed, "not judged yet": waiting}
    return "; ".join([share, *(f"{count} {text}" for text, count in rest.items() if count)])


def _of_fuzz(record: Record) -> str:
    executed = sum(entry["executions"] for entry in record["targets"].values())
    found = len(record["wrong"])
    return f"{executed:,} executions of {len(record['targets'])} targets: {found or 'nothing'} found"


def _of_soak(record: Record) -> str:
    accounts = record["accounts"].values()
    faults = sum(sum(account["faults"].values()) for account in accounts)
    rows, lost, doubled = (sum(account[name] for account in accounts) for name in ("rows", "missing", "doubled"))
    return (
        f"{faults:,} faults in {len(accounts)} × {record['seconds_each'] / 60:.0f} min, seed {record['seed']}: "
        f"{rows:,} rows compared, {lost} lost, {doubled} doubled; {len(record['wrong']) or 'none'} wrong"
    )


def _of_hours(record: Record) -> str:
    scenarios = record["scenarios"].values()
    runs, consumed, delivered = (
        sum(scenario[of].get(name, 0) for scenario in scenarios)
        for of, name in (("processes", "run"), ("done", "changes consumed"), ("done", "rows delivered"))
    )
    return (
        f"{sum(scenario['hours'] for scenario in scenarios):g} hours, {runs:,} runs, "
        f"{sum(sum(scenario['faults'].values()) for scenario in scenarios):,} faults, {consumed:,} changes consumed, "
        f"{delivered:,} rows delivered, seeds {', '.join(record['scenarios'])}: {len(record['wrong']) or 'none'} wrong"
    )


def _of_corpus(record: Record) -> str:
    counts = ", ".join(f"{count} {verdict}" for verdict, count in record["verdicts"].items())
    return f"{record['cases']} cases: {counts}"


def _table_of_faults(record: Record) -> str:
    kinds = "".join(f"| {kind} | {count:,} |\n" for kind, count in record["by_kind"].items())
    layouts = "".join(f"| {layout} | {count:,} |\n" for layout, count in record["by_layout"].items())
    wrong = "".join(f"- {text}\n" for text in record["wrong"])
    mended = "".join(f"- {text}\n" for text in record.get("mended", []))
    runs = "".join(
        f"| {run['date']} | `{run['commit']}` | {run['seeds'][0]} to {run['seeds'][1]} | {run['faults']:,} | "
        f"{run['seconds'] / 60:.0f} |\n"
        for run in record.get("runs", [])
    )
    return (
        f"\n## Faults\n\n| kind | injected |\n| --- | --- |\n{kinds}\n| tables | faults |\n| --- | --- |\n{layouts}"
        + (f"\n| run | commit | seeds | faults | minutes |\n| --- | --- | --- | --- | --- |\n{runs}" if runs else "")
        + (
            f"\nWrong when they were played, and right since ([findings](#what-was-found-and-mended)):\n\n{mended}"
            if mended
            else ""
        )
        + (f"\nWrong:\n\n{wrong}" if wrong else "")
    )


_CASCADE_COUNTS = (
    *("scenarios", "runs", "parents", "derived", "statements about tables", "runs that ended early"),
    *("runs that were killed", "replays", "rows compared"),
)


def _table_of_cascades(record: Record) -> str:
    rows = "".join(
        f"| {server} | {' | '.join(f'{counted.get(name, 0):,}' for name in _CASCADE_COUNTS)} |\n"
        for server, counted in record["by_server"].items()
    )
    heads = [name.replace("parents", "updates and deletes of parents") for name in _CASCADE_COUNTS]
    wrong = "".join(f"- {text}\n" for text in record["wrong"])
    runs = "".join(
        f"| {run['date']} | `{run['commit']}` | {run['seeds'][0]} to {run['seeds'][1]} | {run['derived']:,} | "
        f"{run['seconds'] / 60:.0f} |\n"
        for run in record["runs"]
    )
    return (
        f"\n## Cascades\n\n| server | {' | '.join(heads)} |\n|{' --- |' * (len(heads) + 1)}\n{rows}\n"
        f"| run | commit | seeds | derived | minutes |\n| --- | --- | --- | --- | --- |\n{runs}"
        + (f"\nWrong:\n\n{wrong}" if wrong else "")
    )


_HOURS_COUNTS = {"processes": "processes: ", "failed": "with faults: ", "faults": "faults: ", "done": ""}
"""By member of a scenario, what precedes its counts' names."""


def _table_of_hours(record: Record) -> str:
    scenarios = record["scenarios"].values()
    names = {
        (member, name): None for member in _HOURS_COUNTS for scenario in scenarios for name in sorted(scenario[member])
    }
    rows = "".join(
        f"| {_HOURS_COUNTS[member]}{name} | "
        + " | ".join(f"{scenario[member].get(name, 0):,}" for scenario in scenarios)
        + " |\n"
        for member, name in names
    )
    seeds = " | ".join(f"seed {seed}" for seed in record["scenarios"])
    wrong = "".join(f"- {text}\n" for text in record["wrong"])
    return f"\n## Hours\n\n| of | {seeds} |\n|{' --- |' * (len(scenarios) + 1)}\n{rows}" + (
        f"\nWrong:\n\n{wrong}" if wrong else ""
    )


def _table_of_soak(record: Record) -> str:
    rows = "".join(
        f"| {name} | {fault} | {count:,} |\n"
        for name, account in record["accounts"].items()
        for fault, count in account["faults"].items()
    )
    wrong = "".join(f"- {text}\n" for text in record["wrong"])
    return f"\n## Soak\n\n| of | fault | times |\n| --- | --- | --- |\n{rows}" + (
        f"\nWrong:\n\n{wrong}" if wrong else ""
    )


def _table_of_mutants(record: Record) -> str:
    rows = "".join(
        f"| {promise} | {_killer(entry['killer'])} | `{entry['commit']}` |\n"
        for promise, entry in record["guards"].items()
    )
    return f"\n## Mutants\n\n| guard that was removed | test that failed | commit |\n| --- | --- | --- |\n{rows}"


def _killer(test: str | None) -> str:
    return f"`{test.removeprefix('tests/')}`".replace("|", "\\|") if test else "**none: it survived**"


def _table_of_fuzzers(record: Record) -> str:
    rows = "".join(
        f"| {name} | {entry['executions']:,} | {entry['seconds']:,} | {len(entry['found']) or 'nothing'} | "
        f"{entry['date']}, `{entry['commit']}` |\n"
        for name, entry in record["targets"].items()
    )
    return f"\n## Fuzzers\n\n| target | executions | seconds | found | run |\n| --- | --- | --- | --- | --- |\n{rows}"


def _findings() -> str:
    findings = json.loads(FINDINGS.read_text(encoding="utf-8"))
    rows = "".join(f"| {entry['what']} | {entry['by']} | `{entry['test']}` |\n" for entry in findings)
    return (
        "\n## What was found and mended\n\nEach has a test that failed before.\n\n"
        f"| what was wrong | found by | test |\n| --- | --- | --- |\n{rows}"
    )


if __name__ == "__main__":
    write_page()
