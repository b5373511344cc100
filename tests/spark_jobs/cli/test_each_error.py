"""Each class of errors, raised by a real cause through the command line: one message, its exit status, no traceback.

What needs Spark, and stops tables one by one, is in tests/pipeline/test_commands.py.
"""

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from spark_jobs import errors
from spark_jobs.log.position import Position
from spark_jobs.subscriptions.cursor import Cursor
from spark_jobs.subscriptions.records import Record, Records
from tests.binlogs.segment_spec import Commit, Rows, Update
from tests.fix_cli import SPEC, Stratalog
from tests.lakes.consumers import Shop, order

Case = Callable[[Path], tuple[list[object], str]]
"""Prepares the cause in a folder; returns the command's words, and how the message goes."""
ROOT = Path(__file__).parents[3]
EVENT = SPEC.offsets()[5]
"""Position where the first row event begins."""


def damaged(folder: Path, content: bytes) -> Path:
    file = folder / "b.000001"
    file.write_bytes(content)
    return file


def config(folder: Path) -> tuple[list[object], str]:
    return ["status", "-c", folder / "none.yaml"], f"{folder / 'none.yaml'}: cannot be read"


def source(folder: Path) -> tuple[list[object], str]:
    path = folder / "pipeline.yaml"
    path.write_text("lake: lake\nsources: {shop: {mysql: {host: 127.0.0.1, port: 1, user: u, password: p}}}\n")
    return ["extract", "-c", path], "shop: 127.0.0.1:1 cannot be reached: "


def denying_port() -> int:
    """Port of a server that knows nobody from this host: it answers with that, in place of its greeting."""
    text = b"Host '127.0.0.1' is not allowed to connect to this MySQL server"
    payload = b"\xff" + (1130).to_bytes(2, "little") + text
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        with listener, listener.accept()[0] as client:
            client.sendall(len(payload).to_bytes(3, "little") + b"\0" + payload)

    threading.Thread(target=answer, daemon=True).start()
    return int(listener.getsockname()[1])


def access_denied(folder: Path) -> tuple[list[object], str]:
    path, port = folder / "pipeline.yaml", denying_port()
    settings = f"{{host: 127.0.0.1, port: {port}, user: u, password: p}}"
    path.write_text(f"lake: lake\nsources: {{shop: {{mysql: {settings}}}}}\n")
    return ["extract", "-c", path], f"shop: 127.0.0.1:{port} answered: Host '127.0.0.1' is not allowed to connect"


def another_log(folder: Path) -> tuple[list[object], str]:
    shop = Shop(folder)
    shop.log([*order(1), *order(2)])
    for file in (folder / "binlogs").iterdir():
        file.unlink()
    (folder / "binlogs" / "other.000001").write_bytes(SPEC.to_bytes())
    return ["extract", "-c", shop.path], "shop: the log is another one: the source has no file b.000001"


def decode(folder: Path) -> tuple[list[object], str]:
    content = SPEC.to_bytes()
    return ["events", damaged(folder, content[: EVENT + 9] + bytes(4) + content[EVENT + 13 :])], f"b.000001:{EVENT}: "


def truncated(folder: Path) -> tuple[list[object], str]:
    start = SPEC.offsets()[2]
    text = f"b.000001:{EVENT}: the file ends inside the event that begins there, 25 bytes after its start, of the "
    return ["changes", damaged(folder, SPEC.to_bytes()[: EVENT + 25])], text + f"transaction that begins at {start}"


def empty(folder: Path) -> tuple[list[object], str]:
    return ["events", damaged(folder, b"")], "b.000001: the file is empty; copy it again"


def checksum(folder: Path) -> tuple[list[object], str]:
    content = bytearray(SPEC.to_bytes())
    content[EVENT + 25] ^= 1
    return ["changes", damaged(folder, bytes(content))], f"b.000001:{EVENT}: "


def unsupported(folder: Path) -> tuple[list[object], str]:
    return ["events", damaged(folder, b"\xfdbin" + bytes(600))], "b.000001: an encrypted binlog"


def lake(folder: Path) -> tuple[list[object], str]:
    shop = Shop(folder)
    shop.log(order(1))
    [record] = (folder / "lake").rglob("_delta_log/*0.json")
    record.write_text("{}")
    return ["changes", "-c", shop.path], "bronze/shop: cannot be read: "


def lost_race(folder: Path) -> tuple[list[object], str]:
    """Another command writes the group between this one's reading and writing; the test's fixture sees to that."""
    shop = Shop(folder)
    shop.log([*order(1), *order(2)])
    Records(shop.lake, "shop").write(Record("g", 0, Cursor(Position("b.000001", 4)), ("shop.*",)))
    text = "shop: group g: another consumer or command has changed it"
    return ["subscriptions", "-c", shop.path, "--group", "g", "--move", "earliest", "--yes"], text


def jvm_ended(folder: Path) -> tuple[list[object], str]:
    shop = Shop(folder)
    shop.log(order(1))
    with shop.path.open("a") as file:
        file.write("spark: {remote: 'sc://127.0.0.1:1'}\n")
    return ["compact", "-c", shop.path], "spark.remote: sc://127.0.0.1:1: cannot be reached"


def delivery(folder: Path, port: int = 1) -> tuple[list[object], str]:
    shop = Shop(folder)
    shop.log(order(1))
    server = f"{{host: 127.0.0.1, port: {port}, user: u, password: p}}"
    with shop.path.open("a") as file:
        file.write(f"deliveries: {{copy: {{mysql: {server}, apply: ordered}}}}\n")
    return ["verify", "-c", shop.path, "--delivery", "copy"], f"delivery copy: 127.0.0.1:{port} cannot be reached: "


