from dataclasses import replace

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.changes.lines import Output, wanted_tables
from spark_jobs.errors import ConfigError
from tests.binlogs.segment_spec import Statement
from tests.spark_jobs.changes.feeds import SPEC
from tests.spark_jobs.changes.formats.writing import texts


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("avro", {}, "there is no format 'avro'; there are stratalog, debezium, canal-json, maxwell"),
        (
            "debezium",
            {"statements": True},
            "debezium has no DDL statements; leave --ddl out, or use stratalog or",
        ),
        ("canal-json", {"transactions": True}, "canal-json has no begins and ends of transactions; use stratalog"),
    ],
)
def test_what_a_format_has_no_form_for(name: str, options: dict[str, bool], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Output.of(name, **options)


def test_statements_are_chosen_by_the_tables_that_they_name() -> None:
    changes = [
        Statement("bench", "RENAME TABLE orders TO x.orders_old"),
        Statement("bench", "GRANT SELECT ON *.* TO reader"),
        Statement("other", "CREATE DATABASE more"),
    ]
    spec = replace(SPEC, changes=changes)
    assert len(texts(spec, "stratalog", statements=True)) == 3
    assert len(texts(spec, "stratalog", "x.*", statements=True)) == 1
    assert len(texts(spec, "stratalog", "bench.*", statements=True)) == 2


def test_patterns() -> None:
    assert wanted_tables(["a.*"])(TableName("a", "t"))
    assert not wanted_tables(["a.*"])(TableName("b", "t"))
