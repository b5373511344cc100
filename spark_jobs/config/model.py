"""The keys of pipeline.yaml as frozen models.

Put here: the keys, their defaults and their texts for the reference. Not here: what makes one value wrong (values.py),
several keys together (cross_checks.py), or reading the file (loader.py). Passwords are held so that they do not print.
"""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    PrivateAttr,
    SecretStr,
    Tag,
    field_validator,
    model_validator,
)

from spark_jobs.config.cascades import CascadeActions, CascadeChoices
from spark_jobs.config.catalog import Catalog
from spark_jobs.config.deliveries import Delivery
from spark_jobs.config.filters import Action, ColumnRule, EventFilter, Filters, Mask, RowFilter, problem_of_events
from spark_jobs.config.iceberg_catalog import IcebergCatalog
from spark_jobs.config.modes import ModeRule, Modes
from spark_jobs.config.routes import Route, Routes
from spark_jobs.config.run_files import RunFile
from spark_jobs.config.servers import Endpoint, Model, MySQL, problem_of_servers
from spark_jobs.config.store import LakeStore, ObjectStore, lake_text
from spark_jobs.config.table_patterns import Helpers, Pattern, Scope
from spark_jobs.config.values import (
    ONE,
    SEVERAL,
    ColumnName,
    Duration,
    Expression,
    LocalPath,
    Patterns,
    at_least_a_day,
    at_least_a_second,
    computed_name,
    computed_type,
    downstream_text,
    dump_position,
    folded_name,
    form_of,
    owner_text,
    pattern_text,
    regex_text,
    remote_text,
    source_pattern,
    start_text,
    table_pattern,
    zone_text,
)
from spark_jobs.errors import ConfigError
from spark_jobs.expressions.computed import Computed
from spark_jobs.expressions.condition import Condition


class SchemaDump(Model):
    """A file of CREATE TABLE statements, as ``mysqldump --no-data`` writes it, and where in the log it was taken."""

    file: LocalPath
    """The file. Given alone, it stands behind ``schema_dump`` itself."""
    at: Annotated[str, AfterValidator(dump_position)] | None = None
    """The position or GTID set at which it was taken; without it, what the dump says: ``CHANGE MASTER TO``,
    ``CHANGE REPLICATION SOURCE TO``, or else ``GTID_PURGED``."""


ONE_ORIGIN = "needs exactly one of mysql and files"
DUMP_OF_FILES = "schema_dump is for a source of files; a server is asked for its tables itself"


class SourceSettings(Model):
    """Origin of a log: a live server, one of several that have the same log, or a directory of binlog files."""

    mysql: MySQL | None = None
    """A live server; this or ``files``."""
    endpoints: tuple[Endpoint, ...] = ()
    """Several servers that have the same log; ``mysql`` then has what they share, and no ``host``."""
    choose: Literal["listed", "hash", "score"] = "listed"
    """Choice of the endpoint: ``listed`` (in that order), ``hash`` (of the source's name), ``score`` (of lag and
    load)."""
    on_new_server: Literal["stop", "continue"] = "stop"
    """Treatment of another server under the same name, or of file numbers that began again: ``stop``, or ``continue``
    in a new stretch of the log."""
    files: LocalPath | None = None
    """A directory of binlog files; numbers in the names give the order."""
    archive: LocalPath | None = None
    """A directory of copies of its older binlog files: a backfill that begins before bronze does brings what bronze
    lacks from there, and only what is not there from the source itself."""
    schema_dump: SchemaDump | None = None
    """A dump of the tables of ``files`` without their rows, which names columns that the log does not; the file, or
    ``file`` and ``at``."""
    start: Annotated[str, AfterValidator(start_text)] = "earliest"
    """Start of the first run: ``earliest``, ``latest``, or a location (a position, a GTID set, a time)."""
    system_time_zone: Annotated[str, AfterValidator(zone_text)] | None = None
    """The server's own time zone, an offset or a name (``Europe/Berlin``): statements of sessions that have it
    (``time_zone=SYSTEM``) tell no other, and a new column's CURRENT_TIMESTAMP may depend on it."""
    redact: tuple[Annotated[str, AfterValidator(pattern_text)], ...] = ()
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
    def _require_files_with_dump(self) -> Self:
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
        if problem := problem_of_servers(self.servers):
            raise ValueError(problem)
        return self

    @property
    def servers(self) -> tuple[MySQL, ...]:
        """The servers that have the log, as listed; none for a directory."""
        if self.mysql is None:
            return ()
        return tuple(endpoint.server(self.mysql) for endpoint in self.endpoints) or (self.mysql,)


