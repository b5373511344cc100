"""Stratalog as a reader of the corpus: ``stratalog changes --ddl`` of the files of a case, in the reader's form.

Put here: this project's lines as the corpus has them. Not here: whether they are right (corpus/judge.py).
"""

import base64
import json
from pathlib import Path
from typing import Any

from corpus.judge import Output
from spark_jobs.changes.feed import changes_of_files
from spark_jobs.changes.lines import Output as Lines
from spark_jobs.changes.lines import wanted_tables
from spark_jobs.errors import StratalogError


def read(files: list[Path]) -> Output:
    """What Stratalog reads of files of a log that follow each other."""
    output, pieces = Output(), []
    chunks = [(file.name, iter([file.read_bytes()])) for file in files]
    try:
        for piece in changes_of_files(chunks, wanted_tables([]), None, Lines.of("stratalog", statements=True)):
            pieces.append(piece)
            if piece.endswith("\n"):
                add(output, json.loads("".join(pieces)))
                pieces = []
    except StratalogError as error:
        output.error = str(error)
    return output


def add(output: Output, line: dict[str, Any]) -> None:
    if line["op"] == "ddl":
        if line["statement"] not in output.statements[-1:]:
            output.statements.append(line["statement"])
        return
    images = {name: image and {key: value_of(value) for key, value in image.items()} for name, image in images_of(line)}
    output.changes.append({"table": f"{line['schema']}.{line['table']}", "op": line["op"], **images})


def images_of(line: dict[str, Any]) -> list[tuple[str, dict[str, Any] | None]]:
    return [("before", line["before"]), ("after", line["after"])]


def value_of(value: Any) -> Any:
    """Bytes in hexadecimal; a geometry as the server has it, its reference system and then its WKB."""
    if isinstance(value, dict) and "wkb" in value:
        content = (value["srid"] or 0).to_bytes(4, "little") + base64.b64decode(value["wkb"])
        return {"hex": content.hex()}
    if isinstance(value, dict) and "base64" in value:
        return {"hex": base64.b64decode(value["base64"]).hex()}
    return value
