"""Lines of one format for a described log. Put here: writing them. Not here: what they are."""

import json
from typing import Any

from spark_jobs.changes.feed import changes_of_files
from spark_jobs.changes.lines import Output, wanted_tables
from tests.binlogs.segment_spec import SegmentSpec


def texts(spec: SegmentSpec, form: str, *tables: str, **options: Any) -> list[str]:
    """The lines, without newlines."""
    output = Output.of(form, **options)
    pieces = changes_of_files([("b.000001", iter([spec.to_bytes()]))], wanted_tables(tables), output=output)
    return "".join(pieces).splitlines()


def objects(spec: SegmentSpec, form: str, *tables: str, **options: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in texts(spec, form, *tables, **options)]
