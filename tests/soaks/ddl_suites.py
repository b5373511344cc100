"""The DDL of a server's own tests, each statement carried out on a server and held against what is made of it.

``python -m tests.soaks.ddl_suites SERVER DIRECTORY OUT``: SERVER is one of tests/services/servers.py, DIRECTORY has
files ``*.test`` (Debian's packages mysql-testsuite and mariadb-test-data have thousands), and OUT takes what did not
lead to the same. For each CREATE TABLE and ALTER TABLE that the server carries out, the columns and the key that this
project follows to are compared with those that the server then declares. Each statement begins at the server's own
definition, so that one difference brings no others.

Put here: reading such files, and comparing. Not here: random statements (ddl_stream.py).
"""

import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
from pydantic import SecretStr

from spark_jobs.binlog import Session, TableDefinition, TableName
from spark_jobs.config.servers import MySQL
from spark_jobs.ddl.alter import definition_after_clauses
from spark_jobs.ddl.classify import Effect, Statement, classify
from spark_jobs.ddl.diff import differences, unknown_types
from spark_jobs.ddl.parse_alter import created_definition, new_name, operations, target
from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import SourceError, Unsupported
from spark_jobs.source.information_schema import on_server
from spark_jobs.source.server import Server
from tests.services.servers import build_of

_SENT = re.compile(
    r"(CREATE|ALTER|DROP|RENAME|TRUNCATE)\s+(OR\s+REPLACE\s+|ONLINE\s+|IGNORE\s+)*(TABLES?|INDEX|UNIQUE|DATABASE|SCHEMA)\b"
    r"|SET\s+(SESSION\s+|@@)?(sql_mode|NAMES|CHARACTER)\b|USE\s",
    re.IGNORECASE,
)
"""What is sent: DDL of tables, and what decides how it is read; no rows, which might refuse it."""
_TEMPORARY = re.compile(r"\s*CREATE\s+(OR\s+REPLACE\s+)?TEMPORARY", re.IGNORECASE)
_DELIMITER = re.compile(r"(?:--\s*)?delimiter\s+(\S+?);?\s*$", re.IGNORECASE)
_KEPT = ("mysql", "sys", "information_schema", "performance_schema")
_SECONDS = 20
_GONE = (2006, 2013)
"""The client's numbers for a server that is gone, and a connection that was lost."""

Definitions = dict[TableName, TableDefinition]


def statements(text: str) -> Iterator[str]:
    """The statements of a file in mysqltest's language; those with its variables are left out."""
    delimiter, lines = ";", list[str]()
    for line in text.splitlines():
        if match := _DELIMITER.match(line.strip()):
            delimiter = match[1]
        elif lines or (line.strip() and not line.lstrip().startswith(("#", "--"))):
            lines.append(line)
            if line.rstrip().endswith(delimiter):
                statement = "\n".join(lines).strip().removesuffix(delimiter)
                lines = []
                if _SENT.match(statement) and "$" not in statement:
                    yield statement


