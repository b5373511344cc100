"""Records the cases of the corpus from servers: python -m corpus.record [NAME …].

A case is a script of ``scripts/`` on a server that its head names: ``cases/SERVER-SCRIPT.000001``, the log, and
``cases/SERVER-SCRIPT.json``, what a reader has to get from it (README.md has the form). Nothing of this project reads
the log here. Rows are what a second session selects before and after each statement, statements and events are those of
SHOW BINLOG EVENTS. Servers are found as tests/README.md has it; a server that is not here is left out by name.

Put here: scripts, servers, what servers hold. Not here: damaged copies (damage.py), comparing (judge.py).
"""

import json
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

import pymysql

from corpus.damage import damage
from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import ConfigError
from tests.services.servers import build_of

HERE = Path(__file__).parent
SCRIPTS, CASES = HERE / "scripts", HERE / "cases"
SCHEMA = "c"
SECONDS = 1_700_000_000
"""The session's clock, so that the same script gives the same times."""
_DDL = re.compile(r"(CREATE|ALTER|DROP|RENAME|TRUNCATE)\b", re.IGNORECASE)
_DML = re.compile(r"(INSERT|UPDATE|DELETE|REPLACE)\b", re.IGNORECASE)
_CREATE_SELECT = re.compile(r"CREATE TABLE .* SELECT ", re.IGNORECASE)
_FORMS = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint"), "integer"),
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"), "text"),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector"), "bytes"),
    **dict.fromkeys(("geometry", "point", "linestring", "polygon"), "bytes"),
    **dict.fromkeys(("uuid", "inet4", "inet6"), "address"),
}
"""Of a column's type the form of its values, where it is not the type's own name."""

Cell: TypeAlias = str | dict[str, Any] | None
Image: TypeAlias = list[Cell]


@dataclass(frozen=True, slots=True)
class Script:
    """A script: what its head says, and its statements with the directives before each."""

    name: str
    head: dict[str, str]
    statements: list[tuple[dict[str, str], str]]

    @classmethod
    def read(cls, path: Path) -> "Script":
        head_text, _, body = path.read_text(encoding="utf-8").partition("\n\n")
        return cls(path.stem, directives(head_text.splitlines()), list(statements_of(body)))

    def settings(self, key: str) -> dict[str, str]:
        """The variables that ``options``, ``with`` or ``session`` of the head set."""
        return dict(pair.split("=", 1) for pair in self.head.get(key, "").split())


def directives(lines: Sequence[str]) -> dict[str, str]:
    pairs = (line.removeprefix("-- ").partition(": ") for line in lines)
    return {key: value for key, _, value in pairs}


def statements_of(body: str) -> Iterator[tuple[dict[str, str], str]]:
    """A statement a line, each ends with a semicolon; lines before it that begin with ``--`` are its directives."""
    notes: list[str] = []
    for line in body.splitlines():
        if line.startswith("-- "):
            notes.append(line)
        elif line.strip():
            yield directives(notes), line.strip().removesuffix(";")
            notes = []


@dataclass(slots=True)
class Layout:
    """A table's columns at some time. key: the names of its primary key's columns."""

    table: str
    columns: list[dict[str, Any]]
    key: list[str]

    def select(self) -> str:
        """A statement that reads all rows, each value in two expressions: as text, and its bytes in hexadecimal."""
        pairs = (f"{text}, {raw}" for text, raw in map(expressions, self.columns))
        order = ", ".join(quoted(name) for name in self.key)
        return f"SELECT {', '.join(pairs)} FROM {quoted(self.table)}" + (f" ORDER BY {order}" if order else "")

    def as_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, "table": self.table, "columns": self.columns}


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def expressions(column: dict[str, Any]) -> tuple[str, str]:
    """What selects the value of a column as text, and as bytes in hexadecimal."""
    name, form = quoted(column["name"]), column["form"]
    match form:
        case "bytes":
            return "NULL", f"HEX({name})"
        case "text" | "enum" | "set" | "json":
            number = f"CONCAT(CAST({name} AS UNSIGNED))" if form in ("enum", "set") else f"HEX({name})"
            return f"CONVERT({name} USING utf8mb4)", number
        case "float":
            return f"{name} * 1e0", "NULL"
        case "bit":
            return f"CAST({name} AS UNSIGNED)", "NULL"
        case "address":
            return f"CONCAT({name})", "NULL"
    return name, "NULL"


