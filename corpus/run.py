"""Runs readers over the corpus and writes what came of it: python -m corpus.run [READER …].

Writes ``results.json`` and, from it, the tables of docs/cases.md. A reader that cannot be run here keeps its results;
the exit status is 1 then.

Put here: starting readers, results, tables. Not here: which values are equal (judge.py), what readers print (readers/).
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

from corpus.judge import RAW, REFUSED, RIGHT, WRONG, Output, judge

HERE = Path(__file__).parent
CASES, READERS, RESULTS = HERE / "cases", HERE / "readers", HERE / "results.json"
PAGE = HERE.parent / "docs" / "cases.md"
BUILD = HERE.parent / "build" / "corpus"
BEGIN, END = "<!-- corpus: begin -->", "<!-- corpus: end -->"
WORDS = {RIGHT: "right", RAW: "as logged", REFUSED: "refused", WRONG: "**wrong**"}

Outputs: TypeAlias = dict[str, Output]
"""By name of a case."""
Results: TypeAlias = dict[str, dict[str, Any]]


def cases() -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(CASES.glob("*.json"))}


class NotHere(Exception):
    """A reader cannot be run here: what it is built with, or a server that it reads from, is missing."""


@dataclass(frozen=True, slots=True)
class Program:
    """A reader that is a program: it is given files, and prints lines. build: the commands that make it."""

    name: str
    version: str
    command: tuple[str, ...]
    build: tuple[tuple[str, ...], ...] = ()
    leaves_out: str = ""
    """A word in the names of cases that it cannot be given."""

    def outputs(self, wanted: Mapping[str, Any]) -> Outputs:
        """What it prints of all cases. A file at which the program itself dies counts as refused. Raises NotHere."""
        for command in self.build:
            try:
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            except (OSError, subprocess.CalledProcessError) as error:
                raise NotHere(str(error)) from error
        by_file: dict[str, Output] = {}
        remaining = [CASES / file for case in wanted.values() for file in case["files"]]
        while remaining:
            process = subprocess.run(
                [*self.command, *map(str, remaining)],
                capture_output=True,
                check=False,
                env=os.environ | {"TZ": "UTC", "PYTHONPATH": str(HERE.parent)},
            )
            printed = dict(outputs_by_file(process.stdout.decode().splitlines()))
            if not printed:
                raise NotHere(process.stderr.decode(errors="replace")[-2000:].strip())
            by_file |= printed
            remaining = [file for file in remaining if file.name not in by_file]
        return {name: joined([by_file[file] for file in case["files"]]) for name, case in wanted.items()}


def outputs_by_file(lines: list[str]) -> Iterator[tuple[str, Output]]:
    """The output of each file, whose last line is an error where the program ended inside of it."""
    name, output, is_whole = "", Output(), True
    for line in map(json.loads, lines):
        if "file" in line:
            name, output, is_whole = line["file"], Output(error="the program ended"), False
        elif "statement" in line:
            output.statements.append(line["statement"])
        elif "table" in line:
            output.changes.append(line)
        else:
            output.error, is_whole = line.get("error"), True
            yield name, output
    if not is_whole:
        yield name, output


def joined(parts: list[Output]) -> Output:
    """The output of files that follow each other, up to the first error."""
    merged = Output()
    for part in parts:
        merged.changes += part.changes
        merged.statements += part.statements
        if part.error is not None:
            merged.error = part.error
            break
    return merged


@dataclass(frozen=True, slots=True)
class Here:
    """Stratalog itself, in this process."""

    name: str = "Stratalog"
    version: str = "this tree"
    leaves_out: str = ""

    def outputs(self, wanted: Mapping[str, Any]) -> Outputs:
        from corpus.readers.stratalog import read

        return {name: read([CASES / file for file in case["files"]]) for name, case in wanted.items()}


def pinned(path: Path, pattern: str) -> str:
    match = re.search(pattern, path.read_text(encoding="utf-8"))
    assert match, f"{path} names no version"
    return match[1]


def readers() -> list[Program | Here]:
    folder, program = READERS / "go-mysql", BUILD / "go-mysql"
    return [
        Here(),
        Program(
            "go-mysql",
            pinned(folder / "go.mod", r"go-mysql-org/go-mysql v([\d.]+)"),
            (str(program),),
            (("go", "-C", str(folder), "build", "-o", str(program), "."),),
        ),
        *(java(*names) for names in JAVA),
        Program(
            "python-mysql-replication",
            version("mysql-replication"),
            (sys.executable, str(READERS / "python_mysql_replication.py")),
            leaves_out="damaged",
        ),
    ]


JAVA = (("mysql-binlog-connector-java", "Connector"), ("canal", "Canal"))
"""Readers in Java: the folder's name, and the program's."""


def java(name: str, program: str) -> Program:
    folder, jars = READERS / name, BUILD / name
    copy = ("mvn", "-q", "-B", "-f", str(folder / "pom.xml"), "dependency:copy-dependencies")
    return Program(
        name,
        pinned(folder / "pom.xml", r"<version>([\d.]+)</version>\s*</dependency>"),
        ("java", "-cp", f"{jars}/*", str(folder / f"{program}.java")),
        ((*copy, f"-DoutputDirectory={jars}"),),
    )


def results_of(reader: Program | Here, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Counts of the verdicts, and each that is not right."""
    wanted = {name: case for name, case in wanted.items() if not reader.leaves_out or reader.leaves_out not in name}
    outputs = reader.outputs(wanted)
    verdicts = {name: judge(case, outputs[name]) for name, case in wanted.items()}
    return {
        "version": reader.version,
        "cases": len(verdicts),
        **({"leaves_out": reader.leaves_out} if reader.leaves_out else {}),
        "counts": dict(sorted(Counter(verdict.verdict for verdict in verdicts.values()).items())),
        "not_right": {name: verdict.as_json() for name, verdict in verdicts.items() if verdict.verdict != RIGHT},
    }


