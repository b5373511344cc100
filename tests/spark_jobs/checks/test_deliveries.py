from typing import Any

import pytest

from spark_jobs.checks import Check
from spark_jobs.checks.deliveries import check_target
from tests.lakes.delivered import Copy

pytestmark = [pytest.mark.spark, pytest.mark.mysql]


def problems(copy: Copy, **keys: Any) -> dict[str, Check]:
    checks = list(check_target(copy.pipeline(**keys), "copy"))
    return {check.name: check for check in checks if check.status != "ok"}


def test_a_target(copy: Copy) -> None:
    """One target after the other: as it should be, then with what is wrong in it."""
    shop = copy.shop
    assert problems(copy) == {}
    assert problems(copy, apply="ordered") == {}
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1)")
    pipeline = copy.pipeline()
    copy.run(pipeline)
    assert problems(copy) == {}
    # Definitions.
    name = f"`{copy.schema}`.t"
    shop.execute(f"ALTER TABLE {name} ADD own INT NOT NULL, DROP PRIMARY KEY, DROP a, ENGINE = MyISAM")
    listed = list(check_target(copy.pipeline(ddl="stop"), "copy"))
    values = [check.value for check in listed if check.status != "ok"]
    assert [value.partition(",")[0] for value in values] == [
        "engine MyISAM has no transactions",
        "column own has no default",
        "the target lacks a",
        "the target has no primary key",
    ]
    shop.execute(f"DROP TABLE {name}")
    assert problems(copy, ddl="ignore")[f"{copy.schema}.t"].remedy == "create it, or set ddl: apply"
    # The server.
    shop.execute("SET GLOBAL read_only = ON", f"REVOKE ALTER, DELETE, DROP ON `{copy.schema}`.* FROM writer@'%'")
    try:
        problem_list = problems(copy, apply="ordered")
    finally:
        shop.execute("SET GLOBAL read_only = OFF")
    assert problem_list["read-only"].value == "read_only is on"
    assert problem_list["privileges"].remedy == f"GRANT DELETE, ALTER, DROP ON `{copy.schema}`.* TO 'writer'@'%'"
    assert set(problem_list) == {"read-only", "privileges"}


def test_a_target_that_is_not_there(copy: Copy) -> None:
    [check] = check_target(copy.pipeline(port=1), "copy")
    assert (check.name, check.status) == ("connection", "problem")
    assert "cannot be reached" in check.value
