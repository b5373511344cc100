import io
import random
import struct
import time
from collections.abc import Iterator
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Self

import pymysql
import pytest
from pydantic import SecretStr

from spark_jobs.binlog import list_events, read_head
from spark_jobs.config.servers import MySQL
from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import AccessDenied, ConfigError, SourceError
from spark_jobs.source import binlog_dump
from spark_jobs.source.binlog_dump import DumpReading
from spark_jobs.source.protocol import FilePart
from tests.binlogs.dump_stream import LONGEST, event, fake_rotate, packets
from tests.binlogs.segment_spec import SegmentSpec, reframed
from tests.fix_servers import EACH_SERVER, OPTIONS, Servers
from tests.services.proxy import Proxy
from tests.services.servers import build_of

SETTINGS = MySQL(user="repl", password=SecretStr("geheim"), port=3306)
READING = DumpReading("shop", SETTINGS)


def read(reading: DumpReading, part: FilePart) -> bytes:
    return b"".join(bytes(chunk) for chunk in reading(part)[1])


# ---- without a server: what one could send --------------------------------------------------------------------------


class Scripted:
    """A connection whose server has said everything already."""

    def __init__(self, wire: bytes) -> None:
        self._rfile = io.BufferedReader(io.BytesIO(wire))
        self.request: tuple[int, bytes] | None = None
        self.closed = False

    def cursor(self) -> "Scripted":
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def execute(self, statement: str) -> None: ...

    def fetchone(self) -> dict[str, str]:
        return {"uuid": "another-uuid"}

    def get_server_info(self) -> str:
        return "8.0.12"

    def _execute_command(self, command: int, arguments: bytes) -> None:
        self.request = command, arguments

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What there is to connect to, in order; errors are raised. No time passes between tries."""
    sockets: list[Any] = []

    def connect(_: MySQL) -> Any:
        client_socket = sockets.pop(0)
        if isinstance(client_socket, Exception):
            raise client_socket
        return client_socket

    monkeypatch.setattr(binlog_dump, "open_connection", connect)
    monkeypatch.setattr(binlog_dump, "BACK_OFF", 0.0)
    return sockets


FORMAT = SegmentSpec().events()[0]
AFTER = 4 + len(FORMAT)
ROTATE, HEAD = b"\0" + fake_rotate("bin.000001"), b"\0" + FORMAT
END = b"\xfe\0\0\2\0"


def events(*bodies: bytes) -> list[bytes]:
    """Events one after the other, from the file's format event on."""
    row_events, offset = [], AFTER
    for body in bodies:
        offset += 19 + len(body)
        row_events.append(event(2, body, offset))
    return row_events


def ok(*bodies: bytes) -> list[bytes]:
    return [b"\0" + body for body in bodies]


def test_a_file_is_its_magic_and_its_events(connections: list[Any]) -> None:
    first, two = events(b"one", b"two")
    connections.append(Scripted(packets([ROTATE, HEAD, *ok(first, two)])))
    content = read(READING, FilePart("bin.000001", 0, AFTER + len(first + two)))
    assert content == b"\xfebin" + FORMAT + first + two


def test_the_command_asks_for_the_part_and_replaces_no_other_dump(connections: list[Any]) -> None:
    connection = Scripted(packets([b"\0" + fake_rotate("bin.000001", 500), HEAD, *ok(event(2, b"x", 520))]))
    connections.append(connection)
    assert read(READING, FilePart("bin.000001", 500, 520)) == event(2, b"x", 520)
    assert connection.request == (0x12, struct.pack("<IHI", 500, 1, 0) + b"bin.000001")
    assert connection.closed


