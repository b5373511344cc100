"""pipeline.yaml -> a frozen Pipeline, or every problem in it at once.

Put here: the keys, their defaults and what makes a value wrong. Not here: what the values do.
Secrets never stand in the file: ``${NAME}`` reads the environment, and passwords are held so that they do not print.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    SecretStr,
    Tag,
    ValidationError,
    field_validator,
    model_validator,
)

from spark_jobs.config.conditions import Condition
from spark_jobs.config.filters import Action, ColumnRule, EventFilter, Filters, Mask, RowFilter, problem_of_events
from spark_jobs.config.routes import Route, Routes, problems_of_routes
from spark_jobs.config.table_patterns import Helpers, Pattern, Scope
from spark_jobs.config.time_zones import zone_of
from spark_jobs.config.yaml_file import read
from spark_jobs.errors import ConfigError
from spark_jobs.log.location import parse_place, parse_start
from spark_jobs.text.disclosure import cell

_VARIABLE = re.compile(r"\$\{(\w+)\}")
_REMOTE = re.compile(r"[a-z][a-z0-9+.-]*://")
_SOURCE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RULE_NAME = re.compile(r"[A-Za-z0-9_-]+")


def _start(text: str) -> str:
    try:
        parse_start(text)
    except ConfigError as error:
        raise ValueError(f"{error}; earliest and latest are places too") from error
    return text


def _zone(text: str) -> str:
    if zone_of(text) is None:
        raise ValueError("is neither an offset (+02:00) nor a time zone that is known here (Europe/Berlin)")
    return text


def _pattern(text: str) -> str:
    try:
        Pattern.parse(text.removeprefix("!"))
    except ConfigError as error:
        raise ValueError(str(error)) from error
    return text


def _table_pattern(text: str) -> str:
    if text.startswith("!"):
        raise ValueError("lists the tables that are real; leave others out of the list instead of excluding them")
    return _pattern(text)


_ONE, _SEVERAL = "(one)", "(several)"
"""How a value is written that may be one or a list of them; pydantic puts it into the path of what is wrong there."""


def _form(said: object) -> str:
    return _SEVERAL if isinstance(said, list | tuple) else _ONE


def _downstream(text: str) -> str:
    _pattern(text)
    if set(text) & set("*?!"):
        raise ValueError(
            f"{text!r} must be one table, without * or ?; {{1}} is what the first of them in from stands for"
        )
    return text


def _source_pattern(text: str) -> str:
    if not _SOURCE_NAME.fullmatch(re.sub(r"[*?]", "x", text)):
        raise ValueError(f"{text!r} is no source's name, and no pattern of such with * or ?")
    return text


_OWNER = re.compile(r"team:[A-Za-z0-9_.-]+|[^@\s]+@[^@\s]+\.[^@\s]+")


def _owner(text: str) -> str:
    if not _OWNER.fullmatch(text):
        raise ValueError(f"{text!r} must be an email address, or team:NAME")
    return text


_DURATION = re.compile(r"(\d+)([dhm])")
_UNITS = {"d": "days", "h": "hours", "m": "minutes"}
_MOST_DAYS = 36500


def _duration(value: object) -> object:
    if isinstance(value, timedelta):
        return value
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if not found:
        raise ValueError("must be a number of days, hours or minutes, like 30d, 36h or 90m")
    days = timedelta(**{_UNITS[found[2]]: 1}) / timedelta(days=1)
    if len(found[1]) > len(str(_MOST_DAYS)) + 4 or int(found[1]) * days > _MOST_DAYS:
        raise ValueError(f"must be at most {_MOST_DAYS}d")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _a_day(value: timedelta) -> timedelta:
    if value < timedelta(days=1):
        raise ValueError("must be at least 1d: runs that are still going need these files")
    return value


_NO_PATH = re.compile(r"[\x00\ud800-\udfff]")


def _local(value: object) -> object:
    """A path as text or Path; the empty text would be the configuration's own folder."""
    if isinstance(value, str):
        if not value.strip():
            raise ValueError("must be a path, and is empty")
        if _NO_PATH.search(value):
            raise ValueError("has characters that no path has")
    return value


