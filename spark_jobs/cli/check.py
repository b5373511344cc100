"""Verbs ``check`` and ``verify``: the configuration and the rows, compared with the servers'.

Put here: their options, and how findings are said. Not here: what is checked (spark_jobs/checks), or what is compared,
and how (spark_jobs/verify).
"""

import shutil
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spark_jobs.cli.app import (
    chosen_sources,
    config_option,
    each_source,
    echo,
    echo_json,
    source_option,
    spark_of,
    tables_option,
)
from spark_jobs.cli.deliveries import chosen_deliveries
from spark_jobs.cli.group import ERRORS, cli
from spark_jobs.cli.output import print_grid
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.config.table_patterns import Scope
from spark_jobs.errors import ConfigError
from spark_jobs.text.disclosure import printable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.checks import Section
    from spark_jobs.checks.verify import Verdict
    from spark_jobs.checks.verify.deliveries import DeliveryVerdict


@cli.command()
@config_option
@click.option("--connect", is_flag=True, help="Also check servers, folders, the lake and the tables.")
@click.option("--json", "as_json", is_flag=True, help="The results of --connect as one JSON object.")
def check(path: Path, *, connect: bool, as_json: bool) -> None:
    """Check the configuration; with --connect, everything else.

    All problems are listed at once. --connect also checks servers, folders, the lake and the tables, and prints a
    result for each check. Exit status: 0 without problems (warnings do not count), 1 if --connect finds problems, 2
    for problems of the configuration itself.

    \b
    Example: stratalog check -c pipeline.yaml
    Example: stratalog check -c pipeline.yaml --connect
    """  # noqa: D301 - click's mark for lines that stay as they are
    # Problems of the configuration come first: nothing else is looked at with them.
    pipeline = load(path)
    problems = _dump_problems(pipeline)
    if problems:
        raise ConfigError(problems)
    sections = _checked(pipeline, quiet=as_json) if connect else []
    counts: Counter[str] = Counter(check.status for section in sections for check in section.checks)
    if as_json:
        results = [{"about": section.about} | check.to_json() for section in sections for check in section.checks]
        summary = {"problems": counts["problem"], "warnings": counts["warning"], "checks": results}
        echo_json(summary, indent=2)
    elif not counts["problem"]:
        echo(f"{path}: no problems found" + (f", {_count_text(counts, 'warning')}" if counts["warning"] else ""))
    if counts["problem"]:
        ERRORS.print(
            f"{path}: {_count_text(counts, 'problem')}, {_count_text(counts, 'warning')}", style="red", highlight=False
        )
        sys.exit(1)


def _checked(pipeline: Pipeline, *, quiet: bool) -> "list[Section]":
    """The sections, each printed as soon as it is done."""
    from spark_jobs.checks.checklist import run_checklist

    sections = []
    for section in run_checklist(pipeline):
        sections.append(section)
        if not quiet:
            _print_section(section)
    return sections


def _print_section(section: "Section") -> None:
    """A line for each result; what is wanted stands below it. As wide as the terminal, 80 columns elsewhere."""
    width = max(shutil.get_terminal_size().columns, 40)
    echo(f"{section.about}:")
    longest = max((len(check.name) for check in section.checks if len(check.name) <= _NAME), default=0)
    for result in section.checks:
        head = f"  {result.status:<7}  {printable(result.name):<{longest}}  "
        margin = " " * (13 + longest)
        value, *rest = _lines(result.value, width - len(margin)) if len(result.name) <= longest else [""]
        if len(result.name) > longest:
            rest = _lines(result.value, width - len(margin))
        echo((head + value).rstrip(), colour=_COLOURS[result.status])
        for line in [*rest, *_lines(result.remedy, width - len(margin))]:
            echo(margin + line)


def _lines(text: str, width: int) -> list[str]:
    """Lines of at most so many characters, but for words that are longer."""
    return textwrap.wrap(printable(text), max(width, 20), break_long_words=False, break_on_hyphens=False)


