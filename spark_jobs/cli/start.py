"""Verbs of a first day: init, completion.

Put here: their options, what a server answers to init. Not here: the file's text (starter_file.py), or checks of
servers (spark_jobs/checks).
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import yaml
from click.shell_completion import get_completion_class

from spark_jobs.cli.app import echo
from spark_jobs.cli.group import cli
from spark_jobs.cli.starter_file import Schema, Starter
from spark_jobs.config.loader import from_keys
from spark_jobs.config.project_files import password_variables, start_command, write_project
from spark_jobs.config.yaml_file import FILE_NAME
from spark_jobs.errors import ConfigError, SourceError
from spark_jobs.source.information_schema import user_schema_condition

if TYPE_CHECKING:
    from spark_jobs.checks import Check

_SHELLS = ("bash", "zsh", "fish")
_VARIABLE = re.compile(r"[A-Za-z_]\w*")
_ASK_SCHEMAS = f"""
SELECT TABLE_SCHEMA name, COUNT(*) tables, COALESCE(SUM(DATA_LENGTH), 0) size FROM information_schema.TABLES
WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') AND {user_schema_condition("TABLE_SCHEMA")}
GROUP BY TABLE_SCHEMA ORDER BY TABLE_SCHEMA
"""
_LISTED = ("connection", "server version")
"""Checks whose results are said whatever they are."""
_STATEMENT = re.compile(r"^GRANT |SET (GLOBAL|PERSIST) ")
_GRANT = re.compile(r"GRANT .+? TO '.*?'@'.*?'(?=; GRANT|$)")


@cli.command()
@click.option(
    "-c",
    "--config",
    "path",
    default=FILE_NAME,
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The file to write; an existing file is not overwritten.",
)
@click.option("--source", default="shop", show_default=True, metavar="NAME", help="Name of the source.")
@click.option("--lake", default="./lake", show_default=True, metavar="PATH", help="Path of the lake.")
@click.option("--host", metavar="NAME", help="Host of the server.")
@click.option("--port", default=3306, show_default=True, type=click.IntRange(1, 65535), help="Port of the server.")
@click.option("--user", default="repl", show_default=True, metavar="NAME", help="Replication user.")
@click.option(
    "--password-variable",
    "variable",
    metavar="NAME",
    help="Environment variable with the password; default: the source's name and _PASSWORD, as SHOP_PASSWORD.",
)
@click.option("--files", metavar="DIR", help="A folder of binlog files instead of a server.")
@click.option(
    "--connect",
    is_flag=True,
    help="Connect to the server, and list its schemas and its missing settings and privileges.",
)
@click.option("--dagster", is_flag=True, help="Also write the instance and workspace for Dagster.")
def init(  # noqa: PLR0913 - the options of the verb
    path: Path,
    source: str,
    lake: str,
    files: str | None,
    variable: str | None,
    *,
    connect: bool,
    dagster: bool,
    **server: Any,
) -> None:
    """Write a commented pipeline.yaml.

    With --connect, the file has the schemas of the server, and in comments missing settings and the GRANT statements
    for the user. Passwords are read from the environment. With --dagster, a workspace.yaml, an instance in dagster/
    and a .env with a place for the password are written beside it, also if there is a pipeline.yaml; existing files
    are kept.

    \b
    Example: stratalog init --host db.internal --user repl
    Example: stratalog init --host db.internal --user repl --connect
    Example: stratalog init --host db.internal --user repl --dagster
    """  # noqa: D301 - click's mark for lines that stay as they are
    # Wrong use first: nothing is asked of a server then.
    if files and (server["host"] or connect):
        raise click.UsageError("--files is in place of --host and --connect")
    if connect and not server["host"]:
        raise click.UsageError("--connect needs --host")
    if path.exists() and dagster:
        _write_missing(path)
        return
    if path.exists():
        raise ConfigError(f"{path} exists already, and is left alone; write another by -c FILE, or move it away")
    name = variable or re.sub(r"\W", "_", f"{source}_PASSWORD").upper()
    if not _VARIABLE.fullmatch(name):
        raise click.UsageError(f"--password-variable: {name} is not the name of a variable")
    address = {key: value for key, value in server.items() if value is not None}
    starter = Starter(source, lake, **address, variable=name, files=files)
    starter = _answered(starter, path) if connect else starter
    # What is written is valid, whatever was typed: a source's name with a slash, for instance.
    from_keys(yaml.safe_load(starter.text()), path, {name: os.environ.get(name, "")})
    _write_starter(path, starter.text())
    variables = [] if files else [name]
    for file in write_project(path, variables) if dagster else ():
        echo(f"wrote {file}")
    for remark in starter.remarks:
        echo(remark)
    has_statements = any(map(_STATEMENT.search, starter.remarks))
    _say_next(path, variables, dagster=dagster, has_statements=has_statements)


def _write_starter(path: Path, text: str) -> None:
    """Write the new configuration. Raises ConfigError."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error
    echo(f"wrote {path}")


