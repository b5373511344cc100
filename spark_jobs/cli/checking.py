"""The verbs that hold one thing against another: check and verify.

Put here: their options, and how findings are said. Not here: what is compared, and how (spark_jobs/verify).
"""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spark_jobs.cli.group import ERRORS, chosen, cli, config_option, each_source, source_option, tables_option
from spark_jobs.cli.output import print_grid
from spark_jobs.config import Pipeline, load
from spark_jobs.errors import ConfigError, StratalogError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.source import Source
    from spark_jobs.verify import Verdict


@cli.command()
@config_option
@click.option("--connect", is_flag=True, help="Also ask every server and directory.")
def check(path: Path, *, connect: bool) -> None:
    """Read the configuration and list every problem at once.

    Example: stratalog check -c pipeline.yaml --connect
    """
    pipeline = load(path)
    asked = {name: _asked(pipeline, name) for name in (pipeline.sources if connect else ())}
    problems = {
        f"sources.{name}" + (f" ({at + 1})" if at else ""): text
        for name, (found, _) in asked.items()
        for at, text in enumerate(found)
    }
    problems |= _dump_problems(pipeline)
    if connect and not problems:
        problems = _rule_problems(pipeline)
    if problems:
        raise ConfigError(problems)
    for name, (_, said) in asked.items():
        if said:
            click.echo(f"sources.{name}: {said}")
    click.echo(f"{path}: no problems found")


def _asked(pipeline: Pipeline, name: str) -> tuple[list[str], str | None]:
    """What keeps a source from being read, and where it stands."""
    from spark_jobs.pipeline import lake_of
    from spark_jobs.source.open import open_sources
    from spark_jobs.status import require_readable

    sources = open_sources(name, pipeline.sources[name])
    found = [text for source in sources for text in _problems(source, several=len(sources) > 1)]
    try:
        return found, None if found else require_readable(pipeline, lake_of(pipeline), name)
    except StratalogError as error:
        return [str(error).removeprefix(f"{name}: ")], None


def _dump_problems(pipeline: Pipeline) -> dict[str, str]:
    """What keeps schema dumps from telling all of their tables, by key."""
    from spark_jobs import dumped
    from spark_jobs.source.files import Files

    found = {}
    for name, one in pipeline.sources.items():
        listed = Files(name, one.files) if one.files and one.files.is_dir() else None
        for at, text in enumerate(dumped.problems(name, one.schema_dump, listed) if one.schema_dump else ()):
            found[f"sources.{name}.schema_dump" + (f" ({at + 1})" if at else "")] = text
    return found


def _rule_problems(pipeline: Pipeline) -> dict[str, str]:
    """What is wrong with rules and routes about the tables that the servers have now, by key."""
    from spark_jobs.route_check import problems_of_tables
    from spark_jobs.rule_check import problems_of_rules
    from spark_jobs.schema.definitions import on_server
    from spark_jobs.source.open import open_source
    from spark_jobs.source.server import Server

    has_rules = pipeline.event_rules or pipeline.row_rules or pipeline.column_rules
    if not has_rules and not pipeline.routes and len(pipeline.sources) == 1:
        return {}
    sources = [open_source(name, one) for name, one in pipeline.sources.items()]
    servers = [one for one in sources if isinstance(one, Server)]
    known = {server.name: list(on_server(server).values()) for server in servers}
    definitions = [one for each in known.values() for one in each]
    found = problems_of_rules(pipeline, definitions, is_all=len(servers) == len(sources))
    return found | problems_of_tables(pipeline, known)


def _problems(source: "Source", *, several: bool) -> list[str]:
    """What keeps a server from being read; of several, under its address."""
    from spark_jobs.source.server import Server

    try:
        found = source.problems() if isinstance(source, Server) else []
    except StratalogError as error:
        found = [str(error).removeprefix(f"{source.name}: ")]
    return [f"{source.endpoint}: {text}" for text in found] if several else found


@cli.command()
@config_option
@source_option
@tables_option("Only this table or pattern")
@click.option("--values", is_flag=True, help="With the columns that differ, both values.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a table, each on a line, values included.")
def verify(path: Path, source: str | None, tables: tuple[str, ...], *, values: bool, as_json: bool) -> None:
    """Compare downstream tables with the source's own rows while writes go on; list the keys that differ.

    Does what run does first, and again where rows differ, until what was only on its way has arrived.

    \b
    Example: stratalog verify -c pipeline.yaml
    Example: stratalog verify -c pipeline.yaml --source shop --table 'shop.*' --values
    """  # noqa: D301 - click's mark for lines that stay as they are
    from spark_jobs.changes import wanted_tables
    from spark_jobs.verify import require_live, verify_source

    pipeline = load(path)
    for name in chosen(pipeline, source):
        require_live(pipeline, name)
    wanted = wanted_tables(tables)
    seen: list[Verdict] = []
    wrong: list[Verdict] = []

    def one(spark: "SparkSession", pipeline: Pipeline, name: str) -> None:
        verdicts = []
        for verdict in verify_source(spark, pipeline, name, wanted):
            verdicts.append(verdict)
            if as_json:
                click.echo(json.dumps(verdict.to_json(), ensure_ascii=False))
        seen.extend(verdicts)
        wrong.extend(verdict for verdict in verdicts if not verdict.is_right)
        if not as_json:
            _say_verdicts(verdicts, values=values)

    each_source(path, source, one)
    if tables and not seen:
        raise ConfigError(f"--table: neither a source nor the lake has a table like {', '.join(tables)} in scope")
    if wrong:
        sys.exit(1)


def _say_verdicts(verdicts: "list[Verdict]", *, values: bool) -> None:
    head = ["table", "state", "rows", "in the lake", "missing", "extra", "different", "older", "changing", "seconds"]
    rows = [
        [
            one.said,
            one.state,
            *(str(count) for count in (one.source_rows, one.lake_rows, one.missing, one.extra, one.different)),
            *(str(one.older), str(one.changing), f"{one.seconds:.1f}"),
        ]
        for one in verdicts
    ]
    print_grid(head, rows)
    for one in verdicts:
        for line in one.lines(values=values):
            click.echo(line)
        for said in one.remarks():
            ERRORS.print(said, markup=False, highlight=False)