def tables(results: Results, known: Mapping[str, Any]) -> str:
    """The tables of docs/cases.md."""
    lines = [
        "",
        "| reader | version | cases | right | as logged | refused | silently wrong |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, result in results.items():
        counts = result["counts"]
        numbers = " | ".join(str(counts.get(verdict, 0)) for verdict in WORDS)
        lines.append(f"| {name} | {result['version']} | {result['cases']} | {numbers} |")
    lines += ["", f"| case | servers | {' | '.join(results)} |", f"| --- | --- |{' --- |' * len(results)}"]
    for script, names in by_script(known).items():
        cells = [
            "" if result.get("leaves_out", " ") in script else cell(names, result["not_right"])
            for result in results.values()
        ]
        lines.append(f"| {script} | {', '.join(map(server_of, names))} | {' | '.join(cells)} |")
    lines += ["", *wrong_values(results, known), ""]
    return "\n".join(lines)


def server_of(name: str) -> str:
    vendor, version = name.split("-")[:2]
    return {"mysql": "MySQL", "mariadb": "MariaDB"}[vendor] + f" {version}"


def by_script(names: Mapping[str, Any]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name in sorted(names, key=lambda name: (name.split("-", 2)[2], name)):
        groups.setdefault(name.split("-", 2)[2], []).append(name)
    return groups


def cell(names: list[str], not_right: Mapping[str, Any]) -> str:
    """One verdict, or several with their servers."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(not_right.get(name, {"verdict": RIGHT})["verdict"], []).append(server_of(name))
    if len(groups) == 1:
        return WORDS[next(iter(groups))]
    return "; ".join(f"{WORDS[verdict]}: {', '.join(servers)}" for verdict, servers in groups.items())


def wrong_values(results: Results, known: Mapping[str, Any]) -> list[str]:
    """A line for each reader and script with a wrong value: the first of them, and where its expectation comes from."""
    lines = ["| reader | case | first wrong value | expected by |", "| --- | --- | --- | --- |"]
    for reader, result in results.items():
        for names in by_script(known).values():
            wrong = [name for name in names if result["not_right"].get(name, {}).get("verdict") == WRONG]
            if wrong:
                reason = (
                    result["not_right"][wrong[0]]["reasons"][0]
                    .replace("|", "\\|")
                    .replace("<", "\\<")
                    .replace("`", "'")
                )
                lines.append(f"| {reader} | `{wrong[0]}` | `{reason}` | {source_of(known[wrong[0]])} |")
    return lines


def source_of(case: Mapping[str, Any]) -> str:
    if "base" in case:
        return f"the change of the bytes ({case['outcome'].partition(': ')[2]})"
    if "binlog_row_image" in case["settings"]:
        return "the server's SELECT, and its manual for which columns are logged"
    return "the server's SELECT" if case["outcome"] == "read" else "the server's own log format"


def update_page(results: Results) -> None:
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{tables(results, cases())}{END}{after}", encoding="utf-8")


def main(names: list[str]) -> int:
    BUILD.mkdir(parents=True, exist_ok=True)
    results: Results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}
    known, status = cases(), 0
    for reader in readers():
        if names and reader.name not in names:
            continue
        try:
            results[reader.name] = results_of(reader, known)
            sys.stdout.write(f"{reader.name} {reader.version}: {results[reader.name]['counts']}\n")
        except NotHere as error:
            sys.stderr.write(f"{reader.name} {reader.version}: not run, its results stay: {error}\n")
            status = 1
    order = [reader.name for reader in readers()]
    results = {name: results[name] for name in order if name in results}
    RESULTS.write_text(json.dumps(results, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    update_page(results)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
