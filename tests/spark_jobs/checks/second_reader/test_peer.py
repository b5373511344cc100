"""python-mysql-replication without a server."""

import sys

import pytest

from spark_jobs.binlog import FormatDescription, TableName, parse_table_map
from spark_jobs.checks.second_reader.peer import PeerDecoder, RawEvent, events_in, without_metadata
from spark_jobs.errors import ConfigError
from tests.binlogs.segment_spec import Insert, SegmentSpec, Table, Update
from tests.binlogs.segment_types import INT, VARCHAR

SPEC = SegmentSpec(
    tables=[Table("shop.t", key=["id"], id=INT.NOT_NULL, note=VARCHAR(20))],
    changes=[Insert("shop.t", (1, "ä")), Update("shop.t", (1, "ä"), (2, None))],
)
CONTENT = SPEC.to_bytes()
EVENTS = list(events_in(CONTENT, 0))
HEAD = FormatDescription.parse(EVENTS[0][2], "b.000001:4")
MAP = next(wire for _, code, wire in EVENTS if code == 19)
NAME = TableName("shop", "t")


def test_events_have_their_offsets() -> None:
    assert [offset for offset, _, _ in EVENTS] == list(SPEC.offsets())[: len(EVENTS)]


@pytest.mark.parametrize("map_wire", [MAP, without_metadata(MAP, HEAD.footer)])
def test_rows_are_read_with_the_metadata_of_the_log_or_of_a_definition(map_wire: bytes) -> None:
    peer, definition = PeerDecoder(HEAD), parse_table_map(MAP, HEAD, "b.000001:4")
    events = [RawEvent(at, code, wire, map_wire, NAME) for at, code, wire in EVENTS if code in (30, 31)]
    (insert,), (update,) = (peer.rows(event, definition) for event in events)
    assert (insert.before, insert.after) == (None, [1, "ä"])
    assert (update.before, update.after) == ([1, "ä"], [2, None])


def test_a_map_without_metadata_says_types_alone() -> None:
    definition = parse_table_map(without_metadata(MAP, HEAD.footer), HEAD, "b.000001:4")
    assert not definition.has_names()
    assert [column.type_code for column in definition.columns] == [3, 15]


def test_a_package_that_is_missing_is_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymysqlreplication.packet", None)
    with pytest.raises(ConfigError, match=r"needs the package mysql-replication, which is not installed.*pip install"):
        PeerDecoder(HEAD)