def test_beyond_4_gib_a_file_is_asked_for_from_its_beginning(
    connections: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command has four bytes for the offset."""
    first, two, three = events(b"one", b"two", b"three")
    start = AFTER + len(first)
    monkeypatch.setattr(binlog_dump, "FARTHEST", start - 1)
    connections += [
        Scripted(packets([ROTATE, HEAD, *ok(first, two)])[:-2]),
        Scripted(packets([ROTATE, HEAD, *ok(first, two, three)])),
    ]
    made_connections = list(connections)
    assert read(READING, FilePart("bin.000001", start, start + len(two + three))) == two + three
    assert {connection.request for connection in made_connections} == {
        (0x12, struct.pack("<IHI", 4, 1, 0) + b"bin.000001")
    }


WHERE = f"shop: bin.000001:{AFTER + 22}: "


@pytest.mark.parametrize(
    "later, message",
    [
        (END, "the server's log ends here, and was to be read to 1000; "),
        (b"\0" + event(27, b"bin.000001", AFTER + 22), "the server's log ends here, and was to be read to 1000; "),
        (b"\0" + fake_rotate("bin.000002"), "the server's log ends here, and was to be read to 1000; "),
        (b"\0" + event(2, b"x", AFTER + 43), "the server left out what the log holds here "),
        (b"\0" + event(2, b"x", AFTER + 22), "the server sent an event that it had sent already "),
        (HEAD, "the server sent what is no part of a dump "),
        (b"\1xx", "the server sent what is no part of a dump "),
        (b"\xff\xd4\x04#HY000Could not find it", "127.0.0.1:3306 answered: Could not find it"),
    ],
)
def test_what_does_not_follow_is_refused_by_place(connections: list[Any], later: bytes, message: str) -> None:
    connection = Scripted(packets([ROTATE, HEAD, *ok(*events(b"one")), later]))
    connections.append(connection)
    with pytest.raises(SourceError) as refused:
        read(READING, FilePart("bin.000001", 0, 1000))
    assert str(refused.value).startswith(WHERE + message)
    assert connection.closed


def test_a_packet_that_is_missing_is_noticed(connections: list[Any]) -> None:
    wire = packets([ROTATE, HEAD]) + packets(ok(*events(b"one")), 4)
    connections.append(Scripted(wire))
    with pytest.raises(SourceError, match=rf"^shop: bin\.000001:{AFTER}: a packet of the connection is missing"):
        read(READING, FilePart("bin.000001", 0, 1000))


def test_another_file_than_asked_for_is_refused(connections: list[Any]) -> None:
    connections.append(Scripted(packets([b"\0" + fake_rotate("bin.000009"), HEAD])))
    with pytest.raises(SourceError, match=r"^shop: bin\.000001:4: the server sends 'bin\.000009' where this file was"):
        read(READING, FilePart("bin.000001", 0, 1000))


def test_another_server_behind_the_address_is_refused(connections: list[Any]) -> None:
    connections.append(Scripted(b""))
    with pytest.raises(SourceError, match="is another-uuid now, and was a-uuid when the run began"):
        read(DumpReading("shop", SETTINGS, "a-uuid"), FilePart("bin.000001", 0, 1000))


def test_a_lost_connection_goes_on_at_the_last_whole_event(connections: list[Any]) -> None:
    first, two, three = events(b"one", b"two" * 10, b"three")
    wire = packets([ROTATE, HEAD, *ok(first, two)])
    reconnected = Scripted(packets([b"\0" + fake_rotate("bin.000001", AFTER + len(first)), HEAD, *ok(two, three)]))
    connections += [Scripted(wire[:-10]), pymysql.OperationalError(2003, "not now"), reconnected]
    content = read(READING, FilePart("bin.000001", 0, AFTER + len(first + two + three)))
    assert content == b"\xfebin" + FORMAT + first + two + three
    assert reconnected.request == (0x12, struct.pack("<IHI", AFTER + len(first), 1, 0) + b"bin.000001")


@pytest.mark.parametrize("byte", [30, 5 << 20, 14 << 20])
def test_what_comes_again_is_compared(connections: list[Any], byte: int) -> None:
    """Of an event larger than a chunk a part was handed on before the connection was lost."""
    (big,) = events(random.Random(1).randbytes(LONGEST + 1000))
    wire = packets([ROTATE, HEAD, b"\0" + big])
    changed = bytearray(big)
    changed[byte] ^= 1
    part = FilePart("bin.000001", 0, AFTER + len(big))
    connections += [Scripted(wire[: -(1 << 20)]), Scripted(wire)]
    assert read(READING, part) == b"\xfebin" + FORMAT + big
    connections += [Scripted(wire[: -(1 << 20)]), Scripted(packets([ROTATE, HEAD, b"\0" + bytes(changed)]))]
    with pytest.raises(SourceError, match=rf"^shop: bin\.000001:{AFTER}: this event came in two versions"):
        read(READING, part)


def test_another_file_of_the_name_after_a_lost_connection_is_refused(connections: list[Any]) -> None:
    first, two = events(b"one", b"two")
    foreign = reframed(struct.pack("<I", 99) + FORMAT[4:])
    connections += [
        Scripted(packets([ROTATE, HEAD, *ok(first)])),
        Scripted(packets([ROTATE, b"\0" + foreign, *ok(two)])),
    ]
    with pytest.raises(SourceError, match=r"^shop: bin\.000001:\d+: the server has another file of that name"):
        read(READING, FilePart("bin.000001", 0, AFTER + len(first + two)))


def test_tries_are_bounded(connections: list[Any]) -> None:
    connections += [pymysql.OperationalError(2003, "Connection refused")] * 20
    with pytest.raises(SourceError, match=r"cannot be reached: Connection refused; tried 6 times$"):
        read(READING, FilePart("bin.000001", 0, 1000))
    assert len(connections) == 14


def test_a_refusal_is_not_tried_again(connections: list[Any]) -> None:
    denied = "Access denied for user 'repl'@'h' (using password: YES)"
    connections += [pymysql.OperationalError(1045, denied), Scripted(b"")]
    with pytest.raises(AccessDenied, match=r"answered: Access denied for .*; check the user or password of 'repl'$"):
        read(READING, FilePart("bin.000001", 0, 1000))
    assert len(connections) == 1


# ---- real servers ---------------------------------------------------------------------------------------------------


def settings_of(server: MySQLServer, **changed: object) -> MySQL:
    settings = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
    return MySQL.model_validate(settings | changed)


def content_of(server: MySQLServer, file: str) -> bytes:
    """The file as the server has it on disk, its in-use flag cleared as a dump clears it."""
    content = bytearray((server.data / file).read_bytes())
    content[4 + 17] &= 0xFE
    return bytes(content)


STATEMENTS = (
    "CREATE TABLE many (id INT PRIMARY KEY, note VARCHAR(300))",
    "INSERT INTO many VALUES (1, 'one'), (2, REPEAT('two', 100))",
    "UPDATE many SET note = REPEAT('x', id * 70)",
    "DELETE FROM many WHERE id = 1",
    "XA START 'a'",
    "INSERT INTO many VALUES (3, NULL)",
    "XA END 'a'",
    "XA PREPARE 'a'",
    "XA COMMIT 'a'",
    "CREATE TABLE other LIKE many",
    "START TRANSACTION",
    "INSERT INTO other SELECT * FROM many",
    "SAVEPOINT s",
    "INSERT INTO many VALUES (9, 'nine')",
    "COMMIT",
    "FLUSH BINARY LOGS",
)


def closed_file(server: MySQLServer, *statements: str) -> FilePart:
    """A whole file that the statements are in."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS dumped")
        cursor.execute("CREATE DATABASE dumped")
        connection.select_db("dumped")
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SHOW BINARY LOGS")
        file = str(cursor.fetchall()[-1][0])
        for statement in statements:
            cursor.execute(statement)
    return FilePart(file, 0, (server.data / file).stat().st_size)


