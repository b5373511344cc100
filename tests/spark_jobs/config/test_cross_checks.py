from pathlib import Path

import pytest

from spark_jobs.config.loader import load
from tests.spark_jobs.config.test_loader import LEAST, problems, write


@pytest.mark.parametrize(
    "tables, redact, indexes",
    [
        ("[shop.*]", "[shop.secrets]", [0]),
        ("[]", "[shop.secrets]", [0]),
        ("[]", "[mysql.user]", []),
        ("[shop.secrets]", "[hr.*, 'shop.s*']", [1]),
        ("['shop.*', '!shop.secrets']", "[shop.secrets]", []),
        ("['!shop.secrets']", "[shop.secrets]", []),
        ("['!shop.secrets', 'shop.*']", "[shop.secrets]", [0]),
        ("['shop.*', '!shop.s*']", "[shop.secrets, 'shop.se*']", []),
        ("['shop.*', '!shop.s?']", "['shop.s*']", [0]),
        ("[hr.public]", "['hr.*', '!hr.public']", []),
        ("[hr.public]", "['hr.*', '!hr.public', hr.public]", [2]),
        ("[shop.*]", "[hr.*]", []),
    ],
)
def test_redacted_tables_are_not_in_scope(tmp_path: Path, tables: str, redact: str, indexes: list[int]) -> None:
    text = f"{LEAST}    redact: {redact}\ntables: {tables}\n"
    if indexes:
        messages = problems(tmp_path, text)
        assert list(messages) == [f"sources.shop.redact[{at}]" for at in indexes]
        assert (
            "can be in scope, by tables:, and there would be no rows of it; list"
            in messages[f"sources.shop.redact[{indexes[0]}]"]
        )
    else:
        assert load(write(tmp_path, text), {}).sources["shop"].redact


@pytest.mark.parametrize("value", ["true", "yes", "'on'", "${ICEBERG}"])
def test_iceberg_is_judged_however_it_is_written(tmp_path: Path, value: str) -> None:
    plain = problems(tmp_path, f"{LEAST}compat: plain\niceberg: {value}\n", ICEBERG="true")
    assert plain == {
        "iceberg": "is not possible with compat: plain, whose files have no field ids; remove one of the two"
    }
    catalog = f"{LEAST}iceberg: {value}\niceberg_catalog: {{properties: {{type: rest}}}}\n"
    assert load(write(tmp_path, catalog), {"ICEBERG": "true"}).iceberg_catalog


@pytest.mark.parametrize("value", ["false", "no", "null", "often"])
def test_a_catalog_without_iceberg_tables_has_nothing_to_register(tmp_path: Path, value: str) -> None:
    messages = problems(tmp_path, f"{LEAST}iceberg: {value}\niceberg_catalog: {{properties: {{type: rest}}}}\n")
    assert messages["iceberg_catalog"].startswith("there is no table to register")


@pytest.mark.parametrize(
    "keys, key, message",
    [
        (
            "mysql: {user: r, host: db}, endpoints: [{host: db2}]",
            "",
            "endpoints list all servers; take host out of mysql and put it among them",
        ),
        ("mysql: {user: r}, endpoints: [{host: db}, {host: db}]", "", "endpoints: db:3306 is there twice"),
        (
            "files: ./logs, endpoints: [{host: db}]",
            "",
            "endpoints need mysql: what they share, such as user and password",
        ),
        ("mysql: {user: r}, choose: hash", "", "choose is between endpoints, and there are none"),
        ("mysql: {user: r}, endpoints: [{host: db}], choose: random", ".choose", "must be 'listed', 'hash' or 'score'"),
        ("mysql: {user: r}, endpoints: [{port: 1}]", ".endpoints[0].host", "missing"),
        ("mysql: {user: r}, on_new_server: go", ".on_new_server", "must be 'stop' or 'continue'"),
    ],
)
def test_mistakes_about_endpoints(tmp_path: Path, keys: str, key: str, message: str) -> None:
    assert problems(tmp_path, f"lake: /lake\nsources: {{shop: {{{keys}}}}}\n") == {f"sources.shop{key}": message}


RULES = """
filters:
  misspelt: {tables: [shop.orders], events: [delet]}
  columns_follow: {tables: [shop.orders], events: [all ddl]}
  no_regex: {tables: [shop.orders], sql-pattern: ["("]}
  no tables: {tables: [], events: [insert]}
  out_of_scope: {tables: [other.t], events: [insert]}
row_filters:
  wrong:
    tables: [shop.orders]
    insert-value-expr: "id = (SELECT 1)"
    update-old-value-expr: "id ="
    update-new-value-expr: "NOW() > at"
    delete-value-expr: "1 = 1"
  nothing: {tables: [shop.orders]}
columns:
  open_salt: {tables: ["shop.c*"], mask: {a: {hash: pepper}, b: {truncate: 1, constant: 2}}}
  no_salt: {tables: [shop.customers], mask: {a: {hash: "${SALT}"}}, include: [a], exclude: [b]}
  empty_salt: {tables: [shop.d], mask: {A: {hash: "${EMPTY}"}}}
  twice: {tables: [shop.e], exclude: [A], mask: {a: {truncate: 1}}}
"""


def test_every_wrong_rule_is_a_problem_of_its_own(tmp_path: Path) -> None:
    messages = problems(tmp_path, f"{LEAST}tables: [shop.*]\n{RULES}", EMPTY="")
    assert {key: text[:60] for key, text in messages.items()} == {
        "columns.empty_salt.mask.A.hash": "the variable EMPTY of the environment is empty",
        "columns.no_salt": "has include and exclude; all that include does not name is l",
        "columns.no_salt.mask.a.hash": "the environment has no variable SALT; set it: export SALT=…",
        "columns.no_salt.tables": "a table can match columns.open_salt too; a table has at most",
        "columns.open_salt.mask.a.hash": "must be a variable of the environment, like ${MASK_SALT}: wh",
        "columns.open_salt.mask.b": "needs exactly one of hash, truncate and constant",
        "columns.twice": "masks a, which it leaves out",
        "filters.columns_follow": "leaves out alter table and rename table, which is always app",
        "filters.misspelt": "'delet' is no event; known are insert, update, delete, creat",
        "filters.no tables": "a rule's name is made of letters, digits, _ and -",
        "filters.no tables.tables": "must hold at least one",
        "filters.no_regex.sql-pattern[0]": "'(' is no regular expression: missing ), unterminated subpat",
        "filters.out_of_scope.tables[0]": "other.t is out of scope, by tables:",
        "row_filters.nothing": "needs one of insert-value-expr, update-old-value-expr, updat",
        "row_filters.wrong.delete-value-expr": "'1 = 1' names no column, and so says nothing about a row",
        "row_filters.wrong.insert-value-expr": "`(SELECT 1)` is a subquery, and a filter looks at its row al",
        "row_filters.wrong.update-new-value-expr": "`NOW()` is no function that a filter may use",
        "row_filters.wrong.update-old-value-expr": "'id =' is no expression of MySQL: Required keyword: 'express",
    }
