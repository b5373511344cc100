import pytest

from spark_jobs.binlog import TableName
from spark_jobs.ddl import alter, effects, foreign_keys, inverse, parse_alter, renames
from spark_jobs.ddl.unreadable_types import readable
from spark_jobs.errors import TableStopped, Unsupported


@pytest.mark.parametrize("error", [IndexError("secret"), RecursionError(), ArithmeticError("secret"), StopIteration()])
def test_what_interpretation_meets_is_unsupported_and_shows_no_value(error: Exception) -> None:
    @readable
    def interpret() -> None:
        raise error

    with pytest.raises(Unsupported, match=rf"^the statement cannot be read \({type(error).__name__}\)$"):
        interpret()


def test_errors_of_ours_stay_and_results_pass() -> None:
    @readable
    def interpret(text: str) -> str:
        if text == "stop":
            raise TableStopped(text)
        return text

    assert interpret("text") == "text"
    with pytest.raises(TableStopped, match=r"^stop$"):
        interpret("stop")


@pytest.mark.parametrize(
    "text", ["", "ALTER TABLE", "ALTER TABLE t ADD", "CREATE TABLE t (", "DROP TABLE", "RENAME TABLE a TO"]
)
def test_no_statement_ends_in_another_error(text: str) -> None:
    """Cut anywhere, a statement is read or refused."""
    name = TableName("s", "t")
    for interpret in (
        lambda: parse_alter.operations(text),
        lambda: parse_alter.target(text, "s"),
        lambda: parse_alter.dropped_tables(text, "s"),
        lambda: parse_alter.created_definition(name, text),
        lambda: parse_alter.new_name(text),
        lambda: parse_alter.index_changes(text, "s"),
        lambda: parse_alter.storage_action(text, "s"),
        lambda: renames.earlier_names(text, "s"),
        lambda: renames.like_table(text, "s"),
        lambda: foreign_keys.declared_keys(text, "s"),
        lambda: foreign_keys.dropped_keys(text),
    ):
        try:
            interpret()
        except Unsupported:
            continue


def test_the_functions_that_interpret_statements_are_guarded() -> None:
    guarded = {
        alter: ("altered_definition",),
        parse_alter: (
            "operations",
            "new_name",
            "target",
            "dropped_tables",
            "created_definition",
            "index_changes",
            "storage_action",
        ),
        effects: ("effects",),
        renames: ("earlier_names", "like_table"),
        inverse: ("known_definition", "inverted", "matching_definition"),
        foreign_keys: ("declared_keys", "dropped_keys"),
    }
    assert [f"{module.__name__}.{name}" for module, names in guarded.items() for name in names
            if not hasattr(getattr(module, name), "__wrapped__")] == []  # fmt: skip
