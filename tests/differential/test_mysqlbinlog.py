"""The listing of events against mysqlbinlog and mariadb-binlog, where a server that came with one is here."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_jobs.binlog.events.types import type_name
from spark_jobs.binlog.slices.listing import list_events
from tests.differential.comparison import assert_same_events
from tests.services.servers import FOLDERS, SERVERS, tool_of

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LOGS = sorted([*ROOT.glob("tests/recorded/*.000001"), *ROOT.glob("spark_jobs/demo/recorded_logs/mysql-bin.0*")])
_TOOLS = {"mysql": ("mysqlbinlog",), "mariadb": ("mariadb-binlog",)}


def tool_for(log: Path) -> list[str]:
    """The newest tool of the vendor that wrote the log. Skips where there is none."""
    vendor = "mariadb" if log.name.startswith("mariadb") else "mysql"
    for server in reversed(SERVERS):
        if server.startswith(vendor) and (tool := tool_of(server, *_TOOLS[vendor])):
            return tool
    pytest.skip(f"{_TOOLS[vendor][0]} is not here: name the folder of a server in {FOLDERS} (tests/README.md)")


def dumped(tool: list[str], log: Path) -> Iterator[tuple[int, str, int, int]]:
    """Offset, type, server id and end of every event: of each it prints the header's 19 bytes in hex."""
    command = [*tool, "--no-defaults", "--hexdump", "--force-read", str(log)]
    output = subprocess.run(command, capture_output=True, check=True).stdout
    for line in output.splitlines():
        sign, *words = line.replace(b"|", b" ").split() or [b""]
        if sign == b"#" and len(words) == 20 and all(len(word) == 2 for word in words[1:]):
            wire = bytes.fromhex(b"".join(words[1:]).decode())
            server_id, stop = (int.from_bytes(wire[at : at + 4], "little") for at in (5, 13))
            yield int(words[0], 16), type_name(wire[4]), server_id, stop


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.name)
def test_events_are_those_that_the_tool_prints(log: Path) -> None:
    tool_events = list(dumped(tool_for(log), log))
    own_events = [
        (event.offset, event.type, event.server_id, event.stop)
        for event in list_events(iter([log.read_bytes()]), log.name)
    ]
    assert tool_events
    if log.name.startswith("mariadb"):
        # It prints compressed rows as plain ones, and a statement's text with the place of the table map behind it.
        own_events = [
            (at, kind.replace("rows_compressed", "rows"), server_id, stop) for at, kind, server_id, stop in own_events
        ]
        offsets = [
            own_event[0] if tool_event[1] == "Annotate_rows" else tool_event[0]
            for own_event, tool_event in zip(own_events, tool_events, strict=True)
        ]
        tool_events = [(at, *tool_event[1:]) for at, tool_event in zip(offsets, tool_events, strict=True)]
    else:
        tool_events = [
            tool_event for tool_event in tool_events if tool_event[3]
        ]  # what is inside a compressed transaction has no end
    assert_same_events(own_events, tool_events)
