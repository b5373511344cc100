"""Files beside a pipeline.yaml by which Dagster runs it: ``stratalog init --dagster`` and ``dg scaffold`` write them.

Put here: their texts, and what is left alone. Not here: the text of a pipeline.yaml (spark_jobs/cli/starter_file.py,
dagster_project/component.py).
"""

import re
from importlib.util import find_spec
from pathlib import Path

import spark_jobs
from spark_jobs.config.yaml_file import FILE_NAME
from spark_jobs.errors import ConfigError

IGNORED = "/lake/\n/reports/\n/pipeline.tables.json\n"
"""Files that runs write beside a pipeline.yaml, as git is to ignore them."""
_OF_INSTANCE = ".env\n/dagster/*\n!/dagster/dagster.yaml\n"
"""Other files for git to ignore: passwords, and what Dagster writes into its home."""
_WORKSPACE = """\
# dagster dev -w workspace.yaml, in this folder
load_from:
  - python_module: {module_name: stratalog.definitions, location_name: stratalog}
"""
_INSTANCE = Path(spark_jobs.__file__).parent / "demo" / "dagster.yaml"


def add_variable(path: Path, name: str) -> None:
    """Add a password to fill in to a .env file, so that definitions load before it is filled in."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if not re.search(rf"^(export )?{name}=", text, re.MULTILINE):
        separator = "" if not text or text.endswith("\n") else "\n"
        path.write_text(f"{text}{separator}{name}=fill-in\n", encoding="utf-8")


def write_project(folder: Path, variable: str | None) -> list[Path]:
    """Write what Dagster needs beside a pipeline.yaml; a file that is there is left alone, but for .env.

    variable: the environment variable with a password; None for a source of files. Returns the files that were
    written. Raises ConfigError where one cannot be.
    """
    texts = {
        folder / "workspace.yaml": _WORKSPACE,
        folder / "dagster" / "dagster.yaml": _instance(),
        folder / ".gitignore": IGNORED + _OF_INSTANCE,
    }
    # Only what is not there yet.
    new = {path: text for path, text in texts.items() if not path.exists()}
    try:
        for path, text in new.items():
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        if variable:
            add_variable(folder / ".env", variable)
    except OSError as error:
        raise ConfigError(f"{error.filename}: cannot be written: {error.strerror}") from error
    return [*new, *([folder / ".env"] if variable else [])]


def write_instance(folder: Path) -> None:
    """Write the Dagster instance of a project, with what git is to ignore of it, where there is none.

    folder: of the instance, DAGSTER_HOME. Raises OSError.
    """
    if not (folder / "dagster.yaml").exists():
        folder.mkdir(exist_ok=True)
        (folder / "dagster.yaml").write_text(_instance(), encoding="utf-8")
        (folder / ".gitignore").write_text("/*\n!/dagster.yaml\n!/.gitignore\n", encoding="utf-8")


def _instance() -> str:
    """The instance of the demo, without the line that says so."""
    text = _INSTANCE.read_text(encoding="utf-8").partition("\n")[2].lstrip("\n")
    return f"# The Dagster instance: DAGSTER_HOME is this folder.\n\n{text}"


def start_command(path: Path) -> str:
    """The command that starts Dagster on a configuration beside which ``write_project`` wrote, in its folder."""
    config = "" if path.name == FILE_NAME else f"STRATALOG_CONFIG={path.name} "
    return with_webserver(f"{config}DAGSTER_HOME=$PWD/dagster dagster dev -w workspace.yaml")


def with_webserver(command: str) -> str:
    """A command that needs Dagster's webserver, behind its installation where it is missing: it is an extra."""
    return command if find_spec("dagster_webserver") else f"pip install dagster-webserver && {command}"
