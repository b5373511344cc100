"""Tables read by another engine: ``python read.py ENGINE``, with requests as JSON on standard input.

Put here: how each engine is asked, and the form in which values compare. Not here: the tables, and what is expected
(lake.py, matrix.py). It runs in environments that have the engine, and nothing of the project.

A request is ``{"path": …, "columns": [[name, type], …], "version": null or a number, "is_count": …}``. An answer, one
a line, is ``{"rows": …}`` or ``{"error": …}``, and the first line names the engine's version.
"""

import json
import os
import re
import site
import struct
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

FIRST_ID = 1_000_000_000
Request = dict[str, Any]
Rows = list[list[Any]]
Reader = Callable[[Request], Rows]


def comparable(value: Any, kind: str) -> Any:  # noqa: C901, PLR0911 -- one line a type
    """A value of a Delta type as JSON, the same for equal values of any engine."""
    if value is None:
        return None
    # The name of the type, and what is in its brackets.
    head = re.split(r"[(<]", kind, maxsplit=1)[0].upper()
    inner = kind[len(head) + 1 : -1]
    if head == "FLOAT":
        return struct.pack(">f", value).hex()
    if head == "DOUBLE":
        return struct.pack(">d", value).hex()
    if head == "DECIMAL":
        return format(Decimal(value), f".{int(inner.split(',')[1])}f")
    if head == "BINARY":
        return (value.encode("latin-1") if isinstance(value, str) else bytes(value)).hex()
    if head == "DATE":
        return value.isoformat()[:10] if isinstance(value, date) else str(value)[:10]
    if head.startswith("TIMESTAMP"):
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        moment = moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
        return moment.isoformat(timespec="microseconds")
    if head == "ARRAY":
        return [comparable(item, inner) for item in value]
    if head == "MAP":
        pairs = value.items() if isinstance(value, dict) else value
        pairs = [(pair["key"], pair["value"]) if isinstance(pair, dict) else pair for pair in pairs]
        key_kind, value_kind = split(inner)
        return sorted([comparable(key, key_kind), comparable(item, value_kind)] for key, item in pairs)
    if head == "STRUCT":
        kinds = [field.split(":", 1)[1].strip() for field in split(inner)]
        items = value.values() if isinstance(value, dict) else value
        return [comparable(item, item_kind) for item, item_kind in zip(items, kinds, strict=True)]
    return {"BOOLEAN": bool, "STRING": str}.get(head, int)(value)


