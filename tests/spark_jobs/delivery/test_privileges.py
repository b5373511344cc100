from typing import Any

import pymysql
import pytest

from spark_jobs.config.deliveries import Delivery
from spark_jobs.config.table_patterns import Pattern
from spark_jobs.delivery.deliver import deliver, reload_tables
from spark_jobs.delivery.lake_table import published
from spark_jobs.delivery.privileges import Missing, granting, missing_privileges
from spark_jobs.delivery.target import Connection
from spark_jobs.errors import DeliveryDenied, DeliveryError
from spark_jobs.lake.layout import lake_of
from spark_jobs.source.grants import Grants
from tests.lakes.delivered import Copy

PROGRESS = "GRANT SELECT, INSERT, UPDATE, CREATE ON `stratalog`.* TO `w`@`%`"
ORDERS, ITEMS = Pattern("shop", "orders"), Pattern("shop", "items")


def settings(**keys: Any) -> Delivery:
    return Delivery.model_validate({"mysql": {"host": "127.0.0.1", "port": 1, "user": "w", "password": "p"}} | keys)


@pytest.mark.parametrize(
    "lines, keys, missing",
    [
        (["GRANT ALL PRIVILEGES ON *.* TO `w`@`%`"], {}, []),
        ([PROGRESS, "GRANT ALL PRIVILEGES ON `shop`.* TO `w`@`%`"], {"apply": "ordered"}, []),
        (
            ["GRANT USAGE ON *.* TO `w`@`%`"],
            {"ddl": "ignore"},
            [
                Missing("stratalog", ("SELECT", "INSERT", "UPDATE", "CREATE")),
                Missing("shop", ("SELECT", "INSERT", "UPDATE", "DELETE")),
            ],
        ),
        # What is granted on one of the tables is not missing there, but the GRANT is about the schema.
        (
            [PROGRESS, "GRANT SELECT, INSERT, UPDATE, DELETE ON `shop`.`orders` TO `w`@`%`"],
            {},
            [Missing("shop", ("CREATE", "ALTER", "SELECT", "INSERT", "UPDATE", "DELETE"))],
        ),
    ],
)
def test_missing_privileges(lines: list[str], keys: dict[str, Any], missing: list[Missing]) -> None:
    assert missing_privileges(Grants.parse(lines), settings(**keys), [ORDERS, ITEMS]) == missing


def test_tables_are_emptied_by_drop() -> None:
    grants = Grants.parse([PROGRESS, "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER ON `shop`.* TO `w`@`%`"])
    [missing] = missing_privileges(grants, settings(), [ORDERS], is_reload=True)
    assert str(missing) == "DROP on shop.*"
    assert missing.grant("'w'@'%'") == "GRANT DROP ON `shop`.* TO 'w'@'%'"


@pytest.mark.parametrize(
    "number, kind", [(1045, DeliveryDenied), (1142, DeliveryDenied), (1213, DeliveryError)], ids=str
)
def test_errors_stay_as_they_are_where_the_target_does_not_tell(number: int, kind: type[DeliveryError]) -> None:
    connection = Connection("copy", settings().mysql)  # nobody answers at its port
    cause = pymysql.OperationalError(number, "no")
    with pytest.raises(DeliveryError) as raised, granting(connection, settings(), []):
        raise connection.error(cause, "shop.orders") from cause
    assert type(raised.value) is kind
    assert "GRANT" not in str(raised.value)


@pytest.mark.spark
@pytest.mark.mysql
@pytest.mark.parametrize("apply", ["net", "ordered"])
def test_a_denial_says_what_to_grant(copy: Copy, apply: str) -> None:
    """Once for the delivery where its progress cannot be kept, then for each table; the other tables go through."""
    names = ("t", "u")
    for name in names:
        copy.shop.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY)", f"INSERT INTO {name} VALUES (1)")
    copy.execute("REVOKE ALL PRIVILEGES, GRANT OPTION FROM writer@'%'")
    pipeline = copy.pipeline(apply=apply, ddl="ignore")
    with pytest.raises(DeliveryDenied) as raised:
        copy.run(pipeline)
    of_rows = "SELECT, INSERT, UPDATE, DELETE" + (", DROP" if apply == "ordered" else "")
    grants = [
        "GRANT SELECT, INSERT, UPDATE, CREATE ON `stratalog`.* TO 'writer'@'%'",
        f"GRANT {of_rows} ON `{copy.schema}`.* TO 'writer'@'%'",
    ]
    server = copy.server
    assert str(raised.value).startswith(
        f"delivery copy: {server.host}:{server.port} answered: Access denied for user 'writer'@'%' to database "
    )
    assert str(raised.value).endswith(f"; grant it (stratalog docs deliveries#privileges): {'; '.join(grants)}")
    # The statements are what it takes, but for one table's rows.
    copy.execute(f"CREATE DATABASE IF NOT EXISTS `{copy.schema}`", *grants)
    for name in names:
        copy.execute(f"CREATE TABLE `{copy.schema}`.{name} (id INT PRIMARY KEY)")
    copy.execute(grants[1].replace("GRANT", "REVOKE").replace(" TO ", " FROM "))
    copy.execute(grants[1].replace("`.*", "`.t"), f"GRANT SELECT ON `{copy.schema}`.u TO writer@'%'")
    outcome = deliver(pipeline, "copy")
    [(table, reason)] = outcome.stopped.items()
    assert (table, outcome.denied) == ((copy.schema, "u"), {table})
    assert "INSERT command denied to user 'writer'@" in reason
    lacking = of_rows.removeprefix("SELECT, ")
    assert reason.endswith(f"): GRANT {lacking} ON `{copy.schema}`.* TO 'writer'@'%'")
    copy.require_same("t")
    copy.execute(grants[1])
    assert deliver(pipeline, "copy").stopped == {}
    copy.require_same(*names)
    # Of a log in order all tables stop.
    if apply == "ordered":
        copy.execute(f"REVOKE INSERT ON `{copy.schema}`.* FROM writer@'%'")
        copy.shop.execute("INSERT INTO u VALUES (2)")
        outcome = copy.run(pipeline)
        assert outcome.denied == {("", "shop")}
        assert outcome.stopped["", "shop"].endswith(f"): GRANT INSERT ON `{copy.schema}`.* TO 'writer'@'%'")
    else:
        copy.execute(f"REVOKE DROP ON `{copy.schema}`.* FROM writer@'%'")
        with pytest.raises(DeliveryDenied, match=r"DROP command denied .*: GRANT CREATE, ALTER, DROP ON"):
            reload_tables(copy.pipeline(), "copy", published(pipeline, lake_of(pipeline)))
