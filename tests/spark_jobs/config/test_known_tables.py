import json
import threading
from pathlib import Path

import pytest

from spark_jobs.config import known_tables
from spark_jobs.errors import ConfigError

ORDERS, PEOPLE = ("shop", "shop", "orders"), ("crm", "crm", "people")


def test_nothing_is_seen_before_the_first_run(tmp_path: Path) -> None:
    assert known_tables.read(tmp_path / "pipeline.tables.json") == []


def test_new_tables_are_told_once(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.tables.json"
    assert known_tables.add(path, {ORDERS}) == {ORDERS}
    assert known_tables.add(path, {ORDERS, PEOPLE}) == {PEOPLE}
    assert known_tables.add(path, {ORDERS}) == set()
    assert known_tables.read(path) == [PEOPLE, ORDERS]


def test_a_source_s_server_is_kept_beside_its_tables(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.tables.json"
    assert known_tables.servers(path) == {}
    assert known_tables.add(path, set(), {"shop": "mariadb"}) == set()
    known_tables.add(path, {ORDERS})
    known_tables.add(path, {PEOPLE}, {"crm": "mysql"})
    assert known_tables.servers(path) == {"shop": "mariadb", "crm": "mysql"}
    assert known_tables.read(path) == [PEOPLE, ORDERS]


def test_a_file_that_cannot_be_written_stops_no_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "gone" / "pipeline.tables.json"
    assert known_tables.add(path, {ORDERS}) == {ORDERS}
    assert caplog.messages == [f"{path}: cannot be written: No such file or directory"]


def test_nothing_new_leaves_no_file(tmp_path: Path) -> None:
    assert known_tables.add(tmp_path / "pipeline.tables.json", set()) == set()
    assert list(tmp_path.iterdir()) == []


def test_names_are_written_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.tables.json"
    odd = ("shop", "a b", 'tä"ble')
    known_tables.add(path, {odd})
    assert known_tables.read(path) == [odd]
    assert json.loads(path.read_text(encoding="utf-8")) == {
        "tables": [{"source": "shop", "schema": "a b", "table": 'tä"ble'}]
    }
    assert [path.name for path in tmp_path.iterdir()] == ["pipeline.tables.json"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"tables": [1]}',
        '{"tables": [{"source": "shop"}]}',
        '{"tables": 1}',
        '{"tables": [], "servers": []}',
    ],
)
def test_another_file_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "pipeline.tables.json"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        known_tables.read(path)
    assert str(refused.value) == f"{path}: not a list of tables; delete it, the next run writes it again"


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.tables.json"
    known_tables.add(path, {ORDERS})
    stop = threading.Event()
    lengths = []

    def read_until_stop() -> None:
        while not stop.is_set():
            lengths.append(len(known_tables.read(path)))

    reader = threading.Thread(target=read_until_stop)
    reader.start()
    for number in range(50):
        known_tables.add(path, {("shop", "shop", f"t{number}")})
    stop.set()
    reader.join()
    assert lengths == sorted(lengths)
    assert len(known_tables.read(path)) == 51
