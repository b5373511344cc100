"""Values that rules keep away are nowhere: in no file of the lake but the log itself, no payload, no output.

A needle in each position that rules are about, through a load, two runs, maintenance and what shows the result; then
every file is searched, decoded and as it is.

Put here: values that must not be anywhere. Not here: messages of stops (test_disclosure.py).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.fix_cli import Stratalog
from tests.fix_pipeline import Shop
from tests.services.receivers import receiver

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.thorough, pytest.mark.slow]

NEEDLE = "NEEDLE"
FILTERED, HIDDEN, REDACTED = f"{NEEDLE}-filtered", f"{NEEDLE}-hidden", f"{NEEDLE}-redacted"


@pytest.fixture(autouse=True)
def session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verbs take the session of all tests, and leave it."""
    monkeypatch.setattr("spark_jobs.runtime.spark_session.spark_session", lambda _: spark)
    monkeypatch.setattr("spark_jobs.cli.app._stop", lambda _: None)


def changes(number: int) -> list[str]:
    """Statements of three tables with needles in each kind of change."""
    key, next_key = f"{number}", f"{number + 1}"
    hidden = f"'{HIDDEN}-{number}'"
    return [
        f"INSERT INTO people VALUES ({key}, {hidden}, {hidden}, {hidden}, {hidden})",
        f"INSERT INTO people VALUES ({next_key}, {hidden}, 'a', 'b', 'c')",
        f"UPDATE people SET email = '{HIDDEN}-new', phone = {hidden} WHERE id = {key}",
        f"UPDATE people SET id = id + 1000 WHERE id = {key}",
        f"DELETE FROM people WHERE id = {next_key}",
        f"INSERT INTO judged VALUES ('kept-{key}', 'x', 0), ('zz{FILTERED}-{number}', '{FILTERED}', 1)",
        f"UPDATE judged SET word = '{FILTERED}-new' WHERE secret = 1",
        f"INSERT INTO secrets VALUES ({key}, '{REDACTED}')",
        f"UPDATE secrets SET word = '{REDACTED}-new' WHERE id = {key}",
    ]


def texts(folder: Path) -> Iterator[tuple[Path, str]]:
    """Each file of a lake: as it is, and where it is Parquet its rows and what its footer says of them."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        yield path, path.read_bytes().decode("latin-1")
        if path.suffix == ".parquet":
            file = pq.ParquetFile(path)
            groups = [file.metadata.row_group(at) for at in range(file.num_row_groups)]
            columns = [group.column(at).statistics for group in groups for at in range(group.num_columns)]
            yield path, f"{file.read().to_pylist()} {columns} {file.metadata.metadata}"


def test_what_rules_keep_away_is_nowhere(
    shop: Shop, stratalog: Stratalog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    schema = shop.database.name
    shop.execute(
        "CREATE TABLE people (id INT PRIMARY KEY, email VARCHAR(60), name VARCHAR(60), note VARCHAR(60), "
        "phone VARCHAR(60))",
        "CREATE TABLE judged (id VARCHAR(60) PRIMARY KEY, word VARCHAR(60), secret INT)",
        "CREATE TABLE secrets (id INT PRIMARY KEY, word VARCHAR(60))",
        *changes(1),
    )
    rules: dict[str, Any] = {
        "row_filters": {"secret": {"tables": [f"{schema}.judged"], "insert-value-expr": "secret = 1",
                                   "update-old-value-expr": "secret = 1", "delete-value-expr": "secret = 1"}},
        "columns": {"private": {"tables": [f"{schema}.people"], "exclude": ["phone"], "mask": {
            "email": {"hash": "${SALT}"}, "name": {"constant": "-"}, "note": {"truncate": 1}}}},
        "tables": [f"{schema}.*", f"!{schema}.secrets"],
    }  # fmt: skip
    monkeypatch.setenv("SALT", "pepper")
    monkeypatch.setenv("SHOP_PASSWORD", shop.database.server.password)
    position = shop.end()
    login = {"host": shop.database.server.host, "port": shop.database.server.port,
             "user": shop.database.server.user, "password": "${SHOP_PASSWORD}"}  # fmt: skip
    sources = {"shop": {"mysql": login, "start": str(position), "redact": [f"{schema}.secrets"]}}
    config = shop.pipeline(sources=sources, **rules).path
    outputs: dict[str, str] = {}

    def verb(*words: str) -> None:
        ran = stratalog(*words, "-c", config)
        outputs[" ".join(words)] = ran.out + ran.err

    with receiver() as received:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.url)
        monkeypatch.setenv("OPENLINEAGE_URL", received.url)
        shop.execute(*changes(10))
        verb("run")
        verb("load", "--chunk-rows", "1")
        shop.execute(*changes(20), "ALTER TABLE people MODIFY email VARCHAR(80)", *changes(30), "TRUNCATE secrets")
        verb("-v", "run")
        verb("maintain")
        for words in (("status",), ("status", "--json"), ("verify",), ("report",), ("schema",)):
            verb(*words)
    outputs["payloads"] = f"{received}"
    outputs["logs"] = caplog.text
    assert "loaded" in outputs["load --chunk-rows 1"], outputs["load --chunk-rows 1"]
    assert received.events
    assert received.spans
    # Bronze is the log: it has what filters and masks are about, and nothing of what is redacted.
    lake, bronze = shop.folder / "lake", []
    for path, text in texts(lake):
        if path.relative_to(lake).parts[0] == "bronze":
            bronze.append(text)
            assert REDACTED not in text, path
        else:
            assert NEEDLE not in text, path
            assert NEEDLE.encode().hex() not in text.lower(), path
    assert HIDDEN in "".join(bronze), "the needles are where they may be"
    for name, text in outputs.items():
        assert NEEDLE not in text, name
