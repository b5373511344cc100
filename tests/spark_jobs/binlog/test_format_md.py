"""FORMAT.md cannot fall behind the registries: its lists of events, types and metadata are compared with them."""

import re
from pathlib import Path

from spark_jobs import binlog
from spark_jobs.binlog.events.table_map import _FIELDS
from spark_jobs.binlog.events.types import EVENT_TYPES, EventType
from spark_jobs.binlog.kernels import event_cells, json_scalars
from spark_jobs.binlog.types import TYPES

PAGE = (Path(str(binlog.__file__)).parent / "FORMAT.md").read_text(encoding="utf-8")

TREATMENTS = {
    event_cells.STOPS: "stops",
    event_cells.CONTROL: "control",
    event_cells.IGNORED: "counted",
    event_cells.INNER: "counted",
    event_cells.QUERY: "statement",
    event_cells.LOAD_QUERY: "statement",
    event_cells.QUERY_COMPRESSED: "statement",
    event_cells.XA_PREPARE: "kept",
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
    codes_read = {code for code, event in EVENT_TYPES.items() if treatment(event) in {"decoded", "statement"}}
    assert codes_read - codes == {code for code in codes_read if EVENT_TYPES[code].meaning == event_cells.XID}


def rows_of(section: str, head: str) -> list[list[str]]:
    """The cells of the rows of a section's table whose head begins so."""
    text = PAGE.partition(f"## {section}")[2].partition("\n## ")[0]
    _, _, table = text.partition(f"\n| {head} |")
    lines = table.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_list_of_column_types() -> None:
    listed = [int(code) for cells in rows_of("Values", "type") for code in cells[1].split(",")]
    assert sorted(listed) == sorted(TYPES)


def test_types_have_the_metadata_that_is_listed() -> None:
    """As many cells of it as bytes, but for those whose two bytes are one thing, which the list says."""
    without = {int(code) for cells in rows_of("Values", "type") for code in cells[1].split(",") if not cells[2]}
    assert without == {code for code, kind in TYPES.items() if not kind.meta_size}


def test_the_list_of_optional_metadata() -> None:
    listed = {int(cells[0]): cells[3] for cells in rows_of("TABLE_MAP", "field")}
    assert set(listed.values()) == {"read", "passed over"}
    assert {number for number, treatment in listed.items() if treatment == "read"} == set(_FIELDS)


def test_the_list_of_json_types() -> None:
    listed = {int(code) for cells in rows_of("JSON documents", "type") for code in cells[0].split(",")}
    assert listed == {*range(json_scalars.JSON_SMALL_OBJECT, json_scalars.JSON_STRING + 1), json_scalars.JSON_OPAQUE}


def test_every_layout_has_its_source() -> None:
    """Beside its table or in the list at the head of the page."""
    for title in ("FORMAT_DESCRIPTION", "XID", "TABLE_MAP", "Row events", "Values", "JSON documents"):
        section = PAGE.partition(f"## {title}")[2].partition("\n## ")[0]
        assert re.search(r"Sources?: .*`\S+\.(h|cc)`", section), title


def test_tables_are_whole() -> None:
    """Each row has as many cells as its table's head."""
    for table in re.findall(r"(?:^\|.*\n)+", PAGE, re.MULTILINE):
        widths = {len(re.split(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1, table