def _count_text(counts: "Counter[str]", status: str) -> str:
    return f"{counts[status]} {status}{'' if counts[status] == 1 else 's'}"


_NAME = 24
"""Width of aligned names of checks; longer ones have a line of their own."""
_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


def _dump_problems(pipeline: Pipeline) -> dict[str, str]:
    """Problems that keep schema dumps from telling all of their tables, by key."""
    from spark_jobs.schema import dump
    from spark_jobs.source.files import Files

    problem_list = {}
    for name, source in pipeline.sources.items():
        listed = Files(name, source.files) if source.files and source.files.is_dir() else None
        for at, text in enumerate(dump.problems(name, source.schema_dump, listed) if source.schema_dump else ()):
            problem_list[f"sources.{name}.schema_dump" + (f" ({at + 1})" if at else "")] = text
    return problem_list


@cli.command()
@config_option
@source_option
@tables_option("Only this table or pattern")
@click.option("--delivery", metavar="NAME", help="Compare the tables of this delivery's target with the lake instead.")
@click.option("--log", "is_of_log", is_flag=True, help="Decode a sample of bronze with a second decoder and compare.")
@click.option(
    "--changes",
    "count",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --log: sample about N of the newest changes; default: 1000.",
)
@click.option(
    "--since",
    metavar="LOCATION",
    help="Compare only rows with changes since: 'last' (a table was equal), a position, GTID set or time.",
)
@click.option("--values", is_flag=True, help="Print both values of the columns that differ.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per table, one per line, with values.")
def verify(  # noqa: PLR0913 - options
    *,
    path: Path,
    source: str | None,
    tables: tuple[str, ...],
    delivery: str | None,
    is_of_log: bool,
    count: int | None,
    since: str | None,
    values: bool,
    as_json: bool,
) -> None:
    """Compare tables with the source, or a delivery with the lake.

    Writes can continue meanwhile. The keys of differing rows are listed. The command starts with a run, and repeats it
    while rows differ, so that lag does not count as a difference. With --log it does not connect to the source: it
    decodes row events of bronze with Stratalog and with python-mysql-replication, and compares every value.

    \b
    Example: stratalog verify -c pipeline.yaml
    Example: stratalog verify -c pipeline.yaml --source shop --table 'shop.*' --values
    Example: stratalog verify -c pipeline.yaml --since last
    Example: stratalog verify -c pipeline.yaml --delivery replica
    Example: stratalog verify -c pipeline.yaml --log --changes 10000
    """  # noqa: D301 - click's mark for lines that stay as they are
    if count and not is_of_log:
        raise click.UsageError("--changes goes with --log")
    if is_of_log and (delivery or values):
        raise click.UsageError("--log goes with neither --delivery nor --values")
    if since and (is_of_log or delivery):
        raise click.UsageError("--since goes with neither --log nor --delivery")
    pipeline = load(path)
    if is_of_log:
        _verify_log(pipeline, source, tables, count, as_json=as_json)
    elif delivery:
        _verify_delivery(pipeline, delivery, tables, values=values, as_json=as_json)
    else:
        _verify_sources(pipeline, source, tables, since, values=values, as_json=as_json)


def _verify_sources(
    pipeline: Pipeline, source: str | None, tables: tuple[str, ...], since: str | None, *, values: bool, as_json: bool
) -> None:
    from spark_jobs.changes.lines import wanted_tables
    from spark_jobs.checks.verify import require_live, require_named, verify_source

    # Every source must be comparable, and every name one of a table, before the first one starts a run.
    names = chosen_sources(pipeline, source)
    for name in names:
        require_live(pipeline, name)
    require_named(pipeline, names, tables)
    in_scope = wanted_tables(tables)
    wrong: list[Verdict] = []

    def verify_one(spark: "SparkSession", pipeline: Pipeline, name: str) -> None:
        verdicts = []
        for verdict in verify_source(spark, pipeline, name, in_scope, since=since):
            verdicts.append(verdict)
            if as_json:
                echo_json(verdict.to_json())
        wrong.extend(verdict for verdict in verdicts if not verdict.is_right)
        if not as_json:
            _print_verdicts(verdicts, values=values)

    # Rows that differ are the result, with exit status 1.
    each_source(pipeline.path, source, verify_one, is_lazy=True)
    if wrong:
        sys.exit(1)


