"""Problems between keys of pipeline.yaml, each of which is valid by itself.

Put here: problems as pairs of a key's path and a text. Not here: values (values.py), or checks that ask a server or the
lake (spark_jobs/checks).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from spark_jobs.config.model import DUMP_OF_FILES, ONE_ORIGIN, Pipeline, RouteRule, SourceSettings
from spark_jobs.config.modes import ModeRule, Modes, problem_of_modes
from spark_jobs.config.routes import Route, Routes, problems_of_routes
from spark_jobs.config.store import AZURE, GOOGLE, S3, ObjectStore, store_scheme
from spark_jobs.config.table_patterns import Pattern, Scope
from spark_jobs.config.values import SOURCE_NAME, VARIABLE, pattern_text

_LONGEST_DELIVERY = 64
"""Characters of a delivery's name in the target's checkpoint."""
_FLAG = TypeAdapter(bool)
_RULE_NAME = re.compile(r"[A-Za-z0-9_-]+")


def problems_between_keys(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Problems between keys: names that make no path, two routes that can claim the same table."""
    sources = values.get("sources")
    for name in sources if isinstance(sources, dict) else ():
        if not SOURCE_NAME.fullmatch(str(name)):
            yield f"sources.{name}", "a source's name is made of letters, digits and _, and begins with no digit"
    for name in _name_list(values.get("deliveries")):
        if not SOURCE_NAME.fullmatch(name) or len(name) > _LONGEST_DELIVERY:
            yield f"deliveries.{name}", "a delivery's name is made of letters, digits and _, and has 64 at most"
    yield from _origin_problems(sources)
    yield from _redaction_problems(sources, values.get("tables"))
    yield from _route_problems(values.get("routes"), list(sources) if isinstance(sources, dict) else [])
    yield from _mode_problems(values.get("downstream"), values.get("routes"))
    yield from _iceberg_problems(values)
    yield from _catalog_problems(values.get("catalog"), values.get("spark"))
    yield from _delivery_problems(values.get("deliveries"), values.get("downstream"))


def _origin_problems(sources: Any) -> Iterator[tuple[str, str]]:
    """Problems between a source's keys, whether or not each is right by itself."""
    for name, source in _items(sources):
        if isinstance(source, dict):
            keys = {key for key, value in source.items() if value is not None}
            if ("mysql" in keys) == ("files" in keys):
                yield f"sources.{name}", ONE_ORIGIN
            if "schema_dump" in keys and "files" not in keys:
                yield f"sources.{name}", DUMP_OF_FILES


def _redaction_problems(sources: Any, tables: Any) -> Iterator[tuple[str, str]]:
    """Tables in scope whose rows bronze is not to have, as far as patterns tell."""
    scope = _scope(tables)
    for name, source in _items(sources):
        listed = (
            source.redact
            if isinstance(source, SourceSettings)
            else source.get("redact")
            if isinstance(source, dict)
            else ()
        )
        texts = [text for text in listed if _pattern_text(text)] if isinstance(listed, list | tuple) else []
        redacted = Scope.parse(texts)
        for at, text in enumerate(texts):
            if scope and not text.startswith("!") and scope.may_share(redacted, Pattern.parse(text)):
                yield (
                    f"sources.{name}.redact[{at}]",
                    f'{text} can be in scope, by tables:, and there would be no rows of it; list "!{text}" last there',
                )


def _route_problems(rules: Any, sources: list[Any]) -> Iterator[tuple[str, str]]:
    """Problems of the routes that are valid by themselves; the model reports the others."""
    yield from problems_of_routes(_routes(rules), list(map(str, sources))).items()


def _mode_problems(modes: Any, rules: Any) -> Iterator[tuple[str, str]]:
    """Problems of the modes that are valid by themselves, beside such routes."""
    listed = [mode for mode in map(_mode, _list(modes)) if mode]
    problem = problem_of_modes(Modes.from_rules(listed), Routes(tuple(_routes(rules).values())).merged)
    if problem:
        yield "downstream", problem


