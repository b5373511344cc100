"""Records a small log of a server, and what the server says of it: python -m tests.differential.record NAME SETTING.

Writes ``tests/recorded/NAME-SETTING.000001`` and, beside it, ``.held.json``: every event's position, type, server and
end; and of every table its rows in the form of ``stratalog changes``, and which of its columns are unsigned.

Put here: recording. Not here: what recordings are compared with (test_recorded.py).
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from spark_jobs.demo.server import MySQLServer
from tests.differential.columns import Kind
from tests.differential.comparison import connected, logged, unlogged, variables
from tests.differential.kinds import KINDS
from tests.differential.test_differential import SETTINGS
from tests.differential.workload import create, dialect_of, rows_held, write
from tests.fix_servers import OPTIONS
from tests.services.servers import build_of

RECORDED = Path("tests/recorded")
SEED = 5
_ENCODE = json.JSONEncoder(ensure_ascii=False).encode


def small(kind: Kind) -> Kind:
    """The kind with short values, or few labels, only."""
    if isinstance(kind.make, partial) and isinstance(kind.make.args[-1], list):
        return replace(kind, make=partial(kind.make.func, *kind.make.args[:-1], [7]))
    return kind


def record(name: str, setting: str) -> Path:
    """Returns the log's path."""
    random, server_setting = Random(SEED), SETTINGS[setting]
    with (
        tempfile.TemporaryDirectory() as directory,
        MySQLServer(Path(directory), OPTIONS | {"server_id": 7}, build_of(name)) as server,
        connected(server) as connection,
        mock.patch.dict(KINDS, {kind: small(commit_kind) for kind, commit_kind in KINDS.items()}),
    ):
        dialect = dialect_of(connection)
        here = [kind for kind, commit_kind in KINDS.items() if commit_kind.here(dialect)]
        tables_of = [here[at::3] for at in range(3)]
        with (
            variables(connection, server_setting.variables),
            connected(server) as session,
            logged(server, session) as log,
        ):
            tables = create(random, session, dialect, "recorded", tables_of)
            write(random, session, tables, 3 * len(tables))
        (file,) = log.files
        events = connection.execute(f"SHOW BINLOG EVENTS IN '{file.name}'")
        document = {
            "events": [(int(at), kind, int(server), int(stop)) for _, at, kind, server, stop, *_ in events],
            "tables": {
                table.name: {
                    "kinds": kinds,
                    "unsigned": ["UNSIGNED" in declared for declared in table.declared()],
                    "rows": rows_held(
                        connection, table, (server_setting.knows - unlogged(dialect)) | {"declared types"}
                    ),
                }
                for table, kinds in zip(tables, tables_of, strict=True)
            },
        }
        path = RECORDED / f"{name}-{setting.replace(' ', '-')}.000001"
        path.write_bytes(file.read_bytes())
    path.with_suffix(".held.json").write_text("".join(pretty(document)) + "\n")
    return path


def pretty(value: Any, depth: int = 3) -> Iterator[str]:
    """JSON with lists on as many lines as they have objects, a table's rows the innermost of these."""
    if isinstance(value, dict) and depth:
        for at, (key, inner) in enumerate(value.items()):
            yield f"{',' if at else '{'}\n{_ENCODE(key)}: "
            yield from pretty(inner, depth - 1)
        yield "}"
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        yield "[\n" + ",\n".join(map(_ENCODE, value)) + "]"
    else:
        yield _ENCODE(value)


if __name__ == "__main__":
    sys.stdout.write(f"{record(*sys.argv[1:])}\n")