_TargetText = Annotated[str, AfterValidator(downstream_text)]


class RouteRule(Model):
    """One line of ``routes:``."""

    source: Annotated[str, AfterValidator(pattern_text)] = Field(alias="from")
    """A pattern of source tables."""
    to: Annotated[
        Annotated[_TargetText, Tag(ONE)] | Annotated[tuple[_TargetText, ...], Field(min_length=1), Tag(SEVERAL)],
        Discriminator(form_of),
    ]
    """The downstream table that their rows go to, or a list of several, to each of which they all go. ``{1}``, ``{2}``,
    … stand for what the ``*`` and ``?`` of ``from`` stood for, in order; ``{schema}``, ``{table}``, ``{source}`` for
    the names. Where several tables may meet in one, each row has ``_source``, ``_schema`` and ``_table`` beside it,
    which join the key."""
    sources: tuple[Annotated[str, AfterValidator(source_pattern)], ...] = ()
    """The sources that it is about, by name or pattern. Without any it is about all, of which one has the table: tables
    of several in one are wanted where several are named, as by ``["*"]``."""
    keys: Literal["source", "shared"] = "source"
    """``source``: equal keys in two source tables are two rows. ``shared``: they are one, which is as the table left it
    that wrote it last, and gone where that one deleted it; the three columns say which one it was."""

    def route(self) -> Route:
        to = (self.to,) if isinstance(self.to, str) else self.to
        return Route(Pattern.parse(self.source), tuple(map(Pattern.parse, to)), self.sources, self.keys == "shared")


class EventRule(Model):
    """One of ``filters:``: which events of tables are filtered, by their kind or a statement's text."""

    tables: Patterns
    """Patterns of the tables that it is about; the last that matches decides."""
    events: tuple[Annotated[str, BeforeValidator(folded_name)], ...] = ()
    """Kinds of events: ``insert``, ``update``, ``delete``, ``truncate table``, ``all ddl`` …"""
    sql_pattern: tuple[Annotated[str, AfterValidator(regex_text)], ...] = Field((), alias="sql-pattern")
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
        patterns = tuple(re.compile(pattern, re.IGNORECASE) for pattern in self.sql_pattern)
        return EventFilter(name, Scope.parse(self.tables), self.events, patterns, self.action)


class RowRule(Model):
    """One of ``row_filters:``: which changes of rows are filtered, by their values."""

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
    def _require_setting(self) -> Self:
        if not any((self.insert, self.update_old, self.update_new, self.delete)):
            keys = ", ".join(str(field.alias) for field in type(self).model_fields.values() if field.alias)
            raise ValueError(f"needs one of {keys}")
        return self

    def rule(self, name: str) -> RowFilter:
        texts = (self.insert, self.update_old, self.update_new, self.delete)
        return RowFilter(name, Scope.parse(self.tables), *(Condition.parse(text) if text else None for text in texts))


class MaskRule(Model):
    """Replacement of a column's values: exactly one of the three."""

    hash: SecretStr | None = None
    """The salt of a SHA-256 of the value: write ``${NAME}``, which reads the environment."""
    truncate: int | None = Field(None, ge=0)
    """Number of characters or bytes of the value's beginning that are kept."""
    constant: str | int | None = None
    """A value that takes the place of all others."""

    @model_validator(mode="after")
    def _require_one_mask(self) -> Self:
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