def cell(form: str, text: str | None, raw: str | None) -> Cell:
    """A value as the corpus has it."""
    if form == "bytes":
        return None if raw is None else {"hex": raw}
    if text is None:
        return None
    if form in ("enum", "set"):
        return {"label": text, "number": raw}
    if form == "text" and raw != text.encode().hex().upper():
        return {"text": text, "hex": raw}
    return text


@dataclass(slots=True)
class Snapshot:
    """What all tables hold: their layouts, and rows by key (or number, without a key)."""

    layouts: dict[str, Layout] = field(default_factory=dict)
    rows: dict[str, dict[tuple[str, ...], Image]] = field(default_factory=dict)


class Reading:
    """A session that reads what others have not committed, and prints times in UTC."""

    def __init__(self, server: MySQLServer) -> None:
        self._connection = server.connect(conv={}, charset="utf8mb4", database=SCHEMA)
        self.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
        self.execute("SET SESSION time_zone = '+00:00', sql_mode = ''")

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def close(self) -> None:
        self._connection.close()

    def snapshot(self) -> Snapshot:
        snapshot = Snapshot()
        names = self.execute(
            "SELECT table_name FROM information_schema.tables "
            f"WHERE table_schema = '{SCHEMA}' AND table_type <> 'VIEW' ORDER BY 1"
        )
        for (name,) in names:
            layout = snapshot.layouts[name] = self.layout(name)
            snapshot.rows[name] = self.rows(layout)
        return snapshot

    def layout(self, table: str) -> Layout:
        columns = self.execute(
            "SELECT column_name, data_type, column_type, character_set_name FROM information_schema.columns "
            f"WHERE table_schema = '{SCHEMA}' AND table_name = {literal(table)} ORDER BY ordinal_position"
        )
        keys = self.execute(
            "SELECT column_name FROM information_schema.key_column_usage "
            f"WHERE table_schema = '{SCHEMA}' AND table_name = {literal(table)} AND constraint_name = 'PRIMARY' "
            "ORDER BY ordinal_position"
        )
        described = [
            {"name": name, "type": declared, "form": _FORMS.get(kind, kind)} | ({"charset": charset} if charset else {})
            for name, kind, declared, charset in columns
        ]
        return Layout(table, described, [name for (name,) in keys])

    def rows(self, layout: Layout) -> dict[tuple[str, ...], Image]:
        rows: dict[tuple[str, ...], Image] = {}
        forms = [column["form"] for column in layout.columns]
        ordinals = [ordinal for ordinal, column in enumerate(layout.columns) if column["name"] in layout.key]
        seen: dict[tuple[str, ...], int] = {}
        for values in self.execute(layout.select()):
            pairs = zip(values[::2], values[1::2], strict=True)
            image = [cell(form, *pair) for form, pair in zip(forms, pairs, strict=True)]
            key = tuple(str(image[ordinal]) for ordinal in ordinals) or tuple(map(str, image))
            if not ordinals:
                seen[key] = seen.get(key, 0) + 1
                key = (*key, str(seen[key]))
            rows[key] = image
        return rows


def literal(text: str) -> str:
    return f"x'{text.encode().hex()}'"


