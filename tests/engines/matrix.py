"""The tables of docs/query-engines.md: ``python -m tests.engines.matrix``, by ``make test-engines``.

Put here: running the engines, and the page. Not here: what they are asked (lake.py), or how (read.py).

Each cell is a query whose rows are compared with those of the project's own reader. An engine that cannot be had is
"not run", with the reason. ENGINES names some of them: the page then keeps the lines of the others.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Self

from spark_jobs.errors import ConfigError
from spark_jobs.runtime.provision import delta_jars, made_once
from tests.engines import trino_server
from tests.engines.lake import Question, questions

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "query-engines.md"
RESULTS = Path(__file__).with_name("results.json")
LOCK = ROOT / "requirements-engines.txt"
READ = Path(__file__).with_name("read.py")
ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
"""Iceberg has none for Spark 4.2 yet; requirements-engines.in names the Spark that it is for."""
BEGIN, END = "<!-- make test-engines writes what follows -->", "<!-- to here -->"
ENGINES = {
    "spark_delta": "Spark with Delta Lake",
    "deltalake": "deltalake, `QueryBuilder`",
    "deltalake_pyarrow": "deltalake, `to_pyarrow_table`",
    "polars_delta": "Polars, `scan_delta`",
    "duckdb_delta": "DuckDB, `delta_scan`",
    "clickhouse_delta": "ClickHouse, `deltaLakeLocal`",
    "trino_delta": "Trino, Delta Lake connector",
    "spark_iceberg": "Spark with Iceberg",
    "pyiceberg": "pyiceberg",
    "polars_iceberg": "Polars, `scan_iceberg`",
    "duckdb_iceberg": "DuckDB, `iceberg_scan`",
    "clickhouse_iceberg": "ClickHouse, `icebergLocal`",
    "trino_iceberg": "Trino, Iceberg connector",
}
YES, WRONG, NO = "yes", "**wrong**", "refuses"
_LONGEST = 160


@dataclass
class Line:
    """Results of an engine: its version, and by question a word and what the engine said."""

    version: str
    cells: dict[str, tuple[str, str]]


def environment() -> Path:
    """Python with the engines that are packages, from the locked requirements. Raises ConfigError."""
    uv = str(Path(sys.executable).with_name("uv"))

    def install(folder: Path) -> None:
        command = [uv, "venv", "--quiet", "--relocatable", "--python", sys.executable, str(folder / "env")]
        subprocess.run(command, check=True)
        command = [uv, "pip", "install", "--quiet", "--no-deps", "--require-hashes", "-r", str(LOCK)]
        python = ["--python", str(folder / "env" / "bin" / "python")]
        result = subprocess.run([*command, *python], capture_output=True, text=True, check=False)
        if result.returncode:
            raise ConfigError(f"the engines were not installed: {result.stderr.strip()[-300:]}")

    version = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]
    return made_once(f"engines-{version}", install) / "env" / "bin" / "python"


def iceberg_jar() -> Path:
    """Iceberg's runtime for the Spark of the locked requirements: 48 MB. Raises ConfigError."""
    maven, (group, artifact, version) = shutil.which("mvn"), ICEBERG.split(":")

    def fetch(folder: Path) -> None:
        if maven is None:
            raise ConfigError("Iceberg's runtime for Spark is fetched by mvn, which is not on the PATH")
        command = [maven, "-q", "-B", "dependency:copy", f"-Dartifact={group}:{artifact}:{version}"]
        result = subprocess.run([*command, f"-DoutputDirectory={folder}"], capture_output=True, text=True, check=False)
        if result.returncode:
            raise ConfigError(f"Iceberg's runtime for Spark was not fetched: {result.stdout.strip()[-300:]}")

    return made_once(f"{artifact}-{version}", fetch) / f"{artifact}-{version}.jar"


class Servers:
    """Servers that engines need, started once at first use, until the ``with`` block ends."""

    def __init__(self, lake: Path, scratch: Path) -> None:
        self.lake, self.scratch = lake, scratch
        self._stack = ExitStack()

    @cached_property
    def trino(self) -> trino_server.Trino:
        server = self._stack.enter_context(trino_server.Trino(self.scratch / "trino", self.lake))
        server.wait()
        return server

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def interpreter_of(engine: str, servers: Servers) -> tuple[str, Mapping[str, str]]:
    """The Python in which an engine is asked, and variables of its environment. Raises ConfigError."""
    if engine == "spark_delta":
        return sys.executable, {"ENGINE_JARS": ",".join(map(str, delta_jars()))}
    if engine == "spark_iceberg":
        return str(environment()), {"ENGINE_JARS": str(iceberg_jar())}
    return str(environment()), {"ENGINE_PORT": str(servers.trino.port)} if engine.startswith("trino") else {}


