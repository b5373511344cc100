"""Random expressions over random rows, on real servers and as tasks evaluate them: equal, or refused.

Rows come from the server's log. A pair is an expression and a row; pairs of which the server says "out of range" are
left out, since the lake's numbers are exact beyond that.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pymysql
import pytest

from spark_jobs.binlog import FileDecoder, TableDefinition, TableName
from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import ConfigError
from spark_jobs.expressions.compiler import Compiler
from spark_jobs.expressions.terms import Sort, Term
from spark_jobs.expressions.tree import names_in, tree_of
from spark_jobs.expressions.value_compiler import ValueCompiler
from spark_jobs.silver.row_values import Image, resolving
from tests.fix_mysql import Database, database_of
from tests.fix_servers import Servers
from tests.services.servers import SERVERS
from tests.twins.random_expressions import BIN, Writer, create, rows
from tests.twins.twin_cases import FIRST_SEED

pytestmark = [pytest.mark.mysql]

ROWS = 40
FEW, MANY = 120, 3500
"""Expressions; a third of them is refused."""
OUT_OF_RANGE, NO_SYNTAX = 1690, 1064
NAMED = [server for server in SERVERS if server != "mysql-5.7"]
"""Servers whose logs name columns and tell which integers are unsigned."""
BEFORE_0900 = ("mysql-8.0",)
"""Servers without the collation: version 8.0.12 does not have it yet."""


@pytest.mark.parametrize("server", ["mysql-8.0", "mariadb-11.4"])
def test_expressions_are_what_servers_say(server: str, servers: Servers) -> None:
    assert compared(server, servers.get(server), FEW, FIRST_SEED)["pairs"] > 1500


@pytest.mark.thorough
@pytest.mark.parametrize("server", NAMED)
def test_many_expressions_are_what_servers_say(server: str, servers: Servers, summary: list[str]) -> None:
    counts = compared(server, servers.get(server), MANY, FIRST_SEED + 1)
    summary.append(f"{server}, expressions: {', '.join(f'{count:,} {name}' for name, count in sorted(counts.items()))}")
    assert counts["pairs"] > 50_000


def compared(name: str, server: MySQLServer, expressions: int, seed: int) -> Counter[str]:
    """What was compared. Raises AssertionError for the first differences."""
    random, counts, differing = Random(seed), Counter[str](), list[str]()
    with database_of(server) as database:
        table = RowsOfServer.of_server(name, database, random)
        writer = Writer(random)
        for number in range(expressions):
            is_condition = number % 5 < 3
            text = writer.truth(3) if is_condition else writer.value(2)
            try:
                differing += table.differences(text, counts, is_condition=is_condition)
            except ConfigError:
                counts["refused"] += 1
    assert not differing, f"seed {seed}: {differing[:5]}"
    return counts


@dataclass(frozen=True)
class RowsOfServer:
    """The table on a server, and its rows as they are in the log."""

    name: str
    database: Database
    definition: TableDefinition
    image: Image

    @classmethod
    def of_server(cls, name: str, database: Database, random: Random) -> "RowsOfServer":
        database.connection.set_character_set("utf8mb4")
        database.execute("SET SESSION sql_mode = 'NO_UNSIGNED_SUBTRACTION', time_zone = '+00:00'")
        database.execute("FLUSH BINARY LOGS")
        database.execute(create("t"))
        database.execute(f"INSERT INTO t VALUES {', '.join(rows(random, ROWS))}")
        log = str(database.execute("SHOW BINARY LOGS")[-1][0])
        database.execute("FLUSH BINARY LOGS")
        decoder, table_name = FileDecoder(log), TableName(database.name, "t")
        with (database.server.data / log).open("rb", buffering=0) as file:
            blocks = [(table, changes) for table, changes in decoder.read(file) if table.name == table_name]
        assert all(changes.raw is None for _, changes in blocks)
        definition = blocks[0][0]
        return cls(name, database, definition, Image(pa.Table.from_batches([block.after for _, block in blocks]), None))

    def differences(self, text: str, counts: Counter[str], *, is_condition: bool) -> Iterator[str]:
        """The first row of which the server says otherwise. Raises ConfigError for what is refused."""
        tree, resolve = tree_of(text), resolving(self.definition)
        term = Compiler(resolve).truth(tree) if is_condition else ValueCompiler(resolve).value(tree)
        if term.sort is Sort.NULL or (self.name in BEFORE_0900 and "<=>" in text and BIN in text):
            return
        names = names_in(tree)
        values = term.evaluate(self.image.cells(self.definition, names)).over(ROWS).to_pylist()
        answers = self._answers(query_of(on_server(text, self.name), term, is_condition=is_condition))
        counts["pairs"] += len(answers)
        counts["expressions"] += 1
        for row, answer in sorted(answers.items()):
            if not is_same(values[row - 1], answer, term):
                cells = {name: self.image.rows.column(name)[row - 1].as_py() for name in sorted(names)}
                yield f"{text}: row {row} {cells}: {values[row - 1]!r} here, {answer!r} on the server"
                return

    def _answers(self, expression: str) -> dict[int, Any]:
        """By row the server's answers; without rows that it calls out of range, and none for what it does not read."""
        answers = self._selected(f"SELECT id, {expression} FROM t")
        if answers is None:
            all_rows = (f"SELECT id, {expression} FROM t WHERE id = {row}" for row in range(1, ROWS + 1))
            answers = {row: answer for text in all_rows for row, answer in (self._selected(text) or {}).items()}
        return answers

    def _selected(self, query: str) -> dict[int, Any] | None:
        """The rows of a query; None where a number is out of range, none where it is not read."""
        try:
            return dict(self.database.execute(query))
        except pymysql.MySQLError as error:
            if error.args[0] == NO_SYNTAX:
                return {}
            if error.args[0] == OUT_OF_RANGE:
                return None
            raise


