"""The files of table metadata: ``metadata/v<number>.metadata.json``, and ``version-hint.text``, which names the newest.

Put here: which file is the newest, and creating the next. Not here: what is in them (table_view.py).

A file's number is one more than that of the file which it was made of, and it is created exclusively: of two writers
one loses, and starts over from what the other has written ("File System Tables" of the specification). The hint may be
behind, or missing; the newest file is found all the same, since no number is left out.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_jobs.delta.log_files import directory
from spark_jobs.errors import LakeError
from spark_jobs.storage import files
from spark_jobs.storage.files import StoredPath, reason

FOLDER = "metadata"
HINT = "version-hint.text"
_FILE = re.compile(r"v(\d+)\.metadata\.json")


@dataclass(frozen=True, slots=True)
class MetadataFile:
    """A file of table metadata, by its number, and what it says."""

    number: int
    document: dict[str, Any]


def folder(path: str) -> StoredPath:
    """The folder of a table's metadata. Raises UnsupportedTable."""
    return directory(path) / FOLDER


def location(path: str) -> str:
    """A table's location, as metadata and manifests have it: of S3 by the scheme that all readers know."""
    at = directory(path)
    return f"file://{at.absolute()}" if isinstance(at, Path) else re.sub(r"^s3a://", "s3://", str(at))


def file_name(number: int) -> str:
    return f"v{number}.metadata.json"


def number_of(name: str) -> int | None:
    """The number of a file of metadata; None for other files."""
    match = _FILE.fullmatch(name)
    return int(match[1]) if match else None


def newest(path: str) -> MetadataFile | None:
    """The newest file; None where there is none. Raises LakeError where it cannot be read."""
    at, number = folder(path), None
    try:
        number = hint(path)
        if number is None or not (at / file_name(number)).exists():
            numbers = [number for name in files.names(at) or () if (number := number_of(name)) is not None]
            if not numbers:
                return None
            number = max(numbers)
        while (at / file_name(number + 1)).exists():
            number += 1
        content = (at / file_name(number)).read_bytes()
        return MetadataFile(number, json.loads(content))
    except OSError as error:
        raise LakeError(f"{path}: its Iceberg metadata cannot be read: {reason(error)}") from error
    except ValueError as error:
        raise LakeError(
            f"{path}: its Iceberg metadata {file_name(number or 0)} is damaged: {error}; remove the folder "
            f"{FOLDER}, which the next run writes again"
        ) from error


def hint(path: str) -> int | None:
    """The number that the hint names; None where it says none. Raises OSError."""
    try:
        text = (folder(path) / HINT).read_bytes().strip()
    except FileNotFoundError:
        return None
    return int(text) if text.isdigit() else None


def log_entry(path: str, file: MetadataFile) -> dict[str, Any]:
    """The entry of a file in the ``metadata-log`` of later ones."""
    at = f"{location(path)}/{FOLDER}/{file_name(file.number)}"
    return {"timestamp-ms": file.document["last-updated-ms"], "metadata-file": at}


def create(path: str, number: int, document: dict[str, Any]) -> bool:
    """Create the file of a number; False where another writer has created it. Raises OSError."""
    content = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
    return files.create(folder(path) / file_name(number), content, is_first=number == 1)


def point_to(path: str, number: int) -> None:
    """Names a file as the newest, where the hint names an earlier one, or none. Raises OSError."""
    if (hint(path) or 0) < number:
        files.replace(folder(path) / HINT, str(number).encode())
