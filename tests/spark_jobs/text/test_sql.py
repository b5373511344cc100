import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.runtime.spark_session import own_session
from spark_jobs.text.sql import account, columns, delta, identifier, is_table, literal, server_text, with_rows
from tests.binlogs.hostile import TEXTS, VALUES
from tests.fix_mysql import Database
from tests.source_trees import nodes_of

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name, expected", [("a", "`a`"), ("a b", "`a b`"), ("a`b", "`a``b`"), ("`", "````")])
def test_names(name: str, expected: str) -> None:
    assert identifier(name) == expected


@pytest.mark.parametrize(
    "text, expected",
    [("a", "'a'"), ("a'b\\c", "'a\\'b\\\\c'"), ("$5 {a}", "'$5 {a}'"), ("${a}", "'\\u0024{a}'")],
)
def test_texts(text: str, expected: str) -> None:
    assert literal(text) == expected


@pytest.mark.parametrize(
    "name, text",
    [("repl@%", "'repl'@'%'"), ("o'neil@10.0.0.%", "'o''neil'@'10.0.0.%'"), ("a@b@localhost", "'a@b'@'localhost'")],
)
def test_an_account_as_statements_name_it(name: str, text: str) -> None:
    assert account(name) == text


def test_paths_columns_and_texts_of_servers() -> None:
    assert delta("/a`b/c") == "delta.`/a``b/c`"
    assert columns({"a": "INT", "b`c": "STRING"}) == "`a` INT, `b``c` STRING"
    assert (server_text("ä"), server_text("")) == ("_utf8mb4 x'c3a4'", "''")


def test_braces_of_a_statement_over_rows_are_no_fields() -> None:
    text = with_rows("MERGE INTO `{0}` t USING ", " s ON t.`{a}` = s.`{a}`")
    assert text.format(source="view") == "MERGE INTO `{0}` t USING view s ON t.`{a}` = s.`{a}`"