def delivery_denied(folder: Path) -> tuple[list[object], str]:
    words, _ = delivery(folder, denying_port())
    return words, "answered: Host '127.0.0.1' is not allowed to connect"


@dataclass(frozen=True)
class Expected:
    case: Case
    status: int = 1


CASES: dict[type[errors.StratalogError], list[Expected]] = {
    errors.ConfigError: [Expected(config, 2)],
    errors.SourceError: [Expected(source)],
    errors.AccessDenied: [Expected(access_denied)],
    errors.AnotherLog: [Expected(another_log)],
    errors.DecodeError: [Expected(decode)],
    errors.Truncated: [Expected(truncated), Expected(empty)],
    errors.ChecksumMismatch: [Expected(checksum)],
    errors.Unsupported: [Expected(unsupported)],
    errors.LakeError: [Expected(lake)],
    errors.LostRace: [Expected(lost_race)],
    errors.DeliveryError: [Expected(delivery)],
    errors.DeliveryDenied: [Expected(delivery_denied)],
}
APART: dict[type[errors.StratalogError], Case] = {errors.JvmEnded: jvm_ended}
"""In processes of their own: these begin Spark."""
STOPPED_TABLES = (errors.TableStopped, errors.NamesUnknown)
"""By ``run``, with Spark: tests/pipeline/test_commands.py."""
EACH = [(kind, expected) for kind, cases in CASES.items() for expected in cases]


def every_class(base: type[errors.StratalogError]) -> Iterator[type[errors.StratalogError]]:
    for kind in base.__subclasses__():
        yield kind
        yield from every_class(kind)


def test_no_class_is_without_a_case() -> None:
    """A PartialImage, of a change of the key too, ends no command: the decoder reads again, as the test below shows."""
    classes = {kind for kind in every_class(errors.StratalogError) if kind.__module__ == errors.__name__}
    assert classes == {*CASES, *APART, *STOPPED_TABLES, errors.PartialImage, errors.PartialWindow}


@pytest.mark.parametrize(
    "kind, expected", EACH, ids=[f"{kind.__name__}-{expected.case.__name__}" for kind, expected in EACH]
)
def test_an_error_is_one_message(
    kind: type, expected: Expected, stratalog: Stratalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every error says that it was raised, and of two writers of a record this command is the second.
    words, text = expected.case(tmp_path)
    raised: list[type] = []
    make, write = errors.StratalogError.__init__, Records.write

    def noted(error: errors.StratalogError, *arguments: object) -> None:
        raised.append(type(error))
        make(error, *arguments)

    def overtaken(records: Records, record: Record) -> Record:
        write(records, record)
        return write(records, record)

    monkeypatch.setattr(errors.StratalogError, "__init__", noted)
    monkeypatch.setattr(Records, "write", overtaken)
    ran = stratalog(*words)
    messages = messages_in(ran.err)
    assert (ran.status, len(messages)) == (expected.status, 1), ran.err
    assert text in messages[0]
    assert kind in raised
    assert "Traceback" not in ran.out + ran.err


def test_images_that_leave_columns_out_end_no_command(stratalog: Stratalog, tmp_path: Path) -> None:
    spec = replace(SPEC, changes=[Rows("shop.t", Update, [((1, ...), (..., "b"))]), Commit()])
    ran = stratalog("changes", damaged(tmp_path, spec.to_bytes()))
    assert (ran.status, ran.err) == (0, "")
    assert '"op": "update"' in ran.out


def apart(words: list[object], before: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, which does something before."""
    program = f"import sys\n{before}\nsys.argv[1:] = {list(map(str, words))!r}\nfrom spark_jobs.cli import main\nmain()"
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=200)


def messages_in(text: str) -> list[str]:
    """What a command says but for its log lines."""
    return [line for line in text.splitlines() if not re.match(r"\d\d:\d\d:\d\d ", line)]


_SHOW_CLASSES = """
from spark_jobs import errors
make = errors.StratalogError.__init__
def noted(error, *arguments):
    print("raised", type(error).__name__)
    make(error, *arguments)
errors.StratalogError.__init__ = noted
"""


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.parametrize("kind", APART)
def test_an_error_of_a_command_that_begins_spark_is_one_message(
    kind: type[errors.StratalogError], tmp_path: Path
) -> None:
    words, text = APART[kind](tmp_path)
    ran = apart(words, _SHOW_CLASSES)
    messages = messages_in(ran.stderr)
    assert (ran.returncode, len(messages)) == (1, 1), ran.stderr
    assert text in messages[0]
    assert f"raised {kind.__name__}" in ran.stdout
    assert "Traceback" not in ran.stderr + ran.stdout


def second_reader(folder: Path) -> tuple[list[object], str]:
    shop = Shop(folder)
    shop.log(order(1))
    return ["verify", "-c", shop.path, "--log"], "the second reader needs the package mysql-replication"


def connect(folder: Path) -> tuple[list[object], str]:
    return jvm_ended(folder)[0], "Spark Connect needs packages that are not installed"


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.parametrize("package, case", [("grpc", connect), ("pymysqlreplication", second_reader)])
def test_a_missing_package_is_one_message(package: str, case: Case, tmp_path: Path) -> None:
    """In a process that cannot import it. A package that every command needs: test_verbs.py."""
    words, text = case(tmp_path)
    ran = apart(words, f"sys.modules[{package!r}] = None")
    messages = messages_in(ran.stderr)
    assert (ran.returncode, len(messages)) == (2, 1), ran.stderr
    assert text in messages[0]
    assert "install" in messages[0]
    assert "Traceback" not in ran.stderr + ran.stdout