LocalPath = Annotated[Path, BeforeValidator(_local)]
Duration = Annotated[timedelta, BeforeValidator(_duration)]


class _Model(BaseModel):
    """The text below a key is its line in docs/reference/configuration.md."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Tls(_Model):
    """How the connection to a server is encrypted; paths are local to the machine that connects."""

    enabled: bool = True
    """Whether the connection is encrypted at all."""
    ca: LocalPath | None = None
    """The CA that must have signed the server's certificate; without it, those that this machine trusts."""
    cert: LocalPath | None = None
    """A certificate that the client shows."""
    key: LocalPath | None = None
    """The key of ``cert``."""
    verify: bool = True
    """Whether the server's certificate is verified."""


class MySQL(_Model):
    """A live MySQL or MariaDB server. The user needs REPLICATION SLAVE, REPLICATION CLIENT and SELECT."""

    host: str = "127.0.0.1"
    """Name or address."""
    port: int = Field(3306, ge=1, le=65535)
    """TCP port."""
    user: str
    """The user that logs in."""
    password: SecretStr = SecretStr("")
    """Its password: write ``${NAME}``, which reads the environment."""
    tls: Tls | None = None
    """How the connection is encrypted; without it, it is where the server can, and nothing is verified."""
    connect_timeout: int = Field(10, ge=1)
    """Seconds."""
    read_timeout: int = Field(60, ge=1)
    """Seconds without a byte before a read is given up."""


class Endpoint(_Model):
    """One of several servers that have the same log: a primary, a replica. What it does not say, ``mysql`` says."""

    host: str
    """Name or address."""
    port: int | None = Field(None, ge=1, le=65535)
    """As in ``mysql``, and so are the others."""
    user: str | None = None
    """As in ``mysql``."""
    password: SecretStr | None = None
    """As in ``mysql``."""
    tls: Tls | None = None
    """As in ``mysql``."""
    connect_timeout: int | None = Field(None, ge=1)
    """As in ``mysql``."""
    read_timeout: int | None = Field(None, ge=1)
    """As in ``mysql``."""

    def server(self, shared: MySQL) -> MySQL:
        """The server with what all of them share."""
        said = {name: value for name in self.model_fields_set if (value := getattr(self, name)) is not None}
        return shared.model_copy(update=said)


def _at(text: str) -> str:
    try:
        place = parse_place(text)
    except ConfigError as error:
        raise ValueError(str(error)) from error
    if isinstance(place, datetime):
        raise ValueError(  # noqa: TRY004 - what pydantic makes a line of its list of
            "must be a position or a GTID set: a time does not tell which statements come before it"
        )
    return text


class SchemaDump(_Model):
    """A file of CREATE TABLE statements, as ``mysqldump --no-data`` writes it, and where in the log it was taken."""

    file: LocalPath
    """The file. Given alone, it stands behind ``schema_dump`` itself."""
    at: Annotated[str, AfterValidator(_at)] | None = None
    """The position or GTID set at which it was taken; without it, what the dump says: ``CHANGE MASTER TO``,
    ``CHANGE REPLICATION SOURCE TO``, or else ``GTID_PURGED``."""


ONE_ORIGIN = "needs exactly one of mysql and files"
DUMP_OF_FILES = "schema_dump is for a source of files; a server is asked for its tables itself"


