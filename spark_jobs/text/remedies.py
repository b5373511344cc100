"""Remedies for stops: every message that is reported ends with an option, a verb or a page.

Messages say what is wrong where the facts are known; many say what to do as well. To the others ``advised`` adds the
remedy of their kind, and where no kind fits, that of their class. So a message is never reported without one.

Put here: the kinds of stops, and the remedy of each. Not here: what is wrong (the module that raises), or who reports
it: pipeline/tables_at_once.py, the command line, Dagster's steps.
"""

import re
from dataclasses import dataclass

from spark_jobs.errors import (
    AccessDenied,
    AnotherLog,
    ConfigError,
    DecodeError,
    DeliveryDenied,
    DeliveryError,
    LakeError,
    LostRace,
    SourceError,
    StratalogError,
    TableStopped,
    Unsupported,
)
from spark_jobs.text.codes import coded


@dataclass(frozen=True, slots=True)
class Kind:
    """Stops whose message matches a pattern. remedy: with {source}, {table} and {at} for what the stop is about."""

    pattern: str
    remedy: str


_WITHOUT = (
    'exclude the table (tables: "!{table}"), or start it after the statement in a separate pipeline and load it '
    "(stratalog docs howto/schema-change#continue-after-a-table-has-stopped)"
)
_SKIP = (
    "if you can do without the event, quarantine it: stratalog skip --source {source} --at {at} --table {table} "
    "(stratalog docs howto/broken-table#quarantine-the-event-that-stops-the-table)"
)
_DUMP = "stratalog docs howto/new-source#binlog-files-instead-of-a-server"