def _iceberg_problems(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Plain tables have no field ids in their files, by which Iceberg's readers find columns."""
    rules = [*map(_mode, _list(values.get("downstream")))]
    flags = {"iceberg": _is_set(values.get("iceberg"))}
    flags |= {f"downstream[{at}].iceberg": bool(rule.iceberg) for at, rule in enumerate(rules) if rule}
    if values.get("iceberg_catalog") is not None and not any(flags.values()):
        yield "iceberg_catalog", "there is no table to register: set iceberg: true, for all or under downstream:"
    if values.get("compat") != "plain":
        return
    for key, is_on in flags.items():
        if is_on:
            yield key, "is not possible with compat: plain, whose files have no field ids; remove one of the two"


def _is_set(value: Any) -> bool:
    """True if the model reads a value as true: text of a variable is, too."""
    try:
        return _FLAG.validate_python(value)
    except ValidationError:  # reported by the model under the same key
        return False


_HIVE = "spark.sql.catalogImplementation"
_DEFAULT_CATALOG = "spark_catalog"


def _catalog_problems(catalog: Any, spark: Any) -> Iterator[tuple[str, str]]:
    """Spark's own catalog is memory unless it is Hive's metastore: its tables would be gone with the run."""
    if catalog is None:
        return

    def member(keys: Any, name: str) -> Any:
        return keys.get(name) if isinstance(keys, dict) else getattr(keys, name, None)

    name, conf = member(catalog, "name") or _DEFAULT_CATALOG, member(spark, "conf") or {}
    if member(spark, "remote") or not isinstance(conf, dict):
        return
    if name == _DEFAULT_CATALOG and conf.get(_HIVE) != "hive" and f"spark.sql.catalog.{name}" not in conf:
        forgets = "Spark's own catalog forgets its tables when a run ends"
        yield "catalog.name", f"{forgets}: set spark.conf: {{{_HIVE}: hive}}, or name another that spark.conf defines"
    elif name != _DEFAULT_CATALOG and f"spark.sql.catalog.{name}" not in conf:
        yield "catalog.name", f"spark.conf defines no such catalog: it has no spark.sql.catalog.{name}"


def _delivery_problems(deliveries: Any, modes: Any) -> Iterator[tuple[str, str]]:
    """Deliveries write the source's current rows: tables that keep more are not theirs."""
    all_modes = Modes.from_rules(mode for mode in map(_mode, _list(modes)) if mode)
    for name, delivery in _items(deliveries):
        tables = delivery.get("tables") if isinstance(delivery, dict) else getattr(delivery, "tables", ())
        scope = _scope(_list(tables))
        for pattern, mode in all_modes.rules:
            text = f"{pattern.schema}.{pattern.table}"
            has_mode = mode in all_modes.may_have(pattern)
            if scope and has_mode and scope.may_share(Scope(((pattern, True),)), pattern):
                reason = f"may have {text}, with mode: {mode} by downstream:, and a delivery writes mirrors"
                yield f"deliveries.{name}.tables", f'{reason}; list "!{text}" last there'


def _routes(rules: Any) -> dict[str, Route]:
    """Routes by key, those that are valid by themselves."""
    return {f"routes[{at}]": route for at, rule in enumerate(_list(rules)) if (route := _route(rule))}


def _list(value: Any) -> list[Any]:
    return [*value] if isinstance(value, list | tuple) else []


def problems_of_rules(raw: dict[str, Any], environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Problems of rules beside their own keys: names, tables out of scope, tables with two, open salts."""
    # Names of rules are part of metrics and messages; a table without wildcards must be in scope.
    scope = _scope(raw.get("tables"))
    for kind in ("filters", "row_filters", "columns"):
        for name, rule in _items(raw.get(kind)):
            if not _RULE_NAME.fullmatch(str(name)):
                yield f"{kind}.{name}", "a rule's name is made of letters, digits, _ and -"
            tables = rule.get("tables") if isinstance(rule, dict) else None
            for at, text in enumerate(tables if isinstance(tables, list) else ()):
                content_text = _pattern_text(text)
                pattern = Pattern.parse(content_text) if content_text and not set(content_text) & set("*?!") else None
                if pattern and scope and not scope.holds(pattern.schema, pattern.table):
                    yield f"{kind}.{name}.tables[{at}]", f"{text} is out of scope, by tables:"
    # Two rules on the columns of one table would each see half of them; a salt in the file is no secret.
    yield from _meeting_rules(raw.get("columns"))
    for name, rule in _items(raw.get("columns")):
        for column, mask in _items(rule.get("mask") if isinstance(rule, dict) else None):
            salt = mask.get("hash") if isinstance(mask, dict) else None
            variable = VARIABLE.fullmatch(salt) if isinstance(salt, str) else None
            key = f"columns.{name}.mask.{column}.hash"
            if salt is not None and not variable:
                yield key, "must be a variable of the environment, like ${MASK_SALT}: what stands in a file is no salt"
            elif variable and environment.get(variable[1]) == "":
                yield key, f"the variable {variable[1]} of the environment is empty"


_NAMED_KEYS = {
    S3: ("access_key_env", "secret_key_env", "session_token_env"),
    AZURE: ("account_key_env", "sas_token_env"),
    GOOGLE: (),
}
"""Keys of ``store:`` that name a variable of the environment, by the scheme of the lake."""
_OPTIONAL_KEYS = ("session_token_env",)
_KEYS_OF_OTHERS = {
    S3: _NAMED_KEYS[AZURE],
    AZURE: (*_NAMED_KEYS[S3], "region", "path_style"),
    GOOGLE: (*_NAMED_KEYS[S3], *_NAMED_KEYS[AZURE], "region", "path_style"),
}


def _keys_of_other_stores(store: ObjectStore, scheme: str) -> Iterator[tuple[str, str]]:
    for key in _KEYS_OF_OTHERS[scheme]:
        if key in store.model_fields_set:
            yield f"store.{key}", f"is not for {scheme}://: remove it"


def problems_of_store(pipeline: Pipeline | None, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Problems between the lake, its store and the environment. pipeline: None where a key is wrong by itself."""
    if pipeline is None:
        return
    # store: belongs to lakes on stores alone. Keys come from the environment, which Spark does not read by itself.
    scheme = store_scheme(pipeline.lake)
    if scheme is None:
        if pipeline.store != ObjectStore():
            yield "store", f"is for a lake on an object store (s3a://bucket/prefix), and lake: is {pipeline.lake}"
        return
    yield from _keys_of_other_stores(pipeline.store, scheme)
    for key in _NAMED_KEYS[scheme]:
        name = getattr(pipeline.store, key)
        if name and key not in _OPTIONAL_KEYS and not environment.get(name):
            yield f"store.{key}", f"the environment has no variable {name}, which holds a key of the object store"
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3") if scheme == S3 else ():
        if environment.get(name) and pipeline.store.endpoint is None:
            yield "store.endpoint", f"the environment has {name}, which Spark does not read; name the endpoint here"
    ca = pipeline.store.ca
    if ca and not (pipeline.path.parent / ca).is_file():
        yield "store.ca", f"{ca} is no file"


def _meeting_rules(rules: Any) -> Iterator[tuple[str, str]]:
    """Rules about columns that may be about one table: what each says of its columns would be half of it."""
    parsed = [(name, list(_patterns(rule))) for name, rule in _items(rules)]
    for at, (name, patterns) in enumerate(parsed):
        for earlier, patterns_before in parsed[:at]:
            if any(pattern.meets(pattern_before) for pattern in patterns for pattern_before in patterns_before):
                yield f"columns.{name}.tables", f"a table can match columns.{earlier} too; a table has at most one"


def _patterns(rule: Any) -> Iterator[Pattern]:
    """The valid patterns of a rule that do not exclude."""
    tables = rule.get("tables") if isinstance(rule, dict) else None
    for text in tables if isinstance(tables, list) else ():
        content_text = _pattern_text(text)
        if content_text and not content_text.startswith("!"):
            yield Pattern.parse(content_text)


def _name_list(value: Any) -> list[str]:
    return list(map(str, value)) if isinstance(value, dict) else []


def _items(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


def _scope(tables: Any) -> Scope | None:
    """Value of ``tables:``, where it is valid."""
    listed = tables if isinstance(tables, list) else []
    return Scope.parse(listed) if all(map(_pattern_text, listed)) else None


def _mode(rule: Any) -> ModeRule | None:
    try:
        return rule if isinstance(rule, ModeRule) else ModeRule.model_validate(rule)
    except ValidationError:  # reported by the model under the same key
        return None


def _route(rule: Any) -> Route | None:
    """The rule as a route; where its target alone is wrong, one to its tables' own names."""
    if isinstance(rule, RouteRule):
        return rule.route()
    try:
        return RouteRule.model_validate(rule).route()
    except ValidationError:
        text = _pattern_text(rule.get("from")) if isinstance(rule, dict) else None
        return Route(Pattern.parse(text), (Pattern("{schema}", "{table}"),)) if text else None


def _pattern_text(text: Any) -> str | None:
    try:
        return pattern_text(text) if isinstance(text, str) else None
    except ValueError:  # reported by the model under the same key
        return None