def differences(notes: dict[str, str], statement: str, before: Snapshot, after: Snapshot) -> Iterator[dict[str, Any]]:
    """The changes that lead from one snapshot to the other, table by table in the order that the script gives."""
    unlogged = notes.get("unlogged", "").split()
    names = notes.get("order", "").split() or list(after.layouts)
    for name in names:
        old = before.rows.get(name, {})
        new = after.rows[name]
        gone = [(key, image) for key, image in old.items() if key not in new]
        came = [(key, image) for key, image in new.items() if key not in old]
        kept = [(key, old[key], image) for key, image in new.items() if key in old and old[key] != image]
        moves = statement.upper().startswith("UPDATE") and len(gone) == len(came)
        changes: list[tuple[str, Image | None, Image | None]] = [("update", first, second) for _, first, second in kept]
        if moves:
            changes += [("update", first, second) for (_, first), (_, second) in zip(gone, came, strict=True)]
        else:
            changes += [("delete", image, None) for _, image in gone]
            changes += [("insert", None, image) for _, image in came]
        for op, first, second in changes:
            layout = after.layouts[name]
            yield {
                "layout": layout.as_json(),
                "op": op,
                "before": present(layout, notes, "before", first),
                "after": present(layout, notes, "after", second),
                "logged": name not in unlogged,
            }


def present(layout: Layout, notes: dict[str, str], which_image: str, image: Image | None) -> Image | None:
    """The image with the columns alone that the directive ``images`` names for it."""
    lists = dict(part.split("=", 1) for part in notes.get("images", "").split())
    if image is None or which_image not in lists:
        return image
    names = lists[which_image].split(",")
    pairs = zip(layout.columns, image, strict=True)
    return [value if column["name"] in names else {"absent": True} for column, value in pairs]


@dataclass(slots=True)
class Effects:
    """Changes that took effect, in the order of their commits, and all that were logged, in the log's order.

    A transaction that rolls back logs its rows only where some stay. XA PREPARE logs them.
    """

    effective: list[dict[str, Any]] = field(default_factory=list)
    logged: list[dict[str, Any]] = field(default_factory=list)
    unlogged: list[dict[str, Any]] = field(default_factory=list)
    pending: list[dict[str, Any]] = field(default_factory=list)
    savepoints: dict[str, int] = field(default_factory=dict)
    begin: Snapshot = field(default_factory=Snapshot)
    is_open: bool = False

    def add(self, changes: list[dict[str, Any]]) -> None:
        marked = [(change.pop("logged"), change) for change in changes]
        self.unlogged += [change for is_logged, change in marked if not is_logged]
        logged = [change for is_logged, change in marked if is_logged]
        if self.is_open:
            self.pending += logged
        else:
            self.effective += logged
            self.logged += logged

    def control(self, words: list[str], before: Snapshot, after: Snapshot) -> bool:
        """Takes a statement about transactions; False where it is no such statement."""
        match words:
            case ["BEGIN"] | ["XA", "START", *_]:
                self.is_open, self.begin, self.pending, self.savepoints = True, before, [], {}
            case ["SAVEPOINT", name]:
                self.savepoints[name] = len(self.pending)
            case ["ROLLBACK", "TO", _, name]:
                del self.pending[self.savepoints[name] :]
            case ["RELEASE", *_] | ["XA", "END", _]:
                pass
            case ["XA", "PREPARE", _]:
                self.logged += self.pending
            case ["COMMIT"] | ["XA", "COMMIT", *_]:
                self.effective += self.pending
                self.logged += self.pending if words[0] == "COMMIT" or words[-1] == "PHASE" else []
                self.is_open = False
            case ["ROLLBACK"]:
                self.is_open = False
                stayed = list(differences({}, "", self.begin, after))
                self.logged += self.pending if stayed else []
                self.effective += [change for change in stayed if change.pop("logged")]
            case ["XA", "ROLLBACK", _]:
                self.is_open = False
            case _:
                return False
        return True


