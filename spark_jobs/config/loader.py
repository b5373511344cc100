"""Loader of pipeline.yaml: a frozen Pipeline, or every problem in the file at once.

Put here: reading the file, the environment's variables, pydantic's errors in a user's words. Not here: the keys
(model.py). Secrets never stand in the file: ``${NAME}`` reads the environment.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import (
    BaseModel,
    ValidationError,
)

from spark_jobs.config.cross_checks import problems_between_keys, problems_of_rules, problems_of_store
from spark_jobs.config.deliveries import Delivery
from spark_jobs.config.model import Pipeline, SourceSettings
from spark_jobs.config.servers import Endpoint, MySQL
from spark_jobs.config.store import store_of
from spark_jobs.config.values import ONE, SEVERAL, VARIABLE
from spark_jobs.config.yaml_file import read
from spark_jobs.errors import ConfigError
from spark_jobs.text.disclosure import cell
from spark_jobs.text.suggestions import did_you_mean

_REMOTE = re.compile(r"[a-z][a-z0-9+.-]*://")
_DECODED = re.compile(r"%[0-9A-Fa-f]{2}|[\\#?\x00-\x1f]")
"""Parts of a path that deltalake takes for those of a URL, and then finds no table."""


def load(path: Path, environment: Mapping[str, str] = os.environ) -> Pipeline:
    """Read pipeline.yaml. Raises ConfigError with every problem found, each under its key's path."""
    return from_keys(read(path), path, environment)


def from_keys(keys: Mapping[str, Any], path: Path, environment: Mapping[str, str] = os.environ) -> Pipeline:
    """A pipeline from the keys of pipeline.yaml as a mapping. Raises ConfigError as ``load`` does.

    Args:
        keys: Values are plain ones, or models such as Retention.
        path: Where the file would be. Relative paths count from its folder, and the list of tables seen is kept there.
        environment: Variables for ``${NAME}`` in values; those of the process by default.
    """
    problems: dict[str, str] = {}
    values = _substituted(dict(keys), "", environment, problems)
    pipeline = None
    try:
        pipeline = Pipeline.model_validate({**values, "path": path.resolve()})
    except ValidationError as error:
        problems = _joined_problems([*_problems(error), *problems.items()])
    problems = _joined_problems([*problems.items(), *problems_between_keys(values)])
    problems |= {key: text for key, text in problems_of_rules(dict(keys), environment) if key not in problems}
    problems |= {key: text for key, text in problems_of_store(pipeline, environment) if key not in problems}
    if pipeline and (part := _DECODED.search(_anchored_lake(pipeline, path.resolve().parent))):
        problems.setdefault(
            "lake",
            f"its path has {part[0]!r}, and one with %41 or the like, \\, #, ? or a control character does not work; "
            "name another folder",
        )
    if "path" in values:  # the model's own, not a key of the file
        problems["path"] = "no such key"
    if problems or pipeline is None:
        raise ConfigError({cell(f"{path.name}: {key}"): cell(text) for key, text in sorted(problems.items())})
    return _anchored(pipeline, path.resolve().parent)


def _substituted(value: Any, key: str, environment: Mapping[str, str], problems: dict[str, str]) -> Any:
    """The value with every ``${NAME}`` replaced; missing names are noted under the key's path."""
    if isinstance(value, dict):
        return {k: _substituted(v, f"{key}.{k}".lstrip("."), environment, problems) for k, v in value.items()}
    if isinstance(value, list):
        return [_substituted(v, f"{key}[{i}]", environment, problems) for i, v in enumerate(value)]
    if not isinstance(value, str):
        return value
    # A missing name is noted and counts as empty, so that the rest of the file is checked too.
    missing = [name for name in VARIABLE.findall(value) if name not in environment]
    if missing:
        exports = " ".join(f"{name}=…" for name in missing)
        problems[key] = f"the environment has no variable {', '.join(missing)}; set it: export {exports}"
    if "${" in VARIABLE.sub("", value):
        problems[key] = (
            "has ${ without the name of a variable and }, as ${NAME}: letters, digits and _; text that has ${ itself "
            "goes into a variable"
        )
    return VARIABLE.sub(lambda match: environment.get(match[1], ""), value)