@pytest.fixture(scope="module", params=EACH_SERVER)
def plain_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MySQLServer]:
    """Without TLS, so that a proxy sees where a dump begins."""
    without_tls: dict[str, object] = {"tls_version": ""} if request.param == "mysql-9.7" else {"ssl": "OFF"}
    try:
        build = build_of(request.param)
    except ConfigError as error:
        pytest.skip(str(error))
    with MySQLServer(tmp_path_factory.mktemp("plain"), OPTIONS | without_tls, build) as server:
        yield server


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binlog_dump, "BACK_OFF", 0.01)


def cut_points(content: bytes, file: str) -> list[int]:
    """Bytes of a dump: around the packet and the event of one event of every type, and inside of them."""
    listed = list(list_events(iter([content]), file))
    first = 4 + 1 + len(fake_rotate(file))
    packets_end = list(accumulate((5 + event.stop - event.offset for event in listed), initial=first))
    spans = {
        event.type: offset
        for event, offset in zip(reversed(listed), reversed(list(pairwise(packets_end))), strict=True)
    }
    points = {0, 1, first - 1, first}
    for begin, end in spans.values():
        points |= {begin + 1, begin + 4, begin + 5, begin + 6, begin + 14, begin + 24, (begin + end) // 2, end - 1, end}
    return sorted(points)


@pytest.mark.thorough
@pytest.mark.mysql
@pytest.mark.usefixtures("quick")
def test_a_dump_cut_anywhere_is_the_file(plain_server: MySQLServer) -> None:
    part = closed_file(plain_server, *STATEMENTS)
    content = content_of(plain_server, part.file)
    points = cut_points(content, part.file)
    assert len(points) > 60
    for point in points:
        with Proxy(plain_server.host, plain_server.port, [point]) as proxy:
            assert read(DumpReading("shop", settings_of(plain_server, port=proxy.port)), part) == content
            ends_in_time = point >= len(content)
            assert (proxy.dumps, proxy.cut) == (2, 1) or ends_in_time


@pytest.mark.mysql
@pytest.mark.usefixtures("quick")
def test_dumps_that_are_all_cut_get_there_while_they_get_further(plain_server: MySQLServer) -> None:
    small = [f"INSERT INTO many VALUES ({n}, '')" for n in range(10, 40)]
    part = closed_file(plain_server, STATEMENTS[0], *small, "FLUSH BINARY LOGS")
    with Proxy(plain_server.host, plain_server.port, [700] * 1000) as proxy:
        content = read(DumpReading("shop", settings_of(plain_server, port=proxy.port)), part)
        assert content == content_of(plain_server, part.file)
        assert proxy.cut > 10


@pytest.mark.mysql
@pytest.mark.usefixtures("quick")
def test_dumps_that_are_all_cut_too_soon_end_in_an_error(plain_server: MySQLServer) -> None:
    part = closed_file(plain_server, *STATEMENTS)
    with Proxy(plain_server.host, plain_server.port, [200] * 1000) as proxy:
        reading = DumpReading("shop", settings_of(plain_server, port=proxy.port))
        with pytest.raises(
            SourceError, match=rf"^shop: {part.file}:\d+: 127\.0\.0\.1:\d+: Lost connection .*tried 6 times$"
        ):
            read(reading, part)


@pytest.mark.mysql
@pytest.mark.usefixtures("quick")
def test_a_cut_inside_tls_is_survived(servers: Servers) -> None:
    server = servers.get("mysql-8.0")
    part = closed_file(server, *STATEMENTS)
    content = content_of(server, part.file)
    for point in range(2000, 2000 + len(content), 331):
        with Proxy(server.host, server.port, [point], in_full=True) as proxy:
            assert read(DumpReading("shop", settings_of(server, port=proxy.port)), part) == content


@pytest.mark.mysql
@pytest.mark.usefixtures("quick")
def test_a_killed_connection_is_survived(plain_server: MySQLServer) -> None:
    part = closed_file(
        plain_server,
        "CREATE TABLE many (id INT PRIMARY KEY, note LONGBLOB)",
        *(f"INSERT INTO many VALUES ({n}, REPEAT('x', 1000000))" for n in range(40)),
        "FLUSH BINARY LOGS",
    )
    chunks = DumpReading("shop", settings_of(plain_server))(part)[1]
    chunk_list = [bytes(next(chunks)), bytes(next(chunks))]
    with plain_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'")
        for (number,) in cursor.fetchall():
            cursor.execute(f"KILL {number}")
    chunk_list += [bytes(chunk) for chunk in chunks]
    assert b"".join(chunk_list) == content_of(plain_server, part.file)


@pytest.mark.thorough
@pytest.mark.mysql
@pytest.mark.usefixtures("quick")
def test_a_server_that_starts_again_in_between_is_survived(tmp_path: Path) -> None:
    with MySQLServer(tmp_path) as server:
        part = closed_file(
            server,
            "CREATE TABLE many (id INT PRIMARY KEY, note LONGBLOB)",
            *(f"INSERT INTO many VALUES ({n}, REPEAT('x', 1000000))" for n in range(40)),
            "FLUSH BINARY LOGS",
        )
        chunks = DumpReading("shop", settings_of(server))(part)[1]
        chunk_list = [bytes(next(chunks)), bytes(next(chunks))]
        server.kill()
        server.start()
        chunk_list += [bytes(chunk) for chunk in chunks]
        assert b"".join(chunk_list) == content_of(server, part.file)


@pytest.mark.mysql
def test_files_with_and_without_checksums_whatever_the_server_writes_now(plain_server: MySQLServer) -> None:
    contents: dict[FilePart, bytes] = {}
    with plain_server.connect() as connection, connection.cursor() as cursor:
        for now in ("NONE", "CRC32", "NONE", "CRC32"):
            for part, content in contents.items():
                assert read(DumpReading("shop", settings_of(plain_server)), part) == content
            cursor.execute(f"SET GLOBAL binlog_checksum = '{now}'")
            part = closed_file(plain_server, *STATEMENTS)
            contents[part] = content_of(plain_server, part.file)
    heads = [read_head(iter([content]), part.file) for part, content in contents.items()]
    assert [head.format.checksum for head in heads] == [False, True, False, True]


@pytest.mark.mysql
@pytest.mark.parametrize("size", [LONGEST - 200, LONGEST + 5, 40_000_000])
def test_packets_above_16_mib(plain_server: MySQLServer, size: int) -> None:
    with plain_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL max_allowed_packet = 1 << 30")
    part = closed_file(
        plain_server,
        "CREATE TABLE many (id INT PRIMARY KEY, note LONGBLOB)",
        f"INSERT INTO many VALUES (1, REPEAT('x', {size})), (2, 'y')",
        "FLUSH BINARY LOGS",
    )
    assert read(DumpReading("shop", settings_of(plain_server)), part) == content_of(plain_server, part.file)


@pytest.mark.mysql
def test_many_dumps_at_once_do_not_end_one_another(plain_server: MySQLServer) -> None:
    part = closed_file(plain_server, *STATEMENTS)
    reading = DumpReading("shop", settings_of(plain_server))
    started = [reading(part)[1] for _ in range(8)]
    beginnings = [[bytes(next(chunks)), bytes(next(chunks))] for chunks in started]
    contents = [
        b"".join([*beginning, *map(bytes, chunks)]) for beginning, chunks in zip(beginnings, started, strict=True)
    ]
    assert set(contents) == {content_of(plain_server, part.file)}


@pytest.mark.mysql
def test_a_server_that_does_not_end_the_dump_is_left_after_a_heartbeat(
    plain_server: MySQLServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binlog_dump, "_NON_BLOCK", 0)
    monkeypatch.setattr(binlog_dump, "_NO_REPLICA", 4_000_000_000)  # a server never lets one of id 0 wait
    closed_file(plain_server, *STATEMENTS)
    with plain_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW BINARY LOGS")
        file, end = cursor.fetchall()[-1][:2]
    began = time.monotonic()
    with pytest.raises(SourceError, match=rf"^shop: {file}:\d+: the server's log ends here"):
        read(DumpReading("shop", settings_of(plain_server, read_timeout=2)), FilePart(file, 0, end + 1000))
    assert time.monotonic() - began < 10


@pytest.mark.thorough
@pytest.mark.mysql
@pytest.mark.parametrize("size", [0, 40, 1000])
def test_a_dump_that_stalls_goes_on_over_another_connection(plain_server: MySQLServer, size: int) -> None:
    part = closed_file(plain_server, *STATEMENTS)
    with Proxy(plain_server.host, plain_server.port, [size], stalls=True) as proxy:
        began = time.monotonic()
        settings = settings_of(plain_server, port=proxy.port, tls={"enabled": False}, read_timeout=1)
        assert read(DumpReading("shop", settings), part) == content_of(plain_server, part.file)
        assert time.monotonic() - began < 5
        assert (proxy.dumps, proxy.cut) == (2, 1)


@pytest.mark.mysql
@pytest.mark.parametrize("name", ["mariadb-10.11", "mariadb-11.8"])
def test_an_encrypted_log_comes_decrypted(name: str, tmp_path: Path) -> None:
    """The event that begins the encryption comes too, marked as ignorable, and again wherever a dump begins."""
    try:
        build = build_of(name)
    except ConfigError as error:
        pytest.skip(str(error))
    plugins = build.dist() / "lib" / "mysql" / "plugin"
    if not (plugins / "file_key_management.so").is_file():
        pytest.skip(f"{name} has no plugin for keys here")
    (tmp_path / "keys").write_text("1;770A8A65DA156D24EE2A093277530142\n")
    encrypted: dict[str, object] = {
        "plugin_dir": plugins,
        "plugin_load_add": "file_key_management",
        "file_key_management_filename": tmp_path / "keys",
        "encrypt_binlog": "ON",
    }
    with MySQLServer(tmp_path, OPTIONS | encrypted, build) as server:
        part = closed_file(server, *STATEMENTS)
        reading = DumpReading("shop", settings_of(server))
        content = read(reading, part)
        assert len(content) == part.stop
        assert b"two" * 100 in content
        assert b"two" * 100 not in content_of(server, part.file)
        listed = list(list_events(iter([content]), part.file))
        assert listed[1].type == "Start_encryption"
        assert listed[-1].stop == part.stop
        for logged_event in listed[2::7]:
            assert read(reading, FilePart(part.file, logged_event.offset, part.stop)) == content[logged_event.offset :]