def _verify_log(
    pipeline: Pipeline, source: str | None, tables: tuple[str, ...], count: int | None, *, as_json: bool
) -> None:
    from spark_jobs.changes.lines import wanted_tables
    from spark_jobs.checks.second_reader.compare import CHANGES, read_twice

    # All sources are read; what differs in one does not hide the others.
    readings = []
    for name in chosen_sources(pipeline, source):
        reading = read_twice(pipeline, name, count or CHANGES, wanted_tables(tables))
        readings.append(reading)
        if as_json:
            echo_json(reading.to_json())
            continue
        echo(str(reading))
        for line in reading.lines():
            echo(line)
    if tables and not any(reading.tables or reading.excluded for reading in readings):
        raise ConfigError(f"--table: the log in bronze has no rows of a table like {', '.join(tables)}")
    if not all(reading.is_equal for reading in readings):
        sys.exit(1)


def _verify_delivery(pipeline: Pipeline, name: str, tables: tuple[str, ...], *, values: bool, as_json: bool) -> None:
    from spark_jobs.checks.verify.deliveries import verify_delivery
    from spark_jobs.operations.observation.verified import EQUAL

    chosen_deliveries(pipeline, name)
    only = Scope.parse(tables) if tables else None
    with spark_of(pipeline, is_run=True, is_lazy=True) as spark:
        verdicts = list(verify_delivery(spark, pipeline, name, only))

    # The grid first, then the rows that differ, and remarks on standard error.
    if as_json:
        for verdict in verdicts:
            echo_json(verdict.to_json())
    else:
        _print_delivery_verdicts(verdicts, values=values)
    for verdict in verdicts:
        if verdict.reason:
            ERRORS.print(f"delivery {name}: {verdict.table}: {verdict.reason}", markup=False, highlight=False)
    if any(verdict.state != EQUAL for verdict in verdicts):
        sys.exit(1)


def _print_delivery_verdicts(verdicts: "list[DeliveryVerdict]", *, values: bool) -> None:
    head = ["table", "state", "in the lake", "at the target", "missing", "extra", "different", "seconds"]
    counts = [(v.lake_rows, v.target_rows, v.missing, v.extra, v.different) for v in verdicts]
    rows = [
        [verdict.table, verdict.state, *map(str, numbers), f"{verdict.seconds:.1f}"]
        for verdict, numbers in zip(verdicts, counts, strict=True)
    ]
    print_grid(head, rows)
    for line in (line for verdict in verdicts for line in verdict.lines(values=values)):
        echo(line)


def _print_verdicts(verdicts: "list[Verdict]", *, values: bool) -> None:
    # The grid first, then the rows that differ, and remarks on standard error.
    head = ["table", "state", "rows", "in the lake", "missing", "extra", "different", "older", "changing", "seconds"]
    rows = [
        [
            verdict.label,
            verdict.state,
            *(
                str(count)
                for count in (verdict.source_rows, verdict.lake_rows, verdict.missing, verdict.extra, verdict.different)
            ),
            *(str(verdict.older), str(verdict.changing), f"{verdict.seconds:.1f}"),
        ]
        for verdict in verdicts
    ]
    print_grid(head, rows)
    for verdict in verdicts:
        for line in verdict.lines(values=values):
            echo(line)
        for remark in verdict.remarks():
            ERRORS.print(remark, markup=False, highlight=False)
