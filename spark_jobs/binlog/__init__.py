"""The binlog decoder: bytes of MySQL's and MariaDB's binary logs to slices, events and Arrow columns.

It does no I/O, but that FileDecoder.read reads the file it is given, and knows neither Spark nor Dagster: executors
need nothing else of the project but ``errors``, ``log`` and ``text``.
FORMAT.md beside this file gives the layouts as offset tables.

Put here: what callers outside this package import. Not here: any code.
"""

from spark_jobs.binlog.events.format_description import MAGIC, FormatDescription, check_magic
from spark_jobs.binlog.events.query_event import Moment, Session, read_session, read_session_variables
from spark_jobs.binlog.events.redaction import NOT_JUDGED, Rule, same_but_redacted
from spark_jobs.binlog.events.skip import EventAt, events_of, passed_over
from spark_jobs.binlog.events.slice_bytes import Scans, SliceBytes
from spark_jobs.binlog.events.table_map import Column, TableDefinition, TableName, parse_table_map, same_layout
from spark_jobs.binlog.events.types import EVENT_TYPES, EventType
from spark_jobs.binlog.events.xa import XaStep, xa_step
from spark_jobs.binlog.rows.changes import Changes, Presence, comparable_text, comparable_texts
from spark_jobs.binlog.rows.decoder import Decoder
from spark_jobs.binlog.rows.erasure import ErasedSlice, SliceEraser
from spark_jobs.binlog.rows.file_decoder import FileDecoder
from spark_jobs.binlog.rows.located_events import written_head
from spark_jobs.binlog.rows.statement_texts import SliceTexts, StatementTexts
from spark_jobs.binlog.slices.definitions import Definitions, definitions_of
from spark_jobs.binlog.slices.listing import Event, Summary, TypeCount, list_events, summarize
from spark_jobs.binlog.slices.marks import Mark, Marks, SliceMarks, transaction_starts
from spark_jobs.binlog.slices.slicer import REDACTED, SLICE_SCHEMA, Slicer
from spark_jobs.binlog.slices.transaction_index import Commits, FileHead, read_commits, read_head
from spark_jobs.binlog.types import OLD_TWINS

__all__ = [
    "EVENT_TYPES",
    "MAGIC",
    "NOT_JUDGED",
    "OLD_TWINS",
    "REDACTED",
    "SLICE_SCHEMA",
    "Changes",
    "Column",
    "Commits",
    "Decoder",
    "Definitions",
    "ErasedSlice",
    "Event",
    "EventAt",
    "EventType",
    "FileDecoder",
    "FileHead",
    "FormatDescription",
    "Mark",
    "Marks",
    "Moment",
    "Presence",
    "Rule",
    "Scans",
    "Session",
    "SliceBytes",
    "SliceEraser",
    "SliceMarks",
    "SliceTexts",
    "Slicer",
    "StatementTexts",
    "Summary",
    "TableDefinition",
    "TableName",
    "TypeCount",
    "XaStep",
    "check_magic",
    "comparable_text",
    "comparable_texts",
    "definitions_of",
    "events_of",
    "list_events",
    "parse_table_map",
    "passed_over",
    "read_commits",
    "read_head",
    "read_session",
    "read_session_variables",
    "same_but_redacted",
    "same_layout",
    "summarize",
    "transaction_starts",
    "written_head",
    "xa_step",
]