def asked(engine: str, servers: Servers, all_questions: list[Question]) -> Line:
    """The line of an engine. Raises ConfigError where it cannot be had."""
    python, variables = interpreter_of(engine, servers)
    log = servers.scratch / f"{engine}.log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [python, str(READ), engine],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=servers.lake,  # ClickHouse reads no files outside
            env={**os.environ, **variables, "PYTHONWARNINGS": "ignore"},
        )
        text = "".join(json.dumps(question.request) + "\n" for question in all_questions)
        output, _ = process.communicate(text)
    lines = [json.loads(line) for line in output.splitlines()]
    if not lines:
        raise ConfigError(f"{ENGINES[engine]} did not start: {log.read_text()[-300:]}")
    lines += [{"error": "the engine ended"}] * (len(all_questions) + 1 - len(lines))
    cells = {
        question.name: _cell_of(question, answer) for question, answer in zip(all_questions, lines[1:], strict=True)
    }
    return Line(lines[0], cells)


def _cell_of(question: Question, answer: dict[str, object]) -> tuple[str, str]:
    if "error" in answer:
        return NO, " ".join(str(answer["error"]).split())
    rows = answer["rows"]
    if rows == question.expected:
        return YES, ""
    assert isinstance(rows, list)
    differing = [(row, wanted) for row, wanted in zip(rows, question.expected, strict=False) if row != wanted]
    first = f"; the first that differs is {differing[0][0]} for {differing[0][1]}" if differing else ""
    return WRONG, f"{len(rows)} rows for {len(question.expected)}{first}"


def page_of(lines: Mapping[str, Line], all_questions: list[Question]) -> str:
    """The tables in Markdown: features, types, and what engines said."""
    parts, notes = [], dict[str, str]()
    for kind, title in (("feature", "Features"), ("type", "Types")):
        listed = [question.name for question in all_questions if question.kind == kind]
        parts += [f"### {title}", "", f"| engine | {' | '.join(_code(name, kind) for name in listed)} |"]
        parts.append(f"| --- {'| --- ' * len(listed)}|")
        for engine, line in lines.items():
            cells = [_noted(*line.cells.get(name, ("not run", "")), notes) for name in listed]
            parts.append(f"| {ENGINES[engine]} | {' | '.join(cells)} |")
        parts.append("")
    parts += ["### Versions", "", "| engine | version |", "| --- | --- |"]
    parts += [f"| {ENGINES[engine]} | {line.version} |" for engine, line in lines.items()]
    parts += ["", "What the engines said:", ""]
    parts += [f"{number}. {_escaped(text)}" for text, number in notes.items()]
    return "\n".join(parts)


def _code(name: str, kind: str) -> str:
    return f"`{name}`" if kind == "type" else name


def _noted(word: str, text: str, notes: dict[str, str]) -> str:
    if not text:
        return word
    # Paths and numbers of queries differ from run to run, and tell nothing.
    text = re.sub(r",? query_id=\w+", "", text)
    text = re.sub(r"(?:file://)?/[^\s'\"]*/(?=[\w.-]+)", "…/", text)[:_LONGEST]
    number = notes.setdefault(text, str(len(notes) + 1))
    return f"{word} ({number})"


def _escaped(text: str) -> str:
    return f"`{text.replace('`', chr(39))}`"


def main() -> int:
    """Asks the engines, and writes the page. Returns 1 if an engine answered better the last time."""
    chosen = os.environ.get("ENGINES", "").split() or [*ENGINES]
    # Each engine is asked in a process of its own; one that cannot be had has a line all the same.
    asked_now: dict[str, Line] = {}
    with tempfile.TemporaryDirectory(prefix="stratalog-engines-") as name, ExitStack() as stack:
        scratch = Path(name)
        lake = scratch / "lake"
        lake.mkdir()
        all_questions = questions(lake)
        servers = stack.enter_context(Servers(lake, scratch))
        for engine in chosen:
            try:
                asked_now[engine] = asked(engine, servers, all_questions)
            except (ConfigError, RuntimeError, TimeoutError) as error:
                asked_now[engine] = Line(f"not run: {' '.join(str(error).split())[:_LONGEST]}", {})
            words = [word for word, _ in asked_now[engine].cells.values()]
            counts = ", ".join(f"{words.count(word)} {word.strip('*')}" for word in (YES, NO, WRONG))
            sys.stdout.write(f"{ENGINES[engine]}: {asked_now[engine].version}: {counts}\n")
            sys.stdout.flush()
    # Engines that were not asked keep what they had.
    earlier = _results()
    lines = {engine: line for engine in ENGINES if (line := asked_now.get(engine) or earlier.get(engine))}
    document = {engine: {"version": line.version, "cells": line.cells} for engine, line in lines.items()}
    RESULTS.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    date = f"By `make test-engines`, last on {datetime.now(UTC):%Y-%m-%d}."
    page = f"{before}{BEGIN}\n\n{date}\n\n{page_of(lines, all_questions)}\n\n{END}{rest.partition(END)[2]}"
    PAGE.write_text(page, encoding="utf-8")
    return int(any(_is_worse(earlier.get(engine), line) for engine, line in lines.items()))


def _results() -> dict[str, Line]:
    """Results of the last time."""
    document = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return {
        engine: Line(line["version"], {name: (cell[0], cell[1]) for name, cell in line["cells"].items()})
        for engine, line in document.items()
    }


def _is_worse(earlier: Line | None, line: Line) -> bool:
    """True if what was right in the results of the last time is not any more."""
    return earlier is not None and any(
        word == YES and line.cells.get(name, (NO,))[0] != YES for name, (word, _) in earlier.cells.items()
    )


if __name__ == "__main__":
    sys.exit(main())