class Source(_Model):
    """Where a log comes from: a live server, one of several that have the same log, or a directory of binlog files."""

    mysql: MySQL | None = None
    """A live server; this or ``files``."""
    endpoints: tuple[Endpoint, ...] = ()
    """Several servers that have the same log; ``mysql`` then has what they share, and no ``host``."""
    choose: Literal["listed", "hash", "score"] = "listed"
    """Which endpoint is read: ``listed`` (in that order), ``hash`` (of the source's name), ``score`` (of lag and
    load)."""
    on_new_server: Literal["stop", "continue"] = "stop"
    """Where another server answers under the same name, or its file numbers began again: ``stop``, or ``continue`` in
    a new stretch of the log."""
    files: LocalPath | None = None
    """A directory of binlog files; numbers in the names give the order."""
    archive: LocalPath | None = None
    """A directory of copies of its older binlog files: a backfill that begins before bronze does brings what bronze
    lacks from there, and only what is not there from the source itself."""
    schema_dump: SchemaDump | None = None
    """Of ``files``: a dump of the tables without their rows, which names columns that the log does not; the file, or
    ``file`` and ``at``."""
    start: Annotated[str, AfterValidator(_start)] = "earliest"
    """Where the first run begins: ``earliest``, ``latest``, or a place (a position, a GTID set, a time)."""
    system_time_zone: Annotated[str, AfterValidator(_zone)] | None = None
    """The server's own time zone, an offset or a name (``Europe/Berlin``): statements of sessions that have it
    (``time_zone=SYSTEM``) tell no other, and a new column's CURRENT_TIMESTAMP may depend on it."""
    redact: tuple[Annotated[str, AfterValidator(_pattern)], ...] = ()
    """Patterns of tables whose rows bronze never has, as in ``tables``: what a run reads of them is blanked before
    anything is written. They must not be in scope."""

    @field_validator("redact")
    @classmethod
    def _names_some(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if value and all(text.startswith("!") for text in value):
            raise ValueError("only excludes tables; name first those whose rows bronze is not to have")
        return value

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if (self.mysql is None) == (self.files is None):
            raise ValueError(ONE_ORIGIN)
        return self

    @field_validator("schema_dump", mode="before")
    @classmethod
    def _file_alone(cls, value: object) -> object:
        return {"file": value} if isinstance(value, str | Path) else value

    @model_validator(mode="after")
    def _dump_of_files(self) -> Self:
        if self.schema_dump and self.files is None:
            raise ValueError(DUMP_OF_FILES)
        return self

    @model_validator(mode="after")
    def _one_list(self) -> Self:
        if not self.endpoints:
            if "choose" in self.model_fields_set:
                raise ValueError("choose is between endpoints, and there are none")
            return self
        if self.mysql is None:
            raise ValueError("endpoints need mysql: what they share, such as user and password")
        if "host" in self.mysql.model_fields_set:
            raise ValueError("endpoints list all servers; take host out of mysql and put it among them")
        places = [(server.host, server.port) for server in self.servers]
        twice = next((place for place in places if places.count(place) > 1), None)
        if twice:
            raise ValueError(f"endpoints: {twice[0]}:{twice[1]} is there twice")
        return self

    @property
    def servers(self) -> tuple[MySQL, ...]:
        """The servers that have the log, as listed; none for a directory."""
        if self.mysql is None:
            return ()
        return tuple(one.server(self.mysql) for one in self.endpoints) or (self.mysql,)


_Target = Annotated[str, AfterValidator(_downstream)]


class RouteRule(_Model):
    """One line of ``routes:``."""

    source: Annotated[str, AfterValidator(_pattern)] = Field(alias="from")
    """A pattern of source tables."""
    to: Annotated[
        Annotated[_Target, Tag(_ONE)] | Annotated[tuple[_Target, ...], Field(min_length=1), Tag(_SEVERAL)],
        Discriminator(_form),
    ]
    """The downstream table that their rows go to, or a list of several, to each of which they all go. ``{1}``, ``{2}``,
    … stand for what the ``*`` and ``?`` of ``from`` stood for, in order; ``{schema}``, ``{table}``, ``{source}`` for
    the names. Where several tables may meet in one, each row has ``_source``, ``_schema`` and ``_table`` beside it,
    which join the key."""
    sources: tuple[Annotated[str, AfterValidator(_source_pattern)], ...] = ()
    """The sources that it is about, by name or pattern. Without any it is about all, of which one has the table: tables
    of several in one are wanted where several are named, as by ``["*"]``."""
    keys: Literal["source", "shared"] = "source"
    """``source``: equal keys in two source tables are two rows. ``shared``: they are one, which is as the table left it
    that wrote it last, and gone where that one deleted it; the three columns say which one it was."""

    def route(self) -> Route:
        to = (self.to,) if isinstance(self.to, str) else self.to
        return Route(Pattern.parse(self.source), tuple(map(Pattern.parse, to)), self.sources, self.keys == "shared")


def _regex(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, OverflowError) as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from error
    except RecursionError:
        raise ValueError("nests too deep for a regular expression") from None
    return text


def _condition(text: str) -> str:
    try:
        Condition.parse(text)
    except ConfigError as error:
        raise ValueError(str(error)) from error
    return text


def _small(text: object) -> object:
    return " ".join(text.casefold().split()) if isinstance(text, str) else text


Patterns = Annotated[tuple[Annotated[str, AfterValidator(_pattern)], ...], Field(min_length=1)]
Expression = Annotated[str, AfterValidator(_condition)]
ColumnName = Annotated[str, BeforeValidator(_small), Field(min_length=1)]


class EventRule(_Model):
    """One of ``filters:``: which events of tables are left out, by their kind or a statement's text."""

    tables: Patterns
    """Patterns of the tables that it is about; the last that matches decides."""
    events: tuple[Annotated[str, BeforeValidator(_small)], ...] = ()
    """Kinds of events: ``insert``, ``update``, ``delete``, ``truncate table``, ``all ddl`` …"""
    sql_pattern: tuple[Annotated[str, AfterValidator(_regex)], ...] = Field((), alias="sql-pattern")
    """Regular expressions that are looked for in a statement's text."""
    action: Action = "ignore"
    """``ignore``: what matches is left out. ``do``: what does not match is. ``stop``: a statement that matches stops
    its table."""

    @model_validator(mode="after")
    def _carried_out(self) -> Self:
        problem = problem_of_events(self.events, self.action, has_patterns=bool(self.sql_pattern))
        if problem:
            raise ValueError(problem)
        return self

    def rule(self, name: str) -> EventFilter:
        patterns = tuple(re.compile(one, re.IGNORECASE) for one in self.sql_pattern)
        return EventFilter(name, Scope.parse(self.tables), self.events, patterns, self.action)


class RowRule(_Model):
    """One of ``row_filters:``: which changes of rows are left out, by their values."""

    tables: Patterns
    """Patterns of the tables that it is about; the last that matches decides."""
    insert: Expression | None = Field(None, alias="insert-value-expr")
    """SQL over an inserted row; where it is true, the change is left out."""
    update_old: Expression | None = Field(None, alias="update-old-value-expr")
    """SQL over the row before an update; with ``update-new-value-expr``, both must be true."""
    update_new: Expression | None = Field(None, alias="update-new-value-expr")
    """SQL over the row after an update."""
    delete: Expression | None = Field(None, alias="delete-value-expr")
    """SQL over a deleted row."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not any((self.insert, self.update_old, self.update_new, self.delete)):
            keys = ", ".join(str(one.alias) for one in type(self).model_fields.values() if one.alias)
            raise ValueError(f"needs one of {keys}")
        return self

    def rule(self, name: str) -> RowFilter:
        asked = (self.insert, self.update_old, self.update_new, self.delete)
        return RowFilter(name, Scope.parse(self.tables), *(Condition.parse(one) if one else None for one in asked))


class MaskRule(_Model):
    """What stands in the place of a column's values: exactly one of the three."""

    hash: SecretStr | None = None
    """The salt of a SHA-256 of the value: write ``${NAME}``, which reads the environment."""
    truncate: int | None = Field(None, ge=0)
    """How many characters or bytes of the value's beginning are kept."""
    constant: str | int | None = None
    """A value that stands in the place of all others."""

    @model_validator(mode="after")
    def _one_of_three(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise ValueError("needs exactly one of hash, truncate and constant")
        if "constant" not in self.model_fields_set and self.hash is None and self.truncate is None:
            raise ValueError("needs a value")
        return self

    def mask(self) -> Mask:
        if self.hash is not None:
            return Mask("hash", salt=self.hash.get_secret_value())
        if self.truncate is not None:
            return Mask("truncate", length=self.truncate)
        return Mask("constant", constant=self.constant)


class ColumnsRule(_Model):
    """One of ``columns:``: which columns are left out of tables, and which are masked."""

    tables: Patterns
    """Patterns of the tables that it is about; the last that matches decides."""
    include: tuple[ColumnName, ...] | None = Field(None, min_length=1)
    """The columns that are seen; all others are left out."""
    exclude: tuple[ColumnName, ...] = ()
    """The columns that are left out."""
    mask: dict[ColumnName, MaskRule] = {}
    """What stands in the place of columns' values."""

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        if self.include is None and not self.exclude and not self.mask:
            raise ValueError("needs include, exclude or mask")
        if self.include is not None and self.exclude:
            raise ValueError("has include and exclude; all that include does not name is left out")
        gone = next((name for name in self.mask if self.rule("").is_left_out(name)), None)
        if gone is not None:
            raise ValueError(f"masks {gone}, which it leaves out")
        return self

    def rule(self, name: str) -> ColumnRule:
        include = None if self.include is None else frozenset(self.include)
        masks = {column: one.mask() for column, one in self.mask.items()}
        return ColumnRule(name, Scope.parse(self.tables), include, frozenset(self.exclude), masks)


class Spark(_Model):
    """Where Spark runs: ``master`` in this process (the default), or ``remote``, a Spark Connect address."""

    master: str = "local[*]"
    """A master's address; ``local[*]`` is this process."""
    remote: str | None = None
    """A Spark Connect address, like ``sc://spark.internal:15002``, in place of ``master``."""
    conf: dict[str, str] = {}
    """Further settings of Spark."""


class Retention(_Model):
    """How long what is not needed any more is kept. Durations are written like 30d, 36h or 90m."""

    bronze: Duration | None = None
    """What ``gc`` removes, if every reader is done with it: log files whose newest transaction is older. Without it
    nothing is removed."""
    fold: bool = False
    """Whether ``maintain`` folds silver's windows of log that ``gc`` has removed into one a table: a row a key, and
    none for what was deleted. Such windows are not done again, not even from copies of the log."""
    versions: Annotated[Duration, AfterValidator(_a_day)] = timedelta(days=7)
    """How long ``maintain`` keeps data files that only older versions of a table name; at least ``1d``."""
    margin: Duration | None = None
    """A warning where the source has less time of its log left before bronze's end, and so was near to losing some;
    not for a log that still has its file number 1."""
    margin_bytes: int | None = Field(None, ge=0)
    """The same in bytes of log."""


class OnlineDdl(_Model):
    """Tools that change tables online, by copies of them that take their names in the end."""

    follow: tuple[Literal["gh-ost", "pt-osc"], ...] = ("gh-ost", "pt-osc")
    """The tools whose working tables are left out of the lake."""
    real: tuple[Annotated[str, AfterValidator(_table_pattern)], ...] = ()
    """Patterns of tables that only have names like those of working tables."""


class Reports(_Model):
    """The HTML page of each source, which Dagster's runs write anew and link to."""

    to: LocalPath | None = Path("reports")
    """The folder of the pages, on the machine that runs; ``null`` writes none."""
    url: str | None = None
    """Where a web server of yours serves that folder; Dagster's links then lead there. Without it they are paths."""

    @field_validator("url")
    @classmethod
    def _on_the_web(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("must begin with http:// or https://: browsers follow no link from a page to a file")
        return value


class Pipeline(_Model):
    """A whole pipeline.yaml. ``path`` is the file it was read from; relative paths count from its folder."""

    path: Path
    lake: Annotated[str, AfterValidator(_local)]
    """Where the tables lie: a local path, or anything that Spark can write (``s3a://``, ``abfss://``, ``hdfs://``)."""
    sources: dict[str, Source] = Field(min_length=1)
    """The logs, by name; the name is part of table paths."""
    tables: tuple[Annotated[str, AfterValidator(_pattern)], ...] = ()
    """Patterns ``schema.table`` with ``*`` and ``?``; ``!`` excludes, the last match wins. Without any: all but the
    system schemas."""
    routes: tuple[RouteRule, ...] = ()
    """Other names downstream than the source's own, and which tables are merged into one."""
    event_rules: dict[str, EventRule] = Field({}, alias="filters")
    """Rules, by name, about which events are left out."""
    row_rules: dict[str, RowRule] = Field({}, alias="row_filters")
    """Rules, by name, about which changes are left out by their values."""
    column_rules: dict[str, ColumnsRule] = Field({}, alias="columns")
    """Rules, by name, about which columns are left out, and which are masked."""
    spark: Spark = Spark()
    """Where Spark runs."""
    retention: Retention = Retention()
    """What is removed, and when."""
    compat: Literal["full", "plain"] = "full"
    """``plain``: no column mapping, no type widening and no deletion vectors, for readers that lack them; then ADD
    COLUMN is the only change of columns that is followed."""
    on_drop: Literal["keep", "drop"] = "keep"
    """``keep``: rows downstream stay when their table is dropped, until it is created again. ``drop``: they go with
    it."""
    on_unnamed: Literal["stop", "number"] = "stop"
    """What becomes of a table where nothing tells the names of its columns: no log, statement, server or schema dump.
    ``stop``: it stops. ``number``: its columns are ``@1``, ``@2``, … by place, and its rows are counted, as those of a
    table without a key."""
    on_incompatible: Literal["stop", "new_column"] = "stop"
    """``stop``: an ALTER TABLE that gives a column a type which does not hold every value stops its table.
    ``new_column``: what the column held stays under another name, and a new column begins, NULL in older rows."""
    on_cascade: Literal["warn", "stop", "ignore"] = "warn"
    """What becomes of a child table whose rows the server changes by a foreign key (``ON DELETE CASCADE`` and the like)
    without logging that. ``warn``: it goes on, and every surface names it. ``stop``: it stops where the key begins.
    ``ignore``: it goes on, and nothing is said."""
    online_ddl: OnlineDdl = OnlineDdl()
    """How tables are told that tools for online schema changes only work with."""
    verify: bool = False
    """Whether Dagster has a check ``equals_source`` for every downstream table, which compares it with the source."""
    max_lag: Duration | None = None
    """How far bronze may be behind its source before Dagster's check of it warns; nothing is asked of it without."""
    reports: Reports = Reports()
    """The page of each source."""
    owners: tuple[Annotated[str, AfterValidator(_owner)], ...] = ()
    """Owners of all assets in Dagster: mail addresses, or ``team:NAME``."""

    @property
    def scope(self) -> Scope:
        helpers = Helpers(self.online_ddl.follow, tuple(map(Pattern.parse, self.online_ddl.real)))
        return replace(Scope.parse(self.tables), helpers=helpers)

    @property
    def routing(self) -> Routes:
        return Routes(tuple(rule.route() for rule in self.routes))

    @property
    def filters(self) -> Filters:
        """The rules over events, rows and columns."""
        return Filters(
            tuple(one.rule(name) for name, one in self.event_rules.items()),
            tuple(one.rule(name) for name, one in self.row_rules.items()),
            tuple(one.rule(name) for name, one in self.column_rules.items()),
        )

    @property
    def endpoints_file(self) -> Path:
        """Which endpoints were found unavailable, beside pipeline.yaml; a hint, and nothing is lost with it."""
        return self.path.with_suffix(".endpoints.json")

    @property
    def tables_file(self) -> Path:
        """The list of tables seen so far, beside pipeline.yaml; Dagster's graph is built from it."""
        return self.path.with_suffix(".tables.json")


def load(path: Path, environment: Mapping[str, str] = os.environ) -> Pipeline:
    """Reads pipeline.yaml. Raises ConfigError with every problem found, each under its key's path."""
    return from_keys(read(path), path, environment)


def from_keys(keys: Mapping[str, Any], path: Path, environment: Mapping[str, str] = os.environ) -> Pipeline:
    """A pipeline from keys as pipeline.yaml has them, or from models of this module in their places.

    path: where the file would lie. Relative paths count from its folder, and what is kept beside it is kept there.
    Raises ConfigError as ``load`` does.
    """
    problems: dict[str, str] = {}
    values = _substituted(dict(keys), "", environment, problems)
    pipeline = None
    try:
        pipeline = Pipeline.model_validate({**values, "path": path.resolve()})
    except ValidationError as error:
        problems = _joined([*_problems(error), *problems.items()])
    problems = _joined([*problems.items(), *_cross_problems(values)])
    problems |= {key: text for key, text in _rule_problems(dict(keys), environment) if key not in problems}
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
    missing = [name for name in _VARIABLE.findall(value) if name not in environment]
    if missing:
        problems[key] = f"the environment has no variable {', '.join(missing)}"
    if "${" in _VARIABLE.sub("", value):
        problems[key] = (
            "has ${ without the name of a variable and }, as ${NAME}: letters, digits and _; text that has ${ itself "
            "goes into a variable"
        )
    return _VARIABLE.sub(lambda found: environment.get(found[1], ""), value)


def _joined(found: Iterable[tuple[str, str]]) -> dict[str, str]:
    """All that is wrong with each key, each said once."""
    problems: dict[str, list[str]] = {}
    for key, text in found:
        texts = problems.setdefault(key, [])
        texts += [] if text in texts else [text]
    return {key: "; ".join(texts) for key, texts in problems.items()}


def _problems(error: ValidationError) -> Iterator[tuple[str, str]]:
    """pydantic's findings under paths as a user writes them, without the input (it may hold a secret)."""
    for problem in error.errors(include_input=False, include_url=False):
        path = [part for part in problem["loc"] if part not in (_ONE, _SEVERAL)]
        key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
        said = _WORDS.get(problem["type"], problem["msg"].removeprefix("Value error, "))
        said = said.format(**problem.get("ctx", {})) if problem["type"] in _WORDS else said
        yield key, said + (_meant(problem["loc"]) if problem["type"] == "extra_forbidden" else "")


_ALIKE = 0.75
"""How like a key one must be that was meant, 1 at most."""


def _meant(path: Sequence[int | str]) -> str:
    """A known key like the last one of the path, if there is one."""
    kind: Any = Pipeline
    for part in path[:-1]:
        fields = kind.model_fields.items() if _is_model(kind) else ()
        annotation = next((field.annotation for name, field in fields if part in (name, field.alias)), kind)
        kind = next(filter(_is_model, _parts_of(annotation)), kind)
    known = [field.alias or name for name, field in kind.model_fields.items() if name != "path"]
    near = get_close_matches(str(path[-1]), known, 1, _ALIKE)
    return f"; did you mean {near[0]}?" if near else ""


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _parts_of(annotation: Any) -> Iterator[Any]:
    """A type and the types that it is made of."""
    yield annotation
    for part in get_args(annotation):
        yield from _parts_of(part)


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


def _cross_problems(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What is wrong between keys: names that make no path, two routes that can claim the same table."""
    sources = values.get("sources")
    for name in sources if isinstance(sources, dict) else ():
        if not _SOURCE_NAME.fullmatch(str(name)):
            yield f"sources.{name}", "a source's name is made of letters, digits and _, and begins with no digit"
    yield from _origin_problems(sources)
    yield from _redaction_problems(sources, values.get("tables"))
    yield from _route_problems(values.get("routes"), list(sources) if isinstance(sources, dict) else [])


def _origin_problems(sources: Any) -> Iterator[tuple[str, str]]:
    """What a source's keys say of one another, whether or not each is right by itself."""
    for name, source in _items(sources):
        if isinstance(source, dict):
            given = {key for key, value in source.items() if value is not None}
            if ("mysql" in given) == ("files" in given):
                yield f"sources.{name}", ONE_ORIGIN
            if "schema_dump" in given and "files" not in given:
                yield f"sources.{name}", DUMP_OF_FILES


def _redaction_problems(sources: Any, tables: Any) -> Iterator[tuple[str, str]]:
    """Tables in scope whose rows bronze is not to have, as far as patterns tell."""
    scope = _scope(tables)
    for name, source in _items(sources):
        listed = (
            source.redact if isinstance(source, Source) else source.get("redact") if isinstance(source, dict) else ()
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
    """Of the routes that are valid by themselves; the model reports the others."""
    listed = rules if isinstance(rules, list | tuple) else ()
    known = {f"routes[{at}]": route for at, rule in enumerate(listed) if (route := _route(rule))}
    yield from problems_of_routes(known, list(map(str, sources))).items()


def _rule_problems(raw: dict[str, Any], environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What is wrong with rules beside their own keys: names, tables out of scope, tables with two, open salts."""
    scope = _scope(raw.get("tables"))
    for kind in ("filters", "row_filters", "columns"):
        for name, rule in _items(raw.get(kind)):
            if not _RULE_NAME.fullmatch(str(name)):
                yield f"{kind}.{name}", "a rule's name is made of letters, digits, _ and -"
            tables = rule.get("tables") if isinstance(rule, dict) else None
            for at, text in enumerate(tables if isinstance(tables, list) else ()):
                found = _pattern_text(text)
                one = Pattern.parse(found) if found and not set(found) & set("*?!") else None
                if one and scope and not scope.holds(one.schema, one.table):
                    yield f"{kind}.{name}.tables[{at}]", f"{text} is out of scope, by tables:"
    yield from _meeting_rules(raw.get("columns"))
    for name, rule in _items(raw.get("columns")):
        for column, mask in _items(rule.get("mask") if isinstance(rule, dict) else None):
            salt = mask.get("hash") if isinstance(mask, dict) else None
            variable = _VARIABLE.fullmatch(salt) if isinstance(salt, str) else None
            key = f"columns.{name}.mask.{column}.hash"
            if salt is not None and not variable:
                yield key, "must be a variable of the environment, like ${MASK_SALT}: what stands in a file is no salt"
            elif variable and environment.get(variable[1]) == "":
                yield key, f"the variable {variable[1]} of the environment is empty"


def _meeting_rules(rules: Any) -> Iterator[tuple[str, str]]:
    """Rules about columns that may be about one table: what each says of its columns would be half of it."""
    known = [(name, list(_wanted(rule))) for name, rule in _items(rules)]
    for at, (name, patterns) in enumerate(known):
        for earlier, others in known[:at]:
            if any(one.meets(other) for one in patterns for other in others):
                yield f"columns.{name}.tables", f"a table can match columns.{earlier} too; a table has at most one"


def _wanted(rule: Any) -> Iterator[Pattern]:
    """The valid patterns of a rule that do not exclude."""
    tables = rule.get("tables") if isinstance(rule, dict) else None
    for text in tables if isinstance(tables, list) else ():
        found = _pattern_text(text)
        if found and not found.startswith("!"):
            yield Pattern.parse(found)


def _items(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


def _scope(tables: Any) -> Scope | None:
    """What ``tables:`` says, where it is valid."""
    listed = tables if isinstance(tables, list) else []
    return Scope.parse(listed) if all(map(_pattern_text, listed)) else None


def _route(rule: Any) -> Route | None:
    """The rule as a route; where its target alone is wrong, one to its tables' own names."""
    if isinstance(rule, RouteRule):
        return rule.route()
    try:
        return RouteRule.model_validate(rule).route()
    except ValidationError:
        found = _pattern_text(rule.get("from")) if isinstance(rule, dict) else None
        return Route(Pattern.parse(found), (Pattern("{schema}", "{table}"),)) if found else None


def _pattern_text(text: Any) -> str | None:
    try:
        return _pattern(text) if isinstance(text, str) else None
    except ValueError:  # reported by the model under the same key
        return None


def _anchored_source(source: Source, folder: Path) -> Source:
    paths: dict[str, Any] = {
        key: folder / path for key in ("files", "archive") if (path := getattr(source, key)) is not None
    }
    if source.schema_dump:
        paths["schema_dump"] = source.schema_dump.model_copy(update={"file": folder / source.schema_dump.file})
    return source.model_copy(update=paths)


def _anchored(pipeline: Pipeline, folder: Path) -> Pipeline:
    sources = {name: _anchored_source(source, folder) for name, source in pipeline.sources.items()}
    lake = pipeline.lake if _REMOTE.match(pipeline.lake) else str(folder / pipeline.lake)
    to = pipeline.reports.to
    reports = pipeline.reports.model_copy(update={"to": to and folder / to})
    return pipeline.model_copy(update={"sources": sources, "lake": lake, "reports": reports})
