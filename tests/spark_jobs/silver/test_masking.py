import pytest

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.config.filters import ColumnRule, Mask
from spark_jobs.config.table_patterns import Scope
from spark_jobs.ddl.default_values import Fill
from spark_jobs.errors import TableStopped
from spark_jobs.expressions.computed import Computed
from spark_jobs.silver import table as silver
from spark_jobs.silver.masking import columns_seen, fills_seen, origins_seen, unknown_column_problem, with_retired

HASH = Mask("hash", salt="pepper")
TABLE = TableDefinition(
    TableName("shop", "t"),
    (
        Column("id", 3),
        Column("Name", 15, 80, charset=255),
        Column("born", 10),
        Column("weight", 5, 8),
        Column("photo", 252, 2, charset=63),
    ),
    key=(0,),
)


def rule(**settings: object) -> ColumnRule:
    return ColumnRule("r", Scope(), **settings)  # type: ignore[arg-type]


def test_without_a_rule_columns_are_as_they_are() -> None:
    assert columns_seen(TABLE, None) == silver.columns(TABLE)


def test_columns_that_are_left_out_masked_and_computed() -> None:
    computed = (Computed.parse("year", "YEAR(born)", "INT"), Computed.parse("older", "gone = 1", "BOOLEAN"))
    masks = {"name": Mask("truncate", length=2), "id": HASH}
    columns = columns_seen(TABLE, rule(exclude=frozenset({"born"}), masks=masks, computed=computed))
    assert columns.types == {
        "id": "STRING",
        "Name": "STRING",
        "weight": "DOUBLE",
        "photo": "BINARY",
        "year": "INT",
        "older": "BOOLEAN",
    }
    assert columns.key == ("id",)


@pytest.mark.parametrize(
    "wrong, message",
    [
        (rule(exclude=frozenset({"id"})), "columns.r leaves out id, which rows are identified by; mask it by a hash"),
        (rule(include=frozenset({"name"})), "columns.r leaves out id, which rows are identified by"),
        (rule(masks={"id": Mask("constant", constant=1)}), "columns.r.mask.id: constant makes one key of several"),
        (rule(masks={"born": Mask("truncate", length=1)}), "only text and bytes are truncated, and the column is DATE"),
        (rule(masks={"weight": HASH}), "columns.r.mask.weight: only text, bytes, whole numbers, DECIMAL and DATE"),
        (rule(masks={"born": Mask("constant", constant="x")}), "the constant 'x' does not fit the column, which is"),
        (rule(masks={"id": HASH, "name": Mask("hash", salt="x")}), "columns of one table are hashed with one salt"),
        (rule(computed=(Computed.parse("name", "born", "DATE"),)), "has the name of a column of the table"),
        (
            rule(computed=(Computed.parse("c", "born", "INT"),)),
            "columns.r.computed.c: `born` is a DATE, which INT does",
        ),
    ],
)
def test_rules_that_such_a_table_cannot_have(wrong: ColumnRule, message: str) -> None:
    with pytest.raises(TableStopped) as error:
        columns_seen(TABLE, wrong)
    assert message in str(error.value)


def test_a_whole_number_must_fit() -> None:
    key = TableDefinition(TABLE.name, (Column("id", 3), Column("small", 1)), key=(0,))
    assert columns_seen(key, rule(masks={"small": Mask("constant", constant=-128)})) == silver.columns(key)
    with pytest.raises(TableStopped, match="128 is no TINYINT"):
        columns_seen(key, rule(masks={"small": Mask("constant", constant=128)}))


def test_a_name_that_the_table_never_had() -> None:
    assert unknown_column_problem(rule(exclude=frozenset({"phone"})), frozenset({"id"})) == (
        "columns.r names column phone, which the table does not have"
    )
    assert unknown_column_problem(rule(exclude=frozenset({"id"})), frozenset({"id"})) is None
    assert unknown_column_problem(None, frozenset()) is None


def test_a_column_under_another_name() -> None:
    before = silver.Columns({"id": "INT", "email": "STRING"}, ("id",))
    after = silver.Columns({"id": "INT", "mail": "STRING"}, ("id",))
    origins: dict[str, str | None] = {"id": "id", "mail": "email", "phone": "telephone"}
    with pytest.raises(TableStopped, match="column email is renamed to mail, and the rule does not say the same"):
        origins_seen(rule(masks={"email": HASH}), origins, before, after)
    masks = rule(masks={"email": HASH, "mail": HASH}, exclude=frozenset({"phone", "telephone"}))
    assert origins_seen(masks, origins, before, after) == {"id": "id", "mail": "email"}


def test_a_masked_column_is_not_added_with_a_default() -> None:
    after = silver.Columns({"id": "INT", "note": "STRING"}, ("id",))
    assert fills_seen(rule(), {"note": Fill("'x'"), "gone": Fill("1")}, after) == {"note": Fill("'x'")}
    with pytest.raises(TableStopped, match=r"columns\.r\.mask\.note: the column was added with a default"):
        fills_seen(rule(masks={"note": HASH}), {"note": Fill("'x'")}, after)


def test_columns_of_an_earlier_time_come_last() -> None:
    columns = with_retired(columns_seen(TABLE, None), {"_v_until_1_4": "INT"})
    assert list(columns.types)[-1] == "_v_until_1_4"
    assert columns.key == columns_seen(TABLE, None).key
