"""FORMAT.md cannot fall behind the registry: its list of events is compared with it."""

import re
from pathlib import Path

from spark_jobs import binlog
from spark_jobs.binlog import kernels
from spark_jobs.binlog.event_types import EVENT_TYPES, EventType

PAGE = (Path(str(binlog.__file__)).parent / "FORMAT.md").read_text(encoding="utf-8")

TREATMENTS = {
    kernels.STOPS: "stops",
    kernels.CONTROL: "control",
    kernels.IGNORED: "counted",
    kernels.INNER: "counted",
    kernels.QUERY: "statement",
    kernels.LOAD_QUERY: "statement",
    kernels.QUERY_COMPRESSED: "statement",
    kernels.XA_PREPARE: "kept",
}


def treatment(event: EventType) -> str:
    return TREATMENTS.get(event.meaning, "decoded")


def test_the_list_of_events() -> None:
    section = PAGE.partition("## Event types")[2].partition("\n## ")[0]
    listed = {
        int(code): (name, word)
        for code, name, word in re.findall(r"^\| (\d+) \| (.+?) \| (\w+) \|$", section, re.MULTILINE)
    }
    assert listed == {code: (event.name, treatment(event)) for code, event in EVENT_TYPES.items()}


def test_every_layout_that_is_read_has_a_table() -> None:
    titles = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
    codes = {
        int(code) for title in titles for group in re.findall(r"\((\d[\d, ]*)\)", title) for code in group.split(",")
    }
    read = {code for code, event in EVENT_TYPES.items() if treatment(event) in {"decoded", "statement"}}
    assert read - codes == {code for code in read if EVENT_TYPES[code].meaning == kernels.XID}


def test_tables_are_whole() -> None:
    """Each row has as many cells as its table's head."""
    for table in re.findall(r"(?:^\|.*\n)+", PAGE, re.MULTILINE):
        widths = {len(re.split(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1, table
