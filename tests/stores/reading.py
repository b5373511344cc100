"""A process whose JVM reads a table by Spark alone: python -m tests.stores.reading PATH STORE-AS-JSON.

Put here: the reader. Not here: what is expected of it.
"""

import sys

from spark_jobs.config.model import Spark
from spark_jobs.config.store import ObjectStore, store_of
from spark_jobs.runtime.spark_session import spark_session, stop_session


def main(path: str, settings: str) -> None:
    """Prints the rows of a table, in order."""
    conf = {"spark.driver.memory": "1g"}
    store = store_of(path, ObjectStore.model_validate_json(settings))
    session = spark_session(Spark(master="local[1]", conf=conf).reaching(store))
    try:
        rows = session.read.format("delta").load(path).collect()
        sys.stdout.write(f"{sorted(tuple(row) for row in rows)}\n")
    finally:
        stop_session(session)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
