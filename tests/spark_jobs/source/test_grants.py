import pytest

from spark_jobs.config.table_patterns import Pattern
from spark_jobs.source.grants import Grants

LINES = (
    "GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'repl'@'%' IDENTIFIED BY PASSWORD '*08'",
    "GRANT SELECT (id, `a,b`), INSERT ON `shop\\_1`.`or``ders` TO `repl`@`%`",
    "GRANT SELECT ON `test%`.* TO `repl`@`%` WITH GRANT OPTION",
    "GRANT EXECUTE ON PROCEDURE `shop`.`p` TO `repl`@`%`",
    "GRANT `reader`@`%` TO `repl`@`%`",
    "GRANT PROXY ON ''@'%' TO 'root'@'localhost' WITH GRANT OPTION",
)


def test_lines_are_read_by_privilege_and_table() -> None:
    grants = Grants.parse(LINES)
    assert grants.of("SELECT") == [Pattern("*", "*"), Pattern("shop_1", "or`ders"), Pattern("test*", "*")]
    assert grants.of("INSERT") == [Pattern("shop_1", "or`ders")]
    assert grants.of("EXECUTE") == []
    assert grants.on_server("REPLICATION SLAVE")
    assert grants.on_server("SUPER", "REPLICATION CLIENT")
    assert not grants.on_server("SUPER")


@pytest.mark.parametrize("text", ["ALL PRIVILEGES", "ALL"])
def test_all_privileges_are_every_privilege_of_their_place(text: str) -> None:
    assert Grants.parse([f"GRANT {text} ON *.* TO `root`@`%`"]).on_server("REPLICATION SLAVE")
    assert not Grants.parse([f"GRANT {text} ON `shop`.* TO `root`@`%`"]).on_server("REPLICATION SLAVE")
