"""Files beside a pipeline.yaml by which Dagster runs it: ``stratalog init --dagster`` and ``dg scaffold`` write them.

Put here: their texts, and what is left alone. Not here: the text of a pipeline.yaml (spark_jobs/cli/starter_file.py,
dagster_project/component.py).
"""

import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import spark_jobs
from spark_jobs.config.run_files import RunFile
from spark_jobs.config.values import VARIABLE
from spark_jobs.config.yaml_file import FILE_NAME, read
from spark_jobs.errors import ConfigError

_OF_INSTANCE = ".env\n/dagster/*\n!/dagster/dagster.yaml\n"
"""Other files for git to ignore: passwords, and what Dagster writes into its home."""
_WORKSPACE = """\
# dagster dev -w workspace.yaml, in this folder
load_from:
  - python_module: {module_name: stratalog.definitions, location_name: stratalog}
"""
_INSTANCE = Path(spark_jobs.__file__).parent / "demo" / "dagster.yaml"


def ignored(path: Path) -> str:
    """Files that runs write beside a configuration, as git is to ignore them."""
    return "".join(["/lake/\n/reports/\n", *(f"/{file.path_for(path).name}\n" for file in RunFile)])


def add_variable(path: Path, name: str) -> bool:
    """Add a place for a password to a .env file; return whether it had none.

    The line is a comment: Dagster takes what .env has instead of what was exported. A new file is its user's alone.
    """
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if re.search(rf"^(# *)?(export )?{name}=", text, re.MULTILINE):
        return False
    separator = "" if not text or text.endswith("\n") else "\n"
    advice = f'# Export {name}, or take the "# " away and write it here; Dagster prefers what is here.'
    path.touch(mode=0o600)
    path.write_text(f"{text}{separator}{advice}\n# {name}=\n", encoding="utf-8")
    return True


def password_variables(path: Path) -> list[str]:
    """Environment variables that the sources of a configuration have their passwords from. Raises ConfigError."""
    sources = read(path).get("sources")
    names = [name for value in _passwords(sources) for name in VARIABLE.findall(value)]
    return list(dict.fromkeys(names))


def _passwords(keys: object) -> Iterator[str]:
    """Values of the keys ``password``, of endpoints too."""
    children = keys.values() if isinstance(keys, dict) else keys if isinstance(keys, list) else ()
    if isinstance(keys, dict) and isinstance(keys.get("password"), str):
        yield keys["password"]
    for child in children:
        yield from _passwords(child)


def write_project(path: Path, variables: Sequence[str]) -> list[Path]:
    """Write what Dagster needs beside a configuration; a file that is there is left alone, but for .env.

    variables: of the environment, with passwords; none for sources of files. Returns the files that were written.
    Raises ConfigError where one cannot be.
    """
    folder = path.parent
    texts = {
        folder / "workspace.yaml": _WORKSPACE,
        folder / "dagster" / "dagster.yaml": _instance(),
        folder / ".gitignore": ignored(path) + _OF_INSTANCE,
    }
    # Only what is not there yet.
    new = {path: text for path, text in texts.items() if not path.exists()}
    try:
        for file, text in new.items():
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        is_added = [add_variable(folder / ".env", variable) for variable in variables]
    except OSError as error:
        raise ConfigError(f"{error.filename}: cannot be written: {error.strerror}") from error
    return [*new, *([folder / ".env"] if any(is_added) else [])]


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