class ComputedRule(Model):
    """A column that is computed from others of the same row."""

    sql: str
    """An expression of MySQL over the row as the log has it."""
    type: Annotated[str, AfterValidator(computed_type)]
    """The column's type in the lake, which has to hold every value: BOOLEAN, SMALLINT, INT, BIGINT, DECIMAL(p,s),
    DOUBLE, STRING, BINARY, DATE, TIMESTAMP_NTZ or TIMESTAMP."""

    @model_validator(mode="after")
    def _can_be_evaluated(self) -> Self:
        try:
            Computed.parse("", self.sql, self.type)
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return self


class ColumnsRule(Model):
    """One of ``columns:``: which columns are left out of tables, which are masked, and which are added."""

    tables: Patterns
    """Patterns of the tables that it is about; the last that matches decides."""
    include: tuple[ColumnName, ...] | None = Field(None, min_length=1)
    """The columns that are seen; all others are left out."""
    exclude: tuple[ColumnName, ...] = ()
    """The columns that are left out."""
    mask: dict[ColumnName, MaskRule] = Field({})
    """Replacement of columns' values."""
    computed: dict[Annotated[str, AfterValidator(computed_name)], ComputedRule] = Field({})
    """Columns that are added, by name, behind those of the source."""

    @model_validator(mode="after")
    def _require_one_rule(self) -> Self:
        if self.include is None and not (self.exclude or self.mask or self.computed):
            raise ValueError("needs include, exclude, mask or computed")
        if self.include is not None and self.exclude:
            raise ValueError("has include and exclude; all that include does not name is left out")
        contradiction = next((name for name in self.mask if self.rule("").is_left_out(name)), None)
        if contradiction is not None:
            raise ValueError(f"masks {contradiction}, which it leaves out")
        return self

    def rule(self, name: str) -> ColumnRule:
        include = None if self.include is None else frozenset(self.include)
        masks = {column: masking.mask() for column, masking in self.mask.items()}
        computed = tuple(Computed.parse(full_name, rule.sql, rule.type) for full_name, rule in self.computed.items())
        return ColumnRule(name, Scope.parse(self.tables), include, frozenset(self.exclude), masks, computed)


class Spark(Model):
    """Session of Spark: ``master`` in this process (the default), or ``remote``, a Spark Connect address."""

    master: str = "local[*]"
    """A master's address; ``local[*]`` is this process."""
    remote: Annotated[str, AfterValidator(remote_text)] | None = None
    """A Spark Connect address, like ``sc://spark.internal:15002``, in place of ``master``."""
    archive: str | None = None
    """Archive of ``stratalog package``, for executors that do not have this environment: with ``remote``, or a
    cluster's address as ``master``. Executors unpack it and run its Python."""
    task_bytes: int = Field(32 << 20, ge=1 << 20)
    """Bytes of log, or of silver's files, that one task takes at most; what is larger is split by keys. The memory of a
    task grows with it: some twenty times as much."""
    job_bytes: int | None = Field(None, ge=0)
    """Bytes of log, or of silver's files, from which a layer's work is a job of Spark. Tasks of a smaller one run in
    the process of the run itself, one after the other, and Spark is not started for them. Without it 4 MiB with
    ``run --follow``, and 0 with other verbs: all work is Spark's, but for ``maintain`` of up to 256 MiB of files."""
    keep: Annotated[Duration, AfterValidator(at_least_a_second)] | None = None
    """Time that Spark stays after a run, for the next one: a server of this user on this machine, which runs of the
    same version, settings and environment attach to; not with ``remote``, or a cluster's address as ``master``. Without
    it each run starts its own."""
    conf: dict[str, str] = Field({})
    """Further settings of Spark."""
    _lake_store: LakeStore | None = PrivateAttr(None)

    @property
    def lake_store(self) -> LakeStore | None:
        """The object store of the pipeline's lake, which the session has to reach."""
        return self._lake_store

    @model_validator(mode="after")
    def _keeps_what_is_local(self) -> Self:
        if self.keep is not None and (self.remote or not self.master.startswith("local")):
            raise ValueError("keep is for Spark on this machine, without remote: and with a local master; remove keep")
        return self

    def reaching(self, store: LakeStore | None) -> "Spark":
        """The same settings for a lake on an object store."""
        settings = self.model_copy()
        settings._lake_store = store  # noqa: SLF001 -- of the same class
        return settings