def on_server(text: str, name: str) -> str:
    """The expression with a collation that the server has."""
    if name.startswith("mariadb"):
        return text.replace(BIN, "utf8mb4_nopad_bin")
    if name in BEFORE_0900:
        # Patterns count characters; bytes of UTF-8 are equal where characters are, trailing spaces included.
        text = re.sub(rf"(\w+) COLLATE {BIN} ((?:NOT )?LIKE)", r"\1 COLLATE utf8mb4_bin \2", text)
        return re.sub(rf"(\w+) COLLATE {BIN}", r"BINARY \1", text)
    return text


ASKED = {
    Sort.REAL: "({}) + 0e0",
    Sort.NUMBER: "({}) + 0",
    Sort.TRUTH: "({}) + 0",
    Sort.BYTES: "HEX({})",
    Sort.DATE: "DATE_FORMAT({}, '%Y-%m-%d')",
    Sort.DATETIME: "DATE_FORMAT({}, '%Y-%m-%d %H:%i:%s.%f')",
    Sort.MOMENT: "DATE_FORMAT({}, '%Y-%m-%d %H:%i:%s.%f')",
}
"""What a server is asked, so that its answer has all of the value; of other sorts it is text."""
SAME: dict[Sort, Callable[[Any, Any], bool]] = {
    Sort.REAL: lambda value, answer: float(answer) == value,
    Sort.NUMBER: lambda value, answer: Decimal(answer) == value,
    Sort.TRUTH: lambda value, answer: bool(int(answer)) is value,
    Sort.BYTES: lambda value, answer: bytes.fromhex(answer) == value,
    Sort.DATE: lambda value, answer: answer == value.isoformat(),
    Sort.DATETIME: lambda value, answer: answer == value.isoformat(" ", "microseconds"),
    Sort.MOMENT: lambda value, answer: answer == value.replace(tzinfo=None).isoformat(" ", "microseconds"),
}


def query_of(text: str, term: Term, *, is_condition: bool) -> str:
    if is_condition:
        return f"CASE WHEN ({text}) IS NULL THEN NULL ELSE ({text}) IS TRUE END"
    return ASKED.get(term.sort, "CONVERT({} USING utf8mb4)").format(text)


def is_same(value: Any, answer: Any, term: Term) -> bool:
    if value is None or answer is None:
        return value is answer
    return SAME[term.sort](value, answer) if term.sort in SAME else bool(value == answer)
