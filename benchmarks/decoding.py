"""Decoders side by side: each reads the same logs into all column values, in turns, on one core.

Every reader is a program that reads names of files from its standard input and answers each with one line: changes,
values of all row images, the sum of all first columns, and letters: the sum of the code points of all VARCHAR values in
each table's last image. A peer that gives other numbers than ours is named and left out: it does not read that log, or
reads its text in the wrong character set. Ours are held to what was written. What counts is the processor time of the
whole process, all its threads, from question to answer: on one core of a quiet machine that is what a clock shows, and
on a busy one the others' time is not in it. Starting the program is not in it either, and programs with a just-in-time
compiler read the log until they get no faster before anything counts. Ours verifies every checksum, the peers none.

Put here: who reads, in which order, and the table. Not here: what the logs hold (shapes.py), ours.py, peers/.
"""

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from benchmarks import shapes
from benchmarks.progress_lines import print_progress
from benchmarks.shapes import Log
from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import StratalogError
from spark_jobs.runtime.provision import Artifact, jars
from tests.services.servers import build_of

ROUNDS = 15
ENOUGH = 0.25
"""Seconds of processor time that a turn takes at least, by reading the log again: the first reading after the others'
turns pays for memory that went cold meanwhile, and the faster a reader is the more that would weigh. No longer, since a
neighbour on the same core, who costs each reader a third to two thirds more time, is quiet for tenths of seconds."""
WARM_ROUNDS, WARM = 15, 3.0
"""At most so many rounds that do not count, for programs with a just-in-time compiler, but seconds of processor time at
least: Java's compiles what has run often, ours what a million rows have come of."""
CONNECTOR, CANAL = "mysql-binlog-connector-java", "canal dbsync"
GO, PYTHON = "go-mysql", "python-mysql-replication"
RARE = ("JSON", "texts", "compressed")
"""Words of shapes on which ours is to be ahead of each peer that reads them, and no more."""
PEERS = Path(__file__).parent / "peers"
JAVA_LIBRARIES = (
    Artifact(
        "com.zendesk",
        "mysql-binlog-connector-java",
        "0.30.1",
        "6f3976798fe6b4cb7f9c13f194c59508333c5761626e37b53e20c6a3fca7d14d",
    ),
    Artifact(
        "com.alibaba.otter",
        "canal.parse.dbsync",
        "1.1.7",
        "b5652e0cef5c4955c003770af4738de720a16874d8f69c96612c7748fdffb771",
    ),
    Artifact(
        "com.alibaba.otter",
        "canal.parse.driver",
        "1.1.7",
        "83a26f7612d3bc84c5230dedf2c7f9e9b2bf7ffb7173c923dfe245c5d3b46402",
    ),
    Artifact(
        "com.alibaba.otter",
        "canal.common",
        "1.1.7",
        "5a237515a307d8df5cf654f55e6f5f3582b49272d5898d9e70e525b384c84ce6",
    ),
    Artifact(
        "org.apache.commons",
        "commons-compress",
        "1.22",
        "53d04a0efc7223baecaa303bd5d298eb0600e6b82b4076f9cecd558b97ba760b",
    ),
    Artifact(
        "commons-io",
        "commons-io",
        "2.11.0",
        "961b2f6d87dbacc5d54abf45ab7a6e2495f89b75598962d8c723cea9bc210908",
    ),
    Artifact(
        "commons-lang",
        "commons-lang",
        "2.6",
        "50f11b09f877c294d56f24463f47d28f929cf5044f648661c0f0cfbae9a2f49c",
    ),
    Artifact(
        "com.github.luben",
        "zstd-jni",
        "1.5.2-5",
        "0f8e64feaa068b8a02de45e9343f9b2fc401235b81e7fe3f80b2aeba001691b2",
    ),
    Artifact(
        "org.slf4j",
        "slf4j-api",
        "1.7.12",
        "0aee9a77a4940d72932b0d0d9557793f872e66a03f598e473f45e7efecdccf99",
    ),
    Artifact(
        "org.slf4j",
        "jcl-over-slf4j",
        "1.7.12",
        "702d1b805b9fa319609f7bdd7022017919be2280b4116666aaae5a01c0b50158",
    ),
)
"""The two Java decoders and what canal's needs to read a row."""


class Missing(Exception):
    """A reader cannot run on this machine; says why."""


Numbers = tuple[int, ...]
"""Answers of a reader: changes, values, sum of first columns, letters."""


