from dataclasses import replace

from spark_jobs.schema.tracker import as_of
from tests.spark_jobs.schema.test_tracker import ID, LOGGED, T, at, follow, rows, statements_at


def test_a_version_holds_behind_its_statement_and_at_its_rows() -> None:
    versions = follow(statements_at(T, "ALTER TABLE t ADD c INT", start=100), rows(300, replace(LOGGED, columns=(ID,))))
    name = LOGGED.name
    widths = {
        offset: len(version.definition.columns)
        for offset in (100, 101, 110, 111, 299, 300)
        for version in [as_of(versions, at(offset)).get(name)]
        if version and version.definition
    }
    assert widths == {101: 3, 110: 3, 111: 4, 299: 4, 300: 1}