def run_script(server: MySQLServer, script: Script) -> Effects:
    """Executes the statements and reads what each changes."""
    effects, reading = Effects(), Reading(server)
    with server.connect(charset="utf8mb4", database=SCHEMA) as connection, connection.cursor() as cursor:
        cursor.execute(f"SET SESSION TIMESTAMP = {SECONDS}")
        for variable, value in script.settings("session").items():
            cursor.execute(f"SET SESSION {variable} = '{value}'")
        before = reading.snapshot()
        for notes, statement in script.statements:
            if statement.startswith("FLUSH"):  # which a session with a prepared transaction may not do
                reading.execute(statement)
            else:
                cursor.execute(statement)
            while cursor.nextset():
                pass
            after = reading.snapshot()
            if not effects.control(statement.split(), before, after) and (
                not _DDL.match(statement) or _CREATE_SELECT.match(statement)
            ):
                effects.add(list(differences(notes, statement, before, after)))
            before = after
    reading.close()
    return effects


@dataclass(slots=True)
class Shown:
    """What the server shows of its files: the events of each (offset, type, end), DDL, statements that change rows."""

    events: list[list[list[Any]]] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def add(self, reading: Reading, file: str) -> None:
        events: list[list[Any]] = []
        for _, offset, kind, _, stop, info in reading.execute(f"SHOW BINLOG EVENTS IN '{file}'"):
            events.append([int(offset), kind, int(stop)])
            statement = re.sub(r"^use `c`; ", "", info)
            if kind in ("Query", "Query_compressed") and _DDL.match(statement):
                self.statements.append(re.sub(r" /\* xid=\d+ \*/$", "", statement))
            elif kind == "Query" and _DML.match(statement):
                self.texts.append(statement)
        self.events.append(events)


def record(server: MySQLServer, name: str, script: Script) -> None:
    """Writes the files of a case."""
    with server.connect(charset="utf8mb4") as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_log_bin = 0")
        cursor.execute(f"DROP DATABASE IF EXISTS {SCHEMA}")
        cursor.execute(f"CREATE DATABASE {SCHEMA} CHARACTER SET utf8mb4")
        previous: dict[str, Any] = {}
        for variable, value in script.settings("with").items():
            cursor.execute(f"SELECT @@GLOBAL.{variable}")
            previous[variable] = (cursor.fetchone() or ())[0]
            cursor.execute(
                f"SET GLOBAL {variable} = '{value}'" if not value.isdigit() else f"SET GLOBAL {variable} = {value}"
            )
        cursor.execute("RESET MASTER" if running_before(connection, 8, 2) else "RESET BINARY LOGS AND GTIDS")
        try:
            effects = run_script(server, script)
        finally:
            cursor.execute("FLUSH BINARY LOGS")
            for variable, value in previous.items():
                cursor.execute(f"SET GLOBAL {variable} = %s", (value,))
        cursor.execute("SHOW BINARY LOGS")
        names = [row[0] for row in cursor.fetchall()]
        cursor.execute("SELECT VERSION()")
        version = (cursor.fetchone() or ("",))[0]
    files, showing = list[str](), Shown()
    reading = Reading(server)
    for number, file in enumerate(names[:-1], 1):
        copy = CASES / f"{name}-{script.name}.{number:06}"
        copy.write_bytes((server.data / file).read_bytes())
        files.append(copy.name)
        showing.add(reading, file)
    reading.close()
    write_case(CASES / f"{name}-{script.name}.json", {
        "about": script.head["about"],
        "script": f"scripts/{script.name}.sql",
        "server": f"{'MariaDB' if 'MariaDB' in version else 'MySQL'} {re.split('[-+~]', version)[0]}",
        "settings": script.settings("options") | script.settings("with") | script.settings("session"),
        "signs_logged": signs_logged(name, script),
        "files": files,
        "outcome": script.head.get("expects", "read"),
        "source": {
            "rows": "SELECT in a second session, READ UNCOMMITTED, before and after each statement of the script",
            "statements, events": "SHOW BINLOG EVENTS",
        },
        "statements": showing.statements,
        **({"logged_texts": showing.texts} if showing.texts else {}),
        "events": showing.events,
        **changes_of(effects),
    })  # fmt: skip