def _write_missing(path: Path) -> None:
    """Write what a Dagster project lacks beside a configuration that is there. Raises ConfigError."""
    variables = password_variables(path)
    echo(f"{path}: kept")
    written = write_project(path, variables)
    for line in [f"wrote {file}" for file in written] or ["nothing was written: all files are there"]:
        echo(line)
    _say_next(path, variables, dagster=True)


def _say_next(path: Path, variables: Sequence[str], *, dagster: bool, has_statements: bool = False) -> None:
    """Next steps after ``init``. has_statements: whether it named any that the pipeline's user may not execute."""
    check = "stratalog check --connect" if path == Path(FILE_NAME) else f"stratalog check -c {path} --connect"
    missing = " ".join(f"{name}=…" for name in variables if name not in os.environ)
    steps = ["have an administrator of the server execute the statements above"] if has_statements else []
    steps += [f"export {missing}"] if missing else []
    echo(f"next: {', then '.join([*steps, check])}")
    if dagster:
        echo(f"Dagster, in {path.parent.absolute()}: {start_command(path)}")


def _answered(starter: Starter, path: Path) -> Starter:
    """Starter with what the server shows and lacks. Raises ConfigError, SourceError."""
    from spark_jobs.checks.server import ServerView, check_view
    from spark_jobs.source.open import open_source
    from spark_jobs.source.server import Server

    # The server is asked by the configuration that is to be written.
    if starter.variable not in os.environ:
        raise ConfigError(
            f"--connect: the environment has no variable {starter.variable}, the password of {starter.user}"
        )
    pipeline = from_keys(yaml.safe_load(starter.text()), path)
    server = open_source(starter.source, pipeline.sources[starter.source])
    assert isinstance(server, Server)
    with _saying_unwritten(path), server.connect() as connection:
        rows = server.ask(connection, _ASK_SCHEMAS)
        schemas = [Schema(row["name"], int(row["tables"]), int(row["size"])) for row in rows]
        starter = replace(starter, schemas=schemas)
        pipeline = from_keys(yaml.safe_load(starter.text()), path)
        checks = list(check_view(ServerView(pipeline, server, connection)))
    return replace(starter, remarks=list(_remarks(checks)))


@contextmanager
def _saying_unwritten(path: Path) -> Iterator[None]:
    """Add to an error of the server that there is no file yet. Raises SourceError."""
    try:
        yield
    except SourceError as error:
        raise SourceError(f"{error}; {path} was not written") from error


def _remarks(checks: "Sequence[Check]") -> Iterator[str]:
    """Missing privileges, and below them, once, the GRANT statements to type."""
    for check in checks:
        if check.status == "ok" and check.name in _LISTED:
            yield f"{check.name}: {check.value}"
        elif check.status != "ok":
            advice = _GRANT.sub("", check.remedy).strip(";: ")
            verb = ":" if ":" in check.value else " is"  # a value may be a sentence about a table
            yield f"{check.status}: {check.name}{verb} {check.value}" + (f": {advice}" if advice else "")
    grants = [grant for check in checks if check.status != "ok" for grant in _GRANT.findall(check.remedy)]
    if grants:
        yield "an administrator of the server executes:"  # the user of the pipeline grants itself nothing
    yield from (f"{grant};" for grant in dict.fromkeys(grants))


@cli.command()
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Print a shell's completion script for verbs and sources.

    \b
    Example: stratalog completion bash
    Example: stratalog completion zsh
    Example: stratalog completion fish
    """  # noqa: D301 - click's mark for lines that stay as they are
    script = get_completion_class(shell)
    assert script is not None
    echo(script(cli, {}, "stratalog", "_STRATALOG_COMPLETE").source())