@dataclass(frozen=True, slots=True)
class Reader:
    """One program. goals: how many times faster than it ours is to be, by the first word of a shape that is common."""

    name: str
    command: tuple[str, ...]
    goals: dict[str, int] = field(default_factory=dict)
    warms: bool = False
    """True if it compiles while it runs."""
    slow: bool = False
    """Reads the sample of a log, in every fifth turn."""


class Running:
    """A reader's program, pinned to one core; one per log, so that none is tuned to another log."""

    def __init__(self, reader: Reader, core: int) -> None:
        self.reader = reader
        self.seconds: list[float] = []
        """A change, in each turn."""
        self._program = subprocess.Popen(
            ["taskset", "-c", str(core), *reader.command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._program.communicate()

    def read(self, log: Log) -> tuple[Numbers, float]:
        """(its numbers, seconds of processor time). Raises Missing where it fails."""
        assert self._program.stdin
        assert self._program.stdout
        before = self._processor_time()
        self._program.stdin.write(f"{log.path}\n")
        self._program.stdin.flush()
        numbers = tuple(map(int, self._program.stdout.readline().split()))
        if not numbers:
            raise Missing(f"{self.reader.name} fails on {log.name}: {_telling(self._program.communicate()[1])}")
        return numbers, self._processor_time() - before

    def _processor_time(self) -> float:
        """Seconds of the process, by the clock that Linux has for each (time(7), clock_getcpuclockid(3))."""
        return time.clock_gettime((~self._program.pid) << 3 | 2)

    def warm(self, log: Log) -> None:
        """Reads until the last three rounds are no faster than the ones before, and for a while."""
        seconds: list[float] = []
        while sum(seconds) < WARM or (len(seconds) < WARM_ROUNDS and _gets_faster(seconds)):
            seconds.append(self.read(log)[1])


def _gets_faster(seconds: list[float]) -> bool:
    return len(seconds) < 5 or min(seconds[-3:]) < 0.97 * min(seconds[:-3])


def own_reader() -> Reader:
    return Reader("stratalog", (sys.executable, "-m", "benchmarks.ours"), warms=True)


def peers(flavor: str, folder: Path) -> list[Reader]:
    """The peers that run here; of the others, name and reason are printed. What is compiled for them goes to folder."""
    programs = []
    makers: tuple[tuple[str, Callable[[], Reader]], ...] = (
        (CONNECTOR, lambda: Reader(CONNECTOR, _java("connector", folder), {"bulk": 10, "OLTP": 15}, warms=True)),
        (CANAL, lambda: Reader(CANAL, _java("canal", folder), {"bulk": 9, "OLTP": 6}, warms=True)),
        (GO, lambda: Reader(GO, _go(flavor, folder), {"bulk": 15, "OLTP": 30})),
        (PYTHON, lambda: Reader(PYTHON, _python(flavor), {"bulk": 400, "OLTP": 1000}, slow=True)),
    )
    for name, make in makers:
        try:
            programs.append(make())
        except (Missing, StratalogError) as error:
            print(f"{name}: skipped: {error}", flush=True)
    return programs


def _java(reader: str, folder: Path) -> tuple[str, ...]:
    if not shutil.which("javac"):
        raise Missing("no javac on the PATH")
    libraries = jars("bench-java-3", "the Java decoders (9 MB)", JAVA_LIBRARIES)
    path = os.pathsep.join(map(str, [*libraries, folder]))
    if not (folder / "Peers.class").exists():
        _compile("javac", "-d", str(folder), "-cp", path, "Peers.java")
    return ("java", "-cp", path, "Peers", reader)


def _go(flavor: str, folder: Path) -> tuple[str, ...]:
    if not shutil.which("go"):
        raise Missing("no go on the PATH")
    if not (folder / "go-mysql").exists():
        _compile("go", "build", "-o", str(folder / "go-mysql"), ".")
    return (str(folder / "go-mysql"), flavor)


def _python(flavor: str) -> tuple[str, ...]:
    return (sys.executable, str(PEERS / "python_mysql_replication.py"), flavor)


def _telling(output: str) -> str:
    """The last line that tells what went wrong: a cause where Java names one."""
    lines = [line.strip() for line in output.splitlines() if not line.startswith("\t")]
    return next((line for line in reversed(lines) if "Exception" in line or "Error" in line), (lines or ["?"])[-1])


def _compile(*command: str) -> None:
    process = subprocess.run(command, cwd=PEERS, capture_output=True, text=True, check=False)
    if process.returncode:
        raise Missing(f"{command[0]} fails: {_telling(process.stderr)}")


SERVERS = (
    ("MySQL 8.0.12", "mysql-8.0", "mysql", shapes.SHAPES),
    ("MySQL 9.7", "mysql-9.7", "mysql", shapes.COMPRESSED),  # 8.0.20 was the first that compresses
    ("MariaDB 11.4.5", "mariadb-11.4", "mariadb", shapes.SHAPES + shapes.COMPRESSED),
)
"""(name, of tests/services/servers.py, flavor, what it writes)"""


def logs(folder: Path, filter_: str) -> Iterator[tuple[str, Iterator[Log]]]:
    """(flavor, its logs as they are written) of each server; one that cannot run here is said to be skipped."""
    for name, version, flavor, kinds in SERVERS:
        if not any(filter_ in f"{name}: {kind.name}" for kind in kinds):
            continue
        with ExitStack() as stack:
            try:
                server = stack.enter_context(MySQLServer(folder / version, shapes.OPTIONS, build_of(version)))
            except StratalogError as error:
                print(f"{name}: skipped: {error}", flush=True)
                continue
            yield flavor, shapes.write(server, flavor, kinds, name, filter_)


def compare(folder: Path, filter_: str) -> None:
    """Writes the logs whose names contain ``filter_``, has them read, prints a table as it grows."""
    core = min(os.sched_getaffinity(0))
    print("| log | reader | changes/s of one core, best | median | MB/s, best | ours is, best | median | goal |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for flavor, flavor_logs in logs(folder, filter_):
        readers = [own_reader(), *peers(flavor, folder)]
        for log in flavor_logs:
            print_progress(f"{log.name}: {log.changes:,} changes, {log.size / 1e6:.0f} MB")
            for line in _compared(log, readers, core):
                print(line, flush=True)


def _read_into_page_cache(path: Path) -> None:
    """Has the page cache hold a file as one that was read, not as a server's small writes left it a moment ago.

    That is in pages of 4 KiB, where what is read ahead lies in large ones: each costs every reader 0.3 µs more.
    """
    with path.open("rb", buffering=0) as file:
        os.fsync(file)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while file.read(1 << 20):
            pass


def _compared(log: Log, readers: list[Reader], core: int) -> Iterator[str]:
    """A line a reader; readers take turns."""
    assert log.sample
    for server_log in (log, log.sample):
        _read_into_page_cache(server_log.path)
    with ExitStack() as stack:
        running = [stack.enter_context(Running(reader, core)) for reader in readers]
        own_program = running[0]
        truth = {server_log: own_program.read(server_log)[0] for server_log in (log, log.sample)}
        for server_log in (log, log.sample):
            if truth[server_log][:2] != (server_log.changes, server_log.values):
                sys.exit(
                    f"{server_log.name}: {truth[server_log]} is not the {server_log.changes} changes, "
                    f"{server_log.values} values written"
                )
        for number in range(-1, ROUNDS):
            for program in list(running):
                try:
                    _measured_pass(program, log.sample if program.reader.slow else log, truth, number)
                except Missing as error:
                    if program is own_program:
                        sys.exit(str(error))
                    running.remove(program)
                    print(error, flush=True)
        for program in running:
            yield _program_line(log, program, own_program)


def _measured_pass(program: Running, log: Log, truth: dict[Log, Numbers], number: int) -> None:
    """One round of a reader; the one before the first is for those that have to get warm."""
    if number < 0:
        if program.reader.warms:
            program.warm(log)
        return
    if number % 5 and program.reader.slow:
        return
    measured_seconds: list[float] = []
    while sum(measured_seconds) < ENOUGH:
        result, seconds = program.read(log)
        measured_seconds.append(seconds)
        if result != truth[log]:
            raise Missing(f"{program.reader.name} does not read {log.name}: {result}, and it holds {truth[log]}")
    program.seconds.append(statistics.mean(measured_seconds) / log.changes)


def _program_line(log: Log, program: Running, own_program: Running) -> str:
    best, median = min(program.seconds), statistics.median(program.seconds)
    megabytes = log.size / log.changes / best / 1e6
    figures = f"{1 / best:,.0f} | {1 / median:,.0f} | {megabytes:,.1f}"
    if program is own_program:
        return f"| {log.name} | {program.reader.name} | {figures} | | | |"
    ratio = best / min(own_program.seconds)
    middle = median / statistics.median(own_program.seconds)
    rare = any(word in log.name for word in RARE)
    goal = 1 if rare else next(goal for shape, goal in program.reader.goals.items() if shape in log.name)
    reached = "reached" if ratio >= goal else "missed"
    return f"| {log.name} | {program.reader.name} | {figures} | {ratio:.1f} x | {middle:.1f} x | {goal} x {reached} |"