class Corpus:
    """One server, and what was found of the statements that it carried out: counts, and lines about the others."""

    def __init__(self, server: MySQLServer) -> None:
        self._server = server
        self._source = Server("corpus", MySQL(port=server.port, user=server.user, password=SecretStr(server.password)))
        self._seen_sql: set[str] = set()
        self._last: Definitions | None = None
        self.counts: Counter[str] = Counter()
        self.lines: list[str] = []

    def play(self, path: Path) -> None:
        """Carries out the statements of one file, in schemas of their own."""
        with self._server.connect(read_timeout=_SECONDS) as connection, connection.cursor() as cursor:
            self._begin_transaction(cursor)
            for statement in statements(path.read_bytes().decode("utf-8", "replace")):
                self._carry_out(cursor, statement)

    @staticmethod
    def _begin_transaction(cursor: Any) -> None:
        cursor.execute("SET FOREIGN_KEY_CHECKS = 0")
        cursor.execute("SHOW DATABASES")
        for (name,) in cursor.fetchall():
            if name not in _KEPT:
                cursor.execute(f"DROP DATABASE `{name.replace('`', '``')}`")
        cursor.execute("CREATE DATABASE test")
        cursor.execute("USE test")

    def _carry_out(self, cursor: Any, text: str) -> None:
        cursor.execute("SELECT CAST(DATABASE() AS BINARY), @@sql_mode")
        (name, modes), bits = cursor.fetchone(), {"REAL_AS_FLOAT": 1, "ANSI_QUOTES": 4}
        database = (name or b"").decode()
        session = Session(sum(bit for mode, bit in bits.items() if mode in str(modes).split(",")))
        statement = classify(text, database, session)
        is_held = self._is_new(text) and statement.verb.startswith(("CREATE", "ALTER")) and not _TEMPORARY.match(text)
        is_held = is_held and statement.effect in (Effect.CREATES, Effect.CHANGES)
        before = self._last
        if is_held and before is None and statement.verb.startswith("ALTER"):
            before = on_server(self._source)
        self._last = None
        try:
            cursor.execute(text)
        except pymysql.MySQLError as error:
            if error.args[0] in _GONE:
                raise
            return
        if is_held:
            self.counts["carried out"] += 1
            self.counts["not parsed whole"] += statement.tables is None
            self.counts[self._outcome(statement, database, before or {})] += 1

    def _is_new(self, text: str) -> bool:
        plain = " ".join(text.split())
        is_new = plain not in self._seen_sql
        self._seen_sql.add(plain)
        return is_new

    def _outcome(self, statement: Statement, database: str, before: Definitions) -> str:
        try:
            followed = _followed(statement, database, before)
        except Unsupported as error:
            self.lines.append(f"REFUSED {error}\t{statement.short}")
            return "refused by name"
        if followed is None:
            return "takes its columns from elsewhere"
        self._last = on_server(self._source)
        declared = _at(self._last, followed.name)
        if declared is None or unknown_types(declared):
            return "of a view, or of a type that is not known"
        lines = differences(followed, declared)
        if lines:
            self.lines.append(f"DIFFERENT {'; '.join(lines)}\t{' '.join(statement.text.split())}")
        return "different" if lines else "equal"


def _followed(statement: Statement, database: str, before: Definitions) -> TableDefinition | None:
    """Position where a statement leads to, under the table's name behind it; None where others decide about that."""
    name = target(statement.plain, database)
    if statement.verb.startswith("CREATE"):
        return created_definition(name, statement.plain)
    definition, new = _at(before, name), new_name(statement.plain)
    if definition is None:
        return None
    after = definition_after_clauses(definition, operations(statement.plain))
    new_table = TableName(new.schema or database, new.table) if new else name
    return TableDefinition(new_table, after.columns, after.key, after.index)


def _at(definitions: Definitions, name: TableName) -> TableDefinition | None:
    folded = {(name.schema.casefold(), name.table.casefold()): defined for name, defined in definitions.items()}
    return definitions.get(name) or folded.get((name.schema.casefold(), name.table.casefold()))


def main(name: str, directory: str, out: str) -> None:
    """Plays the files in random order, and prints what came of them as it goes."""
    files = sorted(Path(directory).rglob("*.test"))
    random.Random(1).shuffle(files)
    with tempfile.TemporaryDirectory() as folder, MySQLServer(Path(folder), {}, build_of(name)) as server:
        corpus = Corpus(server)
        for at, path in enumerate(files, start=1):
            try:
                corpus.play(path)
            except (pymysql.MySQLError, SourceError, OSError) as error:  # what ends a server, or takes too long
                corpus.counts["files given up"] += 1
                _print_line(f"{path.name}: {error}")
                server.restart()
            if at % 20 == 0 or at == len(files):
                _print_line(f"{at} of {len(files)} files: {dict(corpus.counts)}")
                Path(out).write_text("\n".join(corpus.lines) + "\n", encoding="utf-8")


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
