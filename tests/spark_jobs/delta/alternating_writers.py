"""A table that Spark and the package write in turns. Put here: writing, and comparing what all readers see."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import SparkSession

from spark_jobs.delta import data_files, deletion_vectors
from spark_jobs.delta.commits import commit
from spark_jobs.delta.features import why_not
from spark_jobs.delta.schema_changes import apply
from spark_jobs.delta.snapshot import DataFile, Snapshot, snapshot_of
from spark_jobs.runtime.spark_session import own_session
from spark_jobs.text import sql
from tests.spark_jobs.delta.tables import MAPPED, TYPES

COLUMN_TYPES = {"key": "INT", "text": "STRING", "local": "TIMESTAMP_NTZ", "_position": TYPES["_position"]}


def spark_snapshot(path: str) -> Snapshot:
    snapshot = snapshot_of(path)
    assert snapshot is not None
    return snapshot


def create(spark: SparkSession, path: str, types: dict[str, str], properties: dict[str, str]) -> Snapshot:
    """A table that Spark makes, without a row."""
    frame = spark.createDataFrame([], sql.columns(types))
    frame.write.format("delta").mode("append").options(**properties).save(path)
    return spark_snapshot(path)


class AlternatingWriters:
    """A table, and the rows that it is to have: by key, how often it was written."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.spark = spark
        self.path = path
        self.rows: dict[int, str | None] = {}
        self.commits = 0
        self.counter = 0

    @property
    def snapshot(self) -> Snapshot:
        return spark_snapshot(self.path)

    def upsert(self, keys: Iterable[int], deletes: Iterable[int] = (), *, is_compared: bool = True) -> None:
        """New texts for keys, and keys that go, by this package: vectors for old rows, one file of new ones.

        is_compared: whether all readers are compared then, which takes Spark a second.
        """
        keys, deletes = list(keys), set(deletes)
        snapshot = self.snapshot
        assert why_not(snapshot) is None
        file_hits = ((file, self._hits(snapshot, file, {*keys, *deletes})) for file in snapshot.files)
        hits = [(file, vector) for file, vector in file_hits if vector is not None]
        vectors = deletion_vectors.write(self.path, [vector for _, vector in hits], snapshot.configuration)
        texts = self._key_texts(keys)
        adds = [self._file(snapshot, texts)] if texts else []
        self.counter += 1
        commit(
            snapshot,
            adds=adds,
            dv_updates=list(zip([file for file, _ in hits], vectors, strict=True)),
            transaction=("stratalog", self.counter),
            user_metadata=f"commit {self.counter}",
            operation="MERGE",
        )
        self._set(texts, deletes)
        if is_compared:
            self.check()

    def merge(self, keys: Iterable[int], deletes: Iterable[int] = ()) -> None:
        """The same by Spark."""
        deletes, texts = set(deletes), self._key_texts(list(keys))
        changes = [(key, text, False) for key, text in texts.items()] + [
            (key, None, True) for key in deletes - texts.keys()
        ]
        self.spark.createDataFrame(changes, "key BIGINT, text STRING, gone BOOLEAN").createOrReplaceTempView("changes")
        self.spark.sql(
            f"MERGE INTO {sql.delta(self.path)} t USING changes s ON t.key = s.key WHEN MATCHED AND s.gone THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET text = s.text "
            "WHEN NOT MATCHED AND NOT s.gone THEN INSERT (key, text) VALUES (s.key, s.text)"
        )
        self._set(texts, deletes)
        self.check()

    def run(self, statement: str, **confs: str) -> None:
        """A statement of Spark's that changes no row; ``{}`` is the table."""
        own_session(self.spark, confs).sql(statement.format(sql.delta(self.path))).collect()
        self.check()

    def alter(self, statement: str) -> None:
        """A statement about columns by this package; what comes next compares the readers."""
        snapshot = self.snapshot
        after = apply(snapshot, [statement])
        commit(snapshot, metadata=after.metadata, protocol=after.protocol, operation="CHANGE COLUMN")

    def check(self) -> None:
        """What Spark, deltalake and this package read are the rows that the table is to have."""
        expected = [{"key": key, "text": text} for key, text in sorted(self.rows.items())]
        columns = ("key", "text")
        frame = self.spark.read.format("delta").load(self.path).select(*columns)
        by_spark = sorted(frame.toArrow().to_pylist(), key=lambda row: row["key"])
        assert [{**row, "key": int(row["key"])} for row in by_spark] == expected
        snapshot = self.snapshot
        assert self._live(snapshot) == expected
        assert sum(file.num_rows or 0 for file in snapshot.files) == len(expected)
        opened = deltalake.DeltaTable(self.path)
        assert opened.version() == snapshot.version
        assert opened.transaction_version("stratalog") == (self.counter or None)
        if "typeWidening" in (snapshot.protocol.reader_features or ()):
            return  # deltalake opens such tables, and reads none of their rows
        contents = deltalake.QueryBuilder().register("t", opened).execute("SELECT key, text FROM t").read_all()
        by_deltalake = sorted(pa.table(contents).to_pylist(), key=lambda row: row["key"])
        assert by_deltalake == expected

    def _live(self, snapshot: Snapshot) -> list[dict[str, Any]]:
        live: list[dict[str, Any]] = []
        for file in snapshot.files:
            table = data_files.read_columns(self.path, file, ["key", "text"], snapshot.schema)
            dead = self._dead(file)
            live += [row for at, row in enumerate(table.to_pylist()) if at not in dead]
        return sorted(({**row, "key": int(row["key"])} for row in live), key=lambda row: row["key"])

    def _dead(self, file: DataFile) -> BitMap64:
        return deletion_vectors.read(self.path, file.deletion_vector) if file.deletion_vector else BitMap64()

    def _hits(self, snapshot: Snapshot, file: DataFile, keys: set[int]) -> BitMap64 | None:
        stored = data_files.read_columns(self.path, file, ["key"], snapshot.schema)["key"].to_pylist()
        dead = self._dead(file)
        hits = BitMap64([at for at, key in enumerate(stored) if key in keys and at not in dead])
        return dead | hits if hits else None

    def _file(self, snapshot: Snapshot, texts: dict[int, str | None]) -> DataFile:
        schema = snapshot.schema
        table_columns = {"key": list(texts), "text": list(texts.values())}
        cells = {name: table_columns.get(name, [None] * len(texts)) for name in schema.names}
        table = pa.Table.from_pydict(cells, schema=schema.arrow(physical=False))
        return data_files.write(self.path, table, schema, snapshot.configuration, row_group_rows=50)

    def _key_texts(self, keys: list[int]) -> dict[int, str | None]:
        self.commits += 1
        return {key: None if key % 7 == 0 else f"text {key} of {self.commits} " * (key % 5) for key in keys}

    def _set(self, texts: dict[int, str | None], deletes: set[int]) -> None:
        for key in deletes:
            self.rows.pop(key, None)
        self.rows.update(texts)


def alternating_writers(spark: SparkSession, path: Path, properties: dict[str, str] = MAPPED) -> AlternatingWriters:
    create(spark, str(path), COLUMN_TYPES, properties)
    return AlternatingWriters(spark, str(path))


def forget(table: Path, before: int) -> None:
    """Removes a table's commits before a version."""
    for file in list((table / "_delta_log").iterdir()):
        match = re.match(r"\.?(\d{20})\.(json|crc)", file.name)
        if match and int(match[1]) < before:
            file.unlink()