class Retention(Model):
    """Retention of what is not needed any more. Durations are written like 30d, 36h or 90m."""

    bronze: Duration | None = None
    """Limits of ``gc``, if every reader is done with it: log files whose newest transaction is older. Without it
    nothing is removed."""
    fold: bool = False
    """True if ``maintain`` folds silver's windows of log that ``gc`` has removed into one per table: a row per key, and
    none for what was deleted. Such windows are not replayed, not even from copies of the log."""
    versions: Annotated[Duration, AfterValidator(at_least_a_day)] = timedelta(days=7)
    """Time that ``maintain`` keeps data files that only older versions of a table name; at least ``1d``."""
    margin: Duration | None = None
    """A warning where the source has less time of its log left before bronze's end, and so was near to losing some;
    not for a log that still has its file number 1."""
    margin_bytes: int | None = Field(None, ge=0)
    """The same in bytes of log."""


class OnlineDdl(Model):
    """Tools that change tables online, by copies of them that take their names in the end."""

    follow: tuple[Literal["gh-ost", "pt-osc"], ...] = ("gh-ost", "pt-osc")
    """The tools whose working tables are left out of the lake."""
    real: tuple[Annotated[str, AfterValidator(table_pattern)], ...] = ()
    """Patterns of tables that only have names like those of working tables."""