KINDS: tuple[Kind, ...] = (
    # Statements, and rows that do not fit what they left.
    Kind(
        r"no new column begins, because|applies to it, and it has retired columns|values are hashed as text", _WITHOUT
    ),
    Kind(
        r"does not keep every value of column|may have changed (?:NULL in|0 in|text of|numbers of) column",
        "set on_incompatible: new_column, and the next run starts a new column "
        "(stratalog docs howto/schema-change#types-that-do-not-hold-every-value)",
    ),
    Kind(
        r"is not known before the table's next row",
        "change a row of the table at the server, an UPDATE that gives it another value, and run again "
        "(stratalog docs limits#ddl-that-stops-a-table)",
    ),
    Kind(
        r"\b(?:INSERT|UPDATE|DELETE|REPLACE|LOAD)\b[^:]* at \S+ changes the table, which is not applied|"
        r" at \S+ (?:fills the table|changes rows|runs a routine, logged) in statement format",
        "SET GLOBAL binlog_format = 'ROW', then quarantine the statement: stratalog skip --source {source} --at {at} "
        "--table {table}; stratalog verify names the rows that lack it "
        "(stratalog docs howto/broken-table#quarantine-the-event-that-stops-the-table)",
    ),
    Kind(
        r"is to stop the table, by|is filtered by .* and cannot be|would have to judge",
        "change that rule in pipeline.yaml and run again (stratalog docs filters)",
    ),
    Kind(
        r"changes the key of|rows are identified by|rows were identified by|change of the key|"
        r"drops the index by which rows are identified|was created again at .* with another key",
        _WITHOUT,
    ),
    Kind(
        r"columns differ|no statement .*says why|leads to \(|has types \(|which of them are the same",
        "change the table back at the server, or repeat the change there with logging on "
        "(stratalog docs howto/broken-table#the-columns-differ-from-the-servers); if neither is possible, " + _WITHOUT,
    ),
    Kind(
        r"names? (?:of )?its columns|names of its columns|names the columns|tells? the character set|"
        r"definition (?:was read at|by .* does not fit|does not fit)|does not tell them|does not name its columns",
        "SET GLOBAL binlog_row_metadata = 'FULL' for the log to come; for the existing log name a schema dump "
        "(schema_dump:) or start after it "
        "(stratalog docs howto/schema-change#logs-that-begin-after-the-create-table)",
    ),
    Kind(
        r" at \S+ (?:changes the table|gives |is not followed|names |is about|does not say)|is not in the log|"
        r"has dropped the table",
        _WITHOUT,
    ),
    # Changes that are derived from foreign keys.
    Kind(
        r"is one that no typed column holds|which a foreign key is of|foreign keys change rows of it|"
        r"so that its rows cannot be followed|its columns are not known|on_cascade: apply|"
        r"and in which order they do is not known",
        "set on_cascade: warn for the table, run again and mend it (stratalog docs cascades#what-apply-derives)",
    ),
    # Rules, routes, the lake's own tables.
    Kind(
        r"\b(?:columns|row_filters|filters)\.\w|the rules about its columns|under other rules",
        "change that rule in pipeline.yaml and run again (stratalog docs filters)",
    ),
    Kind(
        r"routes|by routes:|several tables|keys: shared|which (?:it|two) .*keys in common|no type holds",
        "route it to a separate table, or make the definitions equal "
        "(stratalog docs routes#what-is-refused-and-what-to-do)",
    ),
    Kind(
        r"compat: plain",
        "exclude the table, or create another lake with compat: full (stratalog docs configuration)",
    ),
    # Tables that are loaded or compared.
    Kind(
        r"cannot be loaded|load began|is read, and waits|was read up to",
        "remove the cause, then load it: stratalog load --source {source} --table {table} "
        "(stratalog docs load#when-a-load-stops)",
    ),
    Kind(
        r"not compared|the server's columns are|at the server and",
        "compare it by queries on both sides, or load it again (stratalog docs verify)",
    ),
    Kind(r"more copies of a row were deleted", "load the table (stratalog docs load#tables-without-a-key)"),
    Kind(
        r"was read at \S+, and|after it was read at",
        "mend it again: stratalog mend --source {source} --table {table} --yes "
        "(stratalog docs mend#rows-that-cannot-be-mended)",
    ),
    Kind(
        r"is locked against writers",
        "then repeat the command (stratalog docs load#tables-without-a-key)",
    ),
    Kind(
        r"has no key, (?:and its engine|and a downstream table)",
        "then load it: stratalog load --source {source} --table {table} (stratalog docs load#tables-without-a-key)",
    ),
    Kind(
        r"read in ranges|its key does not advance", "exclude the table from the load (stratalog docs load#requirements)"
    ),
    # Sources.
    Kind(
        r"not a binlog: it begins with", f"give files as the server writes them, or complete copies of them ({_DUMP})"
    ),
    Kind(r"holds no binlog files", f"copy them there, or correct files: of source {{source}} ({_DUMP})"),
    Kind(r"No such file or directory|Not a directory", "correct the path, or create the file or folder"),
    Kind(
        r"the nearest boundary before it is",
        "name that position (stratalog docs configuration#positions-gtid-sets-and-times)",
    ),
    Kind(r"bronze holds nothing", "stratalog run fills it"),
    Kind(
        r"cannot be reached: .*(?:Connection refused|timed out|[Nn]o route|not known|name resolution)",
        "start the server, or correct host and port of source {source} (stratalog docs configuration#connections)",
    ),
    Kind(
        r"answered: ",
        "give the user the privilege, then run again: stratalog check --connect prints the GRANT "
        "(stratalog docs howto/new-source#at-the-server)",
    ),
    Kind(r"schema dump|the dump is cut|has no end; it is cut|line \d+: ", f"make the schema dump again ({_DUMP})"),
    Kind(
        r"is another log|of several logs|is not the file|another server id|no file in it continues",
        "put copies of this source's own log into the folder (stratalog docs howto/purge#restore-purged-log)",
    ),
    Kind(
        r"GTID|its domain",
        "name a position in place of GTIDs, or see which endpoint has them (stratalog docs failover#when-a-run-stops)",
    ),
    Kind(
        r"cannot be read: |cannot be written: |cannot be made: ",
        "give the user of Stratalog read and write access there, then run again (stratalog docs deployment)",
    ),
    Kind(
        r"bronze (?:holds|goes on|does not hold|begins)|has a hole|schema history",
        "restore the files: stratalog extract --source {source} --archive DIR "
        "(stratalog docs howto/purge#fetch-log-that-bronze-lacks)",
    ),
)

DEFAULTS: dict[type[StratalogError], str] = {
    LostRace: "run again: the next run resumes after the other writer's commit",
    LakeError: (
        "check that the lake can be read and written (stratalog check --connect), then run again (stratalog docs lake)"
    ),
    TableStopped: (
        'remove the cause and run again, or exclude the table (tables: "!{table}") (stratalog docs howto/broken-table)'
    ),
    AccessDenied: (
        "correct the user's password, account or privileges, then run again: stratalog check --connect prints the "
        "GRANT (stratalog docs howto/new-source#at-the-server)"
    ),
    AnotherLog: (
        "give the new log a source name of its own, or set on_new_server: continue "
        "(stratalog docs failover#when-a-run-stops)"
    ),
    SourceError: (
        "stratalog check --connect lists the problems of the source; correct them, then run again "
        "(stratalog docs failover#when-a-run-stops)"
    ),
    DeliveryDenied: (
        "correct the user's password, account or privileges at the target, then deliver again: stratalog check "
        "--connect prints the GRANT (stratalog docs deliveries#privileges)"
    ),
    DeliveryError: (
        "correct the cause at the target, then deliver again: stratalog deliver; delivered rows stay "
        "(stratalog docs deliveries)"
    ),
    DecodeError: (
        "compare the file with the server's, and replace it by a complete copy, or read a replica's "
        "(stratalog docs failover); an event of a table alone can be quarantined with stratalog skip "
        "(stratalog docs howto/broken-table)"
    ),
    StratalogError: "remove the cause, then repeat the command (stratalog docs troubleshooting)",
}
"""Remedies for messages that fit no kind, by class; the nearest ancestor counts."""

