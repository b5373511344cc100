from pathlib import Path

import pytest

from spark_jobs.config.loader import load
from spark_jobs.errors import ConfigError
from tests.spark_jobs.config.test_loader import LEAST, write


def problems(tmp_path: Path, text: str) -> dict[str, str]:
    with pytest.raises(ConfigError) as error:
        load(write(tmp_path, f"{LEAST}{text}"))
    return error.value.problems


def test_a_delivery(tmp_path: Path) -> None:
    text = 'deliveries:\n  replica:\n    mysql: {host: db, user: w}\n    tables: ["shop.*", "!shop.audit"]\n'
    delivery = load(write(tmp_path, f"{LEAST}{text}")).deliveries["replica"]
    assert (delivery.apply, delivery.safe_mode, delivery.ddl) == ("net", "auto", "apply")
    assert (delivery.workers, delivery.batch_rows, delivery.mysql.port) == (4, 1000, 3306)
    assert [delivery.scope.holds("shop", table) for table in ("orders", "audit")] == [True, False]


@pytest.mark.parametrize(
    "text, key",
    [
        ("deliveries: {re-plica: {mysql: {user: w}}}", "deliveries.re-plica"),
        (f"deliveries: {{{'r' * 65}: {{mysql: {{user: w}}}}}}", f"deliveries.{'r' * 65}"),
        ("deliveries: {replica: {mysql: {user: w}, apply: sorted}}", "deliveries.replica.apply"),
        ("deliveries: {replica: {mysql: {user: w}, workers: 0}}", "deliveries.replica.workers"),
        ("deliveries: {replica: {}}", "deliveries.replica.mysql"),
        ("deliveries: {replica: {mysql: {user: w}, tables: [a.b.c]}}", "deliveries.replica.tables[0]"),
    ],
)
def test_a_delivery_that_is_wrong(tmp_path: Path, text: str, key: str) -> None:
    assert [problem.rpartition(": ")[2] for problem in problems(tmp_path, f"{text}\n")] == [key]