def running_before(connection: "pymysql.Connection[Any]", *version: int) -> bool:
    """Check whether the server is MariaDB, or a MySQL before this version."""
    text = str(connection.get_server_info())  # type: ignore[no-untyped-call]
    return "MariaDB" in text or tuple(map(int, text.split(".")[:2])) < version


def signs_logged(name: str, script: Script) -> bool:
    """Check whether the log tells which columns are unsigned."""
    return name != "mysql-5.7" and script.settings("with").get("binlog_row_metadata") != "NO_LOG"


def changes_of(effects: Effects) -> dict[str, Any]:
    """The layouts, and lists of changes that name a layout by its number."""
    layouts: list[dict[str, Any]] = []
    lists = {"changes": effects.effective, "logged": effects.logged, "not_logged": effects.unlogged}
    if effects.logged == effects.effective:
        del lists["logged"]
    if not effects.unlogged:
        del lists["not_logged"]
    numbered: dict[str, list[dict[str, Any]]] = {}
    for key, changes in lists.items():
        numbered[key] = []
        for change in changes:
            if change["layout"] not in layouts:
                layouts.append(change["layout"])
            numbered[key].append(change | {"layout": layouts.index(change["layout"])})
    return {"layouts": layouts, **numbered}


def write_case(path: Path, case: dict[str, Any]) -> None:
    """JSON with a line for each member, layout, change and list of events, so that a difference of two is short."""
    encode = json.JSONEncoder(ensure_ascii=False).encode
    lines = []
    for key, value in case.items():
        text = encode(value)
        if key in ("layouts", "changes", "logged", "not_logged", "events", "statements") and value:
            text = "[\n" + ",\n".join(f"  {encode(item)}" for item in value) + "\n ]"
        lines.append(f" {encode(key)}: {text}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def all_scripts() -> list[Script]:
    return [Script.read(path) for path in sorted(SCRIPTS.glob("*.sql"))]


def start_of(pair: tuple[str, Script]) -> tuple[str, ...]:
    """What scripts have to share to run on one server: its name, options, encryption, and whether they run alone."""
    server, script = pair
    return (server, *(script.head.get(key, "") for key in ("options", "encrypted", "alone")))


def main(names: list[str]) -> int:
    failures: list[str] = []
    pairs = [(server, script) for script in all_scripts() for server in script.head["servers"].split()]
    wanted = [(server, script) for server, script in pairs if not names or script.name in names]
    for (server, options, encrypted, *_), group in groupby(sorted(wanted, key=start_of), key=start_of):
        try:
            build = build_of(server)
        except ConfigError as error:
            sys.stderr.write(f"{error}\n")
            continue
        with tempfile.TemporaryDirectory() as folder:
            settings: dict[str, object] = {"server_id": 7, "log_bin": "log-bin"}
            settings |= dict(pair.split("=", 1) for pair in options.split())
            if encrypted:
                settings |= encryption(Path(folder), build.dist())
            with MySQLServer(Path(folder) / "server", settings, build) as running:
                for _, script in group:
                    try:
                        record(running, server, script)
                    except pymysql.MySQLError as error:
                        failures.append(f"{server}-{script.name}: {error}")
    if not names:
        damage(CASES)
    sys.stderr.write("".join(f"{failure}\n" for failure in failures))
    return bool(failures)


def encryption(folder: Path, dist: Path) -> dict[str, object]:
    """Options of a MariaDB server that encrypts its log by a key in a file."""
    plugins = next((path.parent for path in dist.rglob("file_key_management.so")), dist)
    keys = folder / "keys"
    keys.write_text("1;a7addd9adea9978fda19f21e6be987880e68ac92632ca052e5bb42b1a506939a\n", encoding="ascii")
    return {
        "plugin_dir": plugins,
        "plugin_load_add": "file_key_management",
        "file_key_management_filename": keys,
        "encrypt_binlog": "ON",
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