_PAGE = re.compile(r"\bstratalog docs \S")
_VERBS = (
    *("add", "alter", "attach", "begin", "bring", "check", "choose", "compact", "connect", "copy", "correct", "create"),
    *("delete", "do", "do not", "either", "end", "export", "fix", "give", "leave", "let", "list", "load", "make"),
    *("mask", "move", "name", "null fits", "put", "remove", "rename", "repeat", "reset", "restore", "route", "run"),
    *("say", "set", "start"),
    *("take", "turn", "unpack", "use", "verify", "wait"),
)
_OWN = re.compile(
    rf"(?:[;.] |, or )(?:where [^;]*?: |or |then |first )?(?:{'|'.join(_VERBS)})\b|"
    r"\bstratalog [a-z]+|SET GLOBAL |\bthe (?:first|next) run\b",
    re.IGNORECASE,
)
_POSITION = re.compile(r"(?:\d+/)?[^\s/:()\[]+\.\d{3,}:\d+")
_EVENT = re.compile(r"(?:\w+: )?(?:[^\s:]+\.[^\s:]+: )?[^\s:]+\.\d{3,}:\d+: ")
_PREFIX = re.compile(r"(?P<source>[A-Za-z_]\w*): (?:(?:\S+\.\d+:\d+: )?(?P<table>[^\s:.]+\.[^\s:.]+)(?: into \S+)?: )?")


def advised(error: StratalogError | str, source: str | None = None, table: object = None) -> str:
    """The message with what to do and its code, once; no remedy is added where the message says one, or names a key.

    source, table: what the stop is about; where they are not given, what the message begins with. A text is that of a
    stopped table.
    """
    cls = type(error) if isinstance(error, StratalogError) else TableStopped
    return coded(_with_remedy(error, cls, source, table), error if isinstance(error, StratalogError) else cls(error))


def _with_remedy(
    error: StratalogError | str, cls: type[StratalogError], source: str | None = None, table: object = None
) -> str:
    # Messages that end with a remedy already, and those about the configuration, stay as they are.
    text = str(error)
    if isinstance(error, ConfigError) or has_remedy(text):
        return text
    # Source, table and position are taken from the message where the caller does not name them.
    prefix = _PREFIX.match(text)
    table = table or (prefix["table"] if prefix else None)
    remedy = _SKIP if table and _is_about_event(text, cls) else _usual_remedy(text, cls)
    position = _POSITION.search(text)
    source = source or (prefix["source"] if prefix else None)
    return f"{text}; {filled(remedy, source, table, position[0] if position else None)}"


def filled(remedy: str, source: str | None = None, table: object = None, at: str | None = None) -> str:
    """A remedy with names in the places of {source}, {table} and {at}; words such as SOURCE where there is none."""
    names = {"source": source or "SOURCE", "table": str(table or "DB.TABLE"), "at": at or "POSITION"}
    for name, value in names.items():
        remedy = remedy.replace(f"{{{name}}}", value)
    return remedy


def remedy_of(cls: type[StratalogError], text: str) -> str | None:
    """Remedy for a message of a class, with {source}, {table} and {at}; None where the message says it itself."""
    if has_remedy(text):
        return None
    if issubclass(cls, ConfigError):
        return "see the allowed values and an example (stratalog docs reference/configuration), or --help"
    if issubclass(cls, Unsupported) and kind_of(text) is None:
        return (
            "see what is not supported (stratalog docs limits); the message of the stopped table has more "
            "(stratalog docs howto/broken-table)"
        )
    return _usual_remedy(text, cls)


def has_own_remedy(cls: type[StratalogError], text: str) -> bool:
    """True if the remedy of a message is neither in itself nor that of all messages of its class."""
    return remedy_of(cls, text) not in (None, remedy_of(cls, ""))


def kind_of(text: str) -> Kind | None:
    """The first kind that a message is of."""
    return next((kind for kind in KINDS if re.search(kind.pattern, text)), None)


def has_remedy(text: str) -> bool:
    """True if a message names a remedy itself."""
    return bool(_PAGE.search(text) or _OWN.search(text))


def _is_about_event(text: str, cls: type[StratalogError]) -> bool:
    """True if a table stops at one event of its log that cannot be decoded."""
    return issubclass(cls, DecodeError) or (issubclass(cls, TableStopped) and bool(_EVENT.match(text)))


def _usual_remedy(text: str, cls: type[StratalogError]) -> str:
    # The kinds are about sources and the lake; a target's server may say the same words of something else.
    kind = None if issubclass(cls, DeliveryError) else kind_of(text)
    return kind.remedy if kind else next(DEFAULTS[ancestor] for ancestor in cls.__mro__ if ancestor in DEFAULTS)