@pytest.mark.spark
def test_texts_and_names_come_back_from_spark_as_they_went(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = spark.sql(f"SELECT {', '.join(map(literal, VALUES))}").head()
    assert row is not None
    assert tuple(row) == VALUES
    for at, name in enumerate(VALUES[:-8]):
        rows = spark.range(1).selectExpr(f"{literal(name)} AS {identifier(name)}")
        assert rows.columns == [name]
        assert [tuple(row) for row in rows.select(identifier(name)).collect()] == [(name,)], at
        over = spark.sql(with_rows(f"SELECT {identifier(name)} AS c FROM ", ""), source=rows)
        assert [tuple(row) for row in over.collect()] == [(name,)]
        assert spark.createDataFrame([("v",)], columns({name: "STRING"})).columns == [name]


@pytest.mark.spark
def test_texts_are_themselves_in_a_session_of_somebody_else(spark: SparkSession) -> None:
    """Programs read the lake in sessions of their own, in which Spark replaces variables."""
    session = spark.newSession()
    session.conf.set("spark.sql.variable.substitute", "true")
    text = "${system:user.name} ${env:HOME}"
    assert session.sql(f"SELECT {literal(text)}").head() == (text,)
    assert session.sql(f"SELECT '{text}'").head() != (text,), "the session replaces"
    assert own_session(session, {}).sql(f"SELECT '{text}'").head() == (text,)


@pytest.mark.mysql
@pytest.mark.parametrize("mode", ["", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES"])
def test_texts_and_names_come_back_from_the_server(mode: str, database: Database) -> None:
    database.execute("SET SESSION sql_mode = %s", (mode,))
    for text in VALUES:
        assert database.execute(f"SELECT {server_text(text)}") == ((text,),)
    for name in TEXTS:
        if name[0] > " ":  # an alias loses what stands before letters
            query = f"SELECT * FROM (SELECT 1 AS {identifier(name)}) t WHERE {identifier(name)}"
            assert database.execute(query) == ((1,),)


# ---- nobody else quotes ---------------------------------------------------------------------------------------------

QUOTES = ("'", "`")
FOR_PEOPLE = {
    "spark_jobs/text/codes.py": {"text"},
    "spark_jobs/binlog/slices/listing.py": {"database"},  # as SHOW BINLOG EVENTS writes it
    "spark_jobs/binlog/events/transaction_payload.py": {"names.get(kind, kind)"},
    "spark_jobs/expressions/tree.py": {"node.sql(dialect='mysql')", "word"},
    "spark_jobs/binlog/events/xa.py": {"body[13:middle].hex()", "body[middle:].hex()"},
    "spark_jobs/demo/report.py": {"orders"},
    "spark_jobs/cli/starter_file.py": {"readable"},  # a pattern of pipeline.yaml, of checked letters
}
"""What is written for people, in quotes."""
CHECKED = {
    "spark_jobs/row_history/undo_steps.py": {"content.encode().hex()"},
    "spark_jobs/downstream/merge_job.py": {"str(is_on).lower()"},
    "spark_jobs/ddl/default_values.py": {
        "double!r",
        "exact or abs(exact)",
        "np.float32(double)",
        "session_time.local(at, moment.zone).isoformat(' ')",
        "at.replace(tzinfo=None).isoformat(' ')",
        "value",
        "given.number if given else 0",
        "wire.hex()",
        "moment.isoformat(' ')",
        "moment.date()",
    },
    "spark_jobs/checks/server.py": {"name"},
    "spark_jobs/delivery/progress.py": {"part"},
    "spark_jobs/silver/table.py": {"at"},
    "spark_jobs/source/binlog_dump.py": {"replica"},
    "spark_jobs/source/server.py": {"name", "gtids"},
    "spark_jobs/checks/verify/value_text.py": {"text.decode()", "text.hex()"},
}
"""Numbers, times, hexadecimal digits and names of the project's own: whatever it is, it has no quote in it."""


def modules() -> Iterator[tuple[str, tuple[ast.AST, ...]]]:
    for folder in ("spark_jobs", "dagster_project", "assets", "stratalog"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            if name != "spark_jobs/text/sql.py" and (not name.startswith("spark_jobs/demo/") or name in FOR_PEOPLE):
                yield name, nodes_of(path)


def in_quotes(node: ast.JoinedStr) -> Iterator[str]:
    """What a formatted text has right between two quotes, or behind an opening one; not the project's constants."""
    parts = node.values
    for at, part in enumerate(parts):
        if not isinstance(part, ast.FormattedValue) or ast.unparse(part.value).rpartition(".")[2].isupper():
            continue
        before = parts[at - 1] if at else None
        behind = parts[at + 1] if at + 1 < len(parts) else None
        ends = [str(end.value) if isinstance(end, ast.Constant) else "" for end in (before, behind)]
        if any(ends[0].endswith(quote) and ends[1].startswith(quote) for quote in QUOTES):
            yield ast.unparse(part.value) + ("!r" if part.conversion == ord("r") else "")


def test_one_module_quotes() -> None:
    by_module: dict[str, set[str]] = {}
    for name, nodes in modules():
        raised = {
            id(inner) for raise_node in nodes if isinstance(raise_node, ast.Raise) for inner in ast.walk(raise_node)
        }
        for node in nodes:
            if isinstance(node, ast.JoinedStr) and id(node) not in raised:
                by_module.setdefault(name, set()).update(in_quotes(node))
    wrong = {name: texts - FOR_PEOPLE.get(name, set()) - CHECKED.get(name, set()) for name, texts in by_module.items()}
    assert {name: texts for name, texts in wrong.items() if texts} == {}, (
        "quoted by hand: spark_jobs/text/sql.py does that"
    )


def test_nobody_else_doubles_or_escapes_quotes() -> None:
    wrong = []
    for name, nodes in modules():
        for node in nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "replace":
                constants = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
                if constants in (["`", "``"], ["'", "''"], ["'", "\\'"], ["{", "{{"]):
                    wrong.append(name)
    printed = [
        "spark_jobs/binlog/types/enum_set.py",
        "spark_jobs/ddl/columns.py",
    ]  # as servers write a type, a default
    assert sorted(wrong) == printed


def test_a_column_is_asked_for_by_its_quoted_name() -> None:
    """``F.col`` takes dots and backticks in a name for more than a name."""
    wrong = []
    for name, nodes in modules():
        for node in nodes:
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "F.col":
                (argument,) = node.args
                text = ast.unparse(argument)
                if not (
                    isinstance(argument, ast.Constant) or "identifier(" in text or text.rpartition(".")[2].isupper()
                ):
                    wrong.append(name)
    assert set(wrong) == {"spark_jobs/bronze/xa.py"}, "columns of bronze and of tables beside it"


def test_a_table_of_information_schema_is_named_by_bytes() -> None:
    assert is_table("shop", "tä") == (
        "TABLE_SCHEMA = _utf8mb4 x'73686f70' AND TABLE_NAME = _utf8mb4 x'74c3a4' "
        "AND CAST(TABLE_SCHEMA AS BINARY) = x'73686f70' AND CAST(TABLE_NAME AS BINARY) = x'74c3a4'"
    )