def split(text: str) -> list[str]:
    """Parts between the commas that are in no brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(character, 0)
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def of_arrow(request: Request, table: Any) -> Rows:
    columns = [table.column(name).to_pylist() for name, _ in request["columns"]]
    return [list(row) for row in zip(*columns, strict=True)]


def names(request: Request, quote: str = '"') -> str:
    return ", ".join(f"{quote}{name}{quote}" for name, _ in request["columns"])


def newest_metadata(path: str) -> str:
    folder = Path(path, "metadata")
    return f"{folder}/v{(folder / 'version-hint.text').read_text().strip()}.metadata.json"


def duckdb_by(function: str) -> tuple[str, Reader]:
    import duckdb

    # Extensions are packages; nothing is downloaded.
    (folder,) = Path(site.getsitepackages()[0], "duckdb_ext/extensions").glob(f"v{duckdb.__version__}/*")
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": "1"})
    for extension in {"delta_scan": ["delta"], "iceberg_scan": ["avro", "iceberg"]}[function]:
        connection.execute(f"LOAD '{folder / extension}.duckdb_extension'")
    connection.execute("SET TimeZone = 'UTC'")

    def read(request: Request) -> Rows:
        version = request["version"]
        key = {"delta_scan": "version", "iceberg_scan": "snapshot_from_id"}[function]
        number = (version or 0) + (FIRST_ID if function == "iceberg_scan" else 0)
        argument = "" if version is None else f", {key} => {number}"
        source = f"{function}('{request['path']}'{argument})"
        if request["is_count"]:
            return [[connection.execute(f"SELECT count(*) FROM {source}").fetchall()[0][0]]]
        return of_arrow(request, connection.execute(f"SELECT {names(request)} FROM {source}").fetch_arrow_table())

    return f"DuckDB {duckdb.__version__}", read


def polars_delta() -> tuple[str, Reader]:
    import polars as pl

    def read(request: Request) -> Rows:
        frame = pl.scan_delta(request["path"], version=request["version"])
        if request["is_count"]:
            return [[frame.select(pl.len()).collect().item()]]
        frame = frame.select([name for name, _ in request["columns"]])
        return of_arrow(request, frame.collect().to_arrow())

    return f"Polars {pl.__version__}", read


def polars_iceberg() -> tuple[str, Reader]:
    import polars as pl

    def read(request: Request) -> Rows:
        version = request["version"]
        number = None if version is None else FIRST_ID + version
        frame = pl.scan_iceberg(newest_metadata(request["path"]), snapshot_id=number)
        if request["is_count"]:
            return [[frame.select(pl.len()).collect().item()]]
        frame = frame.select([name for name, _ in request["columns"]])
        return of_arrow(request, frame.collect().to_arrow())

    return f"Polars {pl.__version__}", read


def deltalake() -> tuple[str, Reader]:
    import deltalake
    import pyarrow as pa
    from deltalake.query import QueryBuilder

    def read(request: Request) -> Rows:
        table = deltalake.DeltaTable(request["path"], version=request["version"])
        selection = "count(*) AS n" if request["is_count"] else names(request)
        rows = pa.table(QueryBuilder().register("t", table).execute(f"SELECT {selection} FROM t").read_all())
        return [[rows.column(0)[0].as_py()]] if request["is_count"] else of_arrow(request, rows)

    return f"deltalake {deltalake.__version__}", read


def deltalake_pyarrow() -> tuple[str, Reader]:
    import deltalake

    def read(request: Request) -> Rows:
        table = deltalake.DeltaTable(request["path"], version=request["version"]).to_pyarrow_table()
        return [[table.num_rows]] if request["is_count"] else of_arrow(request, table)

    return f"deltalake {deltalake.__version__}", read


def pyiceberg() -> tuple[str, Reader]:
    from importlib.metadata import version

    from pyiceberg.table import StaticTable

    def read(request: Request) -> Rows:
        number = None if request["version"] is None else FIRST_ID + request["version"]
        table = StaticTable.from_metadata(newest_metadata(request["path"]))
        if request["is_count"]:
            return [[table.scan(snapshot_id=number).count()]]
        fields = tuple(name for name, _ in request["columns"])
        return of_arrow(request, table.scan(selected_fields=fields, snapshot_id=number).to_arrow())

    return f"pyiceberg {version('pyiceberg')}", read


def clickhouse_by(function: str) -> tuple[str, Reader]:
    import chdb
    import pyarrow as pa

    def read(request: Request) -> Rows:
        version, settings = request["version"], ["session_timezone='UTC'"]
        if version is not None and function == "icebergLocal":
            settings.append(f"iceberg_snapshot_id={FIRST_ID + version}")
        elif version is not None:
            settings.append(f"delta_lake_snapshot_version={version}")
        selection = "count() AS n" if request["is_count"] else names(request, "`")
        query = f"SELECT {selection} FROM {function}('{request['path']}') SETTINGS {', '.join(settings)}"
        table = pa.ipc.open_file(pa.BufferReader(chdb.query(query, "Arrow").bytes())).read_all()
        return [[table.column(0)[0].as_py()]] if request["is_count"] else of_arrow(request, table)

    return f"ClickHouse {chdb.query('SELECT version()', 'TSV').bytes().decode().strip()}, chdb {chdb.__version__}", read


def spark_delta() -> tuple[str, Reader]:
    import pyspark
    from pyspark.sql import SparkSession

    # Delta's jars are those of the caller.
    jars = os.environ["ENGINE_JARS"]
    settings = {
        "spark.jars": jars,
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    delta = re.search(r"delta-spark[^/]*-([\d.]+)\.jar", jars)
    spark = _spark(SparkSession.builder, settings)

    def read(request: Request) -> Rows:
        version = "" if request["version"] is None else f" VERSION AS OF {request['version']}"
        selection = "count(*) AS n" if request["is_count"] else names(request, "`")
        rows = spark.sql(f"SELECT {selection} FROM delta.`{request['path']}`{version}").toArrow()
        return [[rows.column(0)[0].as_py()]] if request["is_count"] else of_arrow(request, rows)

    return f"Spark {pyspark.__version__}, Delta {delta[1] if delta else 'unknown'}", read


def spark_iceberg() -> tuple[str, Reader]:
    import pyspark
    from pyspark.sql import SparkSession

    # The path has the version.
    jars = os.environ["ENGINE_JARS"]
    iceberg = re.search(r"iceberg-spark-runtime[^/]*-([\d.]+)\.jar", jars)
    spark = _spark(SparkSession.builder, {"spark.jars": jars})

    def read(request: Request) -> Rows:
        reader = spark.read.format("iceberg")
        if request["version"] is not None:
            reader = reader.option("versionAsOf", FIRST_ID + request["version"])
        frame = reader.load(f"file://{request['path']}")
        if request["is_count"]:
            return [[frame.count()]]
        return of_arrow(request, frame.select(*(f"`{name}`" for name, _ in request["columns"])).toArrow())

    return f"Spark {pyspark.__version__}, Iceberg {iceberg[1] if iceberg else 'unknown'}", read


def _spark(builder: Any, settings: dict[str, str]) -> Any:
    fixed = {"spark.master": "local[1]", "spark.ui.enabled": "false", "spark.sql.session.timeZone": "UTC"}
    for key, value in {**fixed, "spark.driver.memory": "1g", **settings}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def trino_by(catalog: str) -> tuple[str, Reader]:
    import trino

    # A table is registered by its folder when it is first asked for.
    port = int(os.environ["ENGINE_PORT"])
    connection = trino.dbapi.connect(host="127.0.0.1", port=port, user="test", timezone="UTC")
    cursor = connection.cursor()

    def run(statement: str) -> Any:
        cursor.execute(statement)
        return cursor.fetchall()

    run(f"CREATE SCHEMA IF NOT EXISTS {catalog}.s")
    known: set[str] = set()

    def read(request: Request) -> Rows:
        path = Path(request["path"])
        if path.name not in known:
            location = f"local:///{path.name}" if catalog == "delta" else f"file://{path}"
            extra = "" if catalog == "delta" else f", '{Path(newest_metadata(str(path))).name}'"
            run(f"CALL {catalog}.system.register_table('s', '{path.name}', '{location}'{extra})")
            known.add(path.name)
        version = request["version"]
        number = (version or 0) + (FIRST_ID if catalog == "iceberg" else 0)
        text = str(number) if catalog == "delta" else f"BIGINT '{number}'"
        at = "" if version is None else f" FOR VERSION AS OF {text}"
        selection = "count(*)" if request["is_count"] else names(request)
        return [list(row) for row in run(f'SELECT {selection} FROM {catalog}.s."{path.name}"{at}')]

    return f"Trino {run('SELECT node_version FROM system.runtime.nodes')[0][0]}", read


ENGINES: dict[str, Callable[[], tuple[str, Reader]]] = {
    "duckdb_delta": lambda: duckdb_by("delta_scan"),
    "duckdb_iceberg": lambda: duckdb_by("iceberg_scan"),
    "polars_delta": polars_delta,
    "polars_iceberg": polars_iceberg,
    "deltalake": deltalake,
    "deltalake_pyarrow": deltalake_pyarrow,
    "pyiceberg": pyiceberg,
    "clickhouse_delta": lambda: clickhouse_by("deltaLakeLocal"),
    "clickhouse_iceberg": lambda: clickhouse_by("icebergLocal"),
    "spark_delta": spark_delta,
    "spark_iceberg": spark_iceberg,
    "trino_delta": lambda: trino_by("delta"),
    "trino_iceberg": lambda: trino_by("iceberg"),
}


def main(engine: str) -> None:
    """Answers each line of standard input by a line."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what an engine prints is no answer
    version, read = ENGINES[engine]()
    print(json.dumps(version), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            rows = read(request)
            if not request["is_count"]:
                kinds = [kind for _, kind in request["columns"]]
                rows = [[comparable(value, kind) for value, kind in zip(row, kinds, strict=True)] for row in rows]
            answer: Request = {"rows": sorted(rows, key=json.dumps)}
        except Exception as error:  # noqa: BLE001 -- whatever an engine raises is its answer
            answer = {"error": f"{type(error).__name__}: {error}"[:2000]}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