def _joined_problems(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """All that is wrong with each key, each said once."""
    problems: dict[str, list[str]] = {}
    for key, text in pairs:
        texts = problems.setdefault(key, [])
        texts += [] if text in texts else [text]
    return {key: "; ".join(texts) for key, texts in problems.items()}


def _problems(error: ValidationError) -> Iterator[tuple[str, str]]:
    """pydantic's findings under paths as a user writes them, without the input (it may hold a secret)."""
    for problem in error.errors(include_input=False, include_url=False):
        path = [part for part in problem["loc"] if part not in (ONE, SEVERAL)]
        key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
        text = _WORDS.get(problem["type"], problem["msg"].removeprefix("Value error, "))
        text = text.format(**problem.get("ctx", {})) if problem["type"] in _WORDS else text
        yield key, text + (_suggestion(problem["loc"]) if problem["type"] == "extra_forbidden" else "")


def _suggestion(path: Sequence[int | str]) -> str:
    """A known key like the last one of the path, if there is one."""
    kind: Any = Pipeline
    for part in path[:-1]:
        fields = kind.model_fields.items() if _is_model(kind) else ()
        annotation = next((field.annotation for name, field in fields if part in (name, field.alias)), kind)
        kind = next(filter(_is_model, _nested_types(annotation)), kind)
    names = [field.alias or name for name, field in kind.model_fields.items() if name != "path"]
    return did_you_mean(str(path[-1]), names)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _nested_types(annotation: Any) -> Iterator[Any]:
    """A type and the types that it is made of."""
    yield annotation
    for part in get_args(annotation):
        yield from _nested_types(part)


_WORDS = {
    "missing": "missing",
    "extra_forbidden": "no such key",
    "string_type": "must be text",
    "dict_type": "must hold keys and values",
    "model_type": "must hold keys and values",
    "tuple_type": "must be a list",
    "int_type": "must be a number",
    "int_parsing": "must be a number",
    "int_from_float": "must be a whole number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "path_type": "must be a path",
    "literal_error": "must be {expected}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "too_short": "must hold at least one",
    "string_too_short": "must not be empty",
    "int_parsing_size": "must be a number of fewer digits",
    "finite_number": "must be a number",
    "string_unicode": "must be text",
    "invalid_key": "must be text",
}
"""pydantic's kinds of errors in a user's words."""


def _anchored_tls(server: MySQL | Endpoint, folder: Path) -> dict[str, Any]:
    """The ``tls`` of a server as an update of its keys: its files are beside the file that names them."""
    if server.tls is None:
        return {}
    paths = {key: folder / path for key in ("ca", "cert", "key") if (path := getattr(server.tls, key)) is not None}
    return {"tls": server.tls.model_copy(update=paths)}


def _anchored_source(source: SourceSettings, folder: Path) -> SourceSettings:
    paths: dict[str, Any] = {
        key: folder / path for key in ("files", "archive") if (path := getattr(source, key)) is not None
    }
    if source.schema_dump:
        paths["schema_dump"] = source.schema_dump.model_copy(update={"file": folder / source.schema_dump.file})
    if source.mysql:
        paths["mysql"] = source.mysql.model_copy(update=_anchored_tls(source.mysql, folder))
        paths["endpoints"] = tuple(
            endpoint.model_copy(update=_anchored_tls(endpoint, folder)) for endpoint in source.endpoints
        )
    return source.model_copy(update=paths)


def _anchored_delivery(delivery: Delivery, folder: Path) -> Delivery:
    return delivery.model_copy(
        update={"mysql": delivery.mysql.model_copy(update=_anchored_tls(delivery.mysql, folder))}
    )


def _anchored_lake(pipeline: Pipeline, folder: Path) -> str:
    return pipeline.lake if _REMOTE.match(pipeline.lake) else str(folder / pipeline.lake)


def _anchored(pipeline: Pipeline, folder: Path) -> Pipeline:
    sources = {name: _anchored_source(source, folder) for name, source in pipeline.sources.items()}
    deliveries = {name: _anchored_delivery(delivery, folder) for name, delivery in pipeline.deliveries.items()}
    lake = _anchored_lake(pipeline, folder)
    archive = pipeline.spark.archive
    archive = str(folder / archive) if archive and not _REMOTE.match(archive) else archive
    to = pipeline.reports.to
    reports = pipeline.reports.model_copy(update={"to": to and folder / to})
    ca = pipeline.store.ca
    store = pipeline.store.model_copy(update={"ca": ca and folder / ca})
    spark = pipeline.spark.model_copy(update={"archive": archive}).reaching(store_of(lake, store))
    paths = {"sources": sources, "deliveries": deliveries, "lake": lake, "store": store, "reports": reports}
    return pipeline.model_copy(update={**paths, "spark": spark})