class Reports(Model):
    """The HTML page of each source, which Dagster's runs rewrite and link to."""

    to: LocalPath | None = Path("reports")
    """The folder of the pages, on the machine that runs; ``null`` writes none."""
    url: str | None = None
    """Address at which a web server of yours serves that folder; Dagster's links then lead there. Without it they are
    paths."""

    @field_validator("url")
    @classmethod
    def _on_the_web(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("must begin with http:// or https://: browsers follow no link from a page to a file")
        return value


class Pipeline(Model):
    """A whole pipeline.yaml. ``path`` is the file it was read from; relative paths count from its folder."""

    path: Path
    lake: Annotated[str, AfterValidator(lake_text)]
    """Path of the tables: a local path, a bucket of S3 (``s3a://bucket/prefix``) or Google (``gs://bucket/prefix``), or
    a container on Azure (``abfss://container@account.dfs.core.windows.net/prefix``)."""
    store: ObjectStore = ObjectStore()
    """Access to the object store of an ``s3a://``, ``abfss://`` or ``gs://`` lake."""
    sources: dict[str, SourceSettings] = Field(min_length=1)
    """The logs, by name; the name is part of table paths."""
    tables: tuple[Annotated[str, AfterValidator(pattern_text)], ...] = ()
    """Patterns ``schema.table`` with ``*`` and ``?``; ``!`` excludes, the last match wins. Without any: all but the
    system schemas."""
    routes: tuple[RouteRule, ...] = ()
    """Other names downstream than the source's own, and which tables are merged into one."""
    downstream: tuple[ModeRule, ...] = ()
    """Downstream tables that keep more than the source's current rows, have a feed, or have to change."""
    event_rules: dict[str, EventRule] = Field({}, alias="filters")
    """Rules, by name, about which events are left out."""
    row_rules: dict[str, RowRule] = Field({}, alias="row_filters")
    """Rules, by name, about which changes are left out by their values."""
    column_rules: dict[str, ColumnsRule] = Field({}, alias="columns")
    """Rules, by name, about which columns are left out, and which are masked."""
    deliveries: dict[str, Delivery] = Field({})
    """Downstream tables that are written into other databases, by the delivery's name."""
    spark: Spark = Spark()
    """Settings of Spark."""
    catalog: Catalog | None = None
    """A catalog of Spark in which the lake's tables are registered after a run; ``{}`` takes all defaults."""
    retention: Retention = Retention()
    """Age at which data is removed."""
    compat: Literal["full", "plain"] = "full"
    """``plain``: no column mapping, no type widening and no deletion vectors, for readers that lack them; then ADD
    COLUMN is the only change of columns that is followed."""
    iceberg: bool = False
    """True if downstream tables are Iceberg tables too: each version is a snapshot of the same data files. By table
    under ``downstream``."""
    iceberg_catalog: IcebergCatalog | None = None
    """An Iceberg catalog (REST, AWS Glue, Hive metastore) in which these tables are registered after each run."""
    on_drop: Literal["keep", "drop"] = "keep"
    """``keep``: rows downstream stay when their table is dropped, until it is created again. ``drop``: they go with
    it."""
    on_unnamed: Literal["stop", "number"] = "stop"
    """Treatment of a table where nothing tells the names of its columns: no log, statement, server or schema dump.
    ``stop``: it stops. ``number``: its columns are ``@1``, ``@2``, … by position, and its rows are counted, as those of
    a table without a key."""
    on_incompatible: Literal["stop", "new_column"] = "stop"
    """``stop``: an ALTER TABLE that gives a column a type which does not hold every value stops its table.
    ``new_column``: what the column held stays under another name, and a new column begins, NULL in older rows."""
    on_cascade: CascadeChoices = ()
    """Treatment of a child table whose rows the server changes by a foreign key (``ON DELETE CASCADE`` and the like)
    without logging that. ``warn``: it continues, and every surface names it. ``stop``: it stops before the first change
    of the parent by which the key may change its rows. ``ignore``: it continues, and nothing is said. ``apply``: what
    is done to its rows is derived, or it stops. Or a list of lines with ``tables`` and ``action``. Tables without a
    choice have ``apply`` where everything is known that it needs, and ``warn`` where not; in lakes that an earlier
    version began ``warn``."""
    online_ddl: OnlineDdl = OnlineDdl()
    """Names of tables that tools for online schema changes only work with."""
    verify: bool = False
    """True if Dagster has a check ``equals_source`` for every downstream table, which compares it with the source."""
    max_lag: Duration | None = None
    """Distance from its source at which Dagster's check of bronze warns; nothing is asked of it without."""
    max_verify_age: Duration | None = None
    """Time within which each table has to be compared with its server (``stratalog verify``), or ``status`` ends with
    exit status 1 and Dagster alerts; not asked without."""
    reports: Reports = Reports()
    """The page of each source."""
    owners: tuple[Annotated[str, AfterValidator(owner_text)], ...] = ()
    """Owners of all assets in Dagster: mail addresses, or ``team:NAME``."""

    @property
    def scope(self) -> Scope:
        helpers = Helpers(self.online_ddl.follow, tuple(map(Pattern.parse, self.online_ddl.real)))
        return replace(Scope.parse(self.tables), helpers=helpers)

    @property
    def cascade_actions(self) -> CascadeActions:
        return CascadeActions.parse(self.on_cascade)

    @property
    def routing(self) -> Routes:
        return Routes(tuple(rule.route() for rule in self.routes), Modes.from_rules(self.downstream))

    def has_iceberg(self, schema: str, table: str) -> bool:
        """True if a downstream table is an Iceberg table too."""
        decided = self.routing.modes.has_iceberg(schema, table)
        return self.iceberg if decided is None else decided

    @property
    def may_have_iceberg(self) -> bool:
        """True if any downstream table may be an Iceberg table too."""
        return self.iceberg or any(rule.iceberg for rule in self.downstream)

    @property
    def filters(self) -> Filters:
        """The rules over events, rows and columns."""
        return Filters(
            tuple(rule.rule(name) for name, rule in self.event_rules.items()),
            tuple(rule.rule(name) for name, rule in self.row_rules.items()),
            tuple(rule.rule(name) for name, rule in self.column_rules.items()),
        )

    @property
    def endpoints_file(self) -> Path:
        """File of endpoints that were found unavailable, beside pipeline.yaml; a hint, and nothing is lost with it."""
        return RunFile.ENDPOINTS.path_for(self.path)

    @property
    def tables_file(self) -> Path:
        """The list of tables seen so far, beside pipeline.yaml; Dagster's graph is built from it."""
        return RunFile.TABLES.path_for(self.path)
