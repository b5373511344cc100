"""A process that commits to one table: python -m tests.stores.committing PATH WRITER COUNT STORE-AS-JSON.

Put here: the writer. Not here: what is expected of many of them.
"""

import os
import sys

import pyarrow as pa

from spark_jobs.config.store import ObjectStore, store_of
from spark_jobs.delta import data_files
from spark_jobs.delta.commits import CommitConflict, commit
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.errors import LakeError
from spark_jobs.storage import store_access


def main(path: str, writer: str, count: int, settings: str) -> None:
    """Commits the numbers up to a count, each with a row; goes on after those that an earlier process committed."""
    store_access.register_store(store_of(path, ObjectStore.model_validate_json(settings)))
    while True:
        try:
            snapshot = snapshot_of(path)
            assert snapshot
            number = snapshot.transactions.get(writer, 0) + 1
            if number > count:
                return
            rows = pa.table({"writer": [writer], "number": [number]})
            file = data_files.write(path, rows, snapshot.schema, snapshot.configuration)
            commit(snapshot, adds=[file], transaction=(writer, number), user_metadata=f"{writer} {number}")
            sys.stdout.write("committed\n")
        except CommitConflict:
            sys.stdout.write("lost\n")
        except LakeError as error:  # no answer: whether it was carried out, the next snapshot shows
            sys.stdout.write(f"{error}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
    # Without the interpreter's end, in which a thread of Arrow's may abort the process (apache/arrow#34314).
    os._exit(0)
