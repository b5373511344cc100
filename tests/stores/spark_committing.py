"""A driver of Spark that appends to one table: python -m tests.stores.spark_committing PATH WRITER COUNT STORE CONFS.

Put here: the writer. Not here: what is expected of many of them.
"""

import json
import sys

from spark_jobs.config.model import Spark
from spark_jobs.config.store import ObjectStore, store_of
from spark_jobs.runtime.spark_session import spark_session

LIGHT = {"spark.driver.memory": "1g", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}


def main(path: str, writer: str, count: int, settings: str, confs: dict[str, str]) -> None:
    store = store_of(path, ObjectStore.model_validate_json(settings))
    assert store
    spark = spark_session(Spark(master="local[1]", conf=LIGHT | confs).reaching(store))
    for number in range(1, count + 1):
        rows = spark.createDataFrame([(writer, number)], "writer STRING, number BIGINT").coalesce(1)
        writing = rows.write.format("delta").mode("append").option("userMetadata", f"{writer} {number}")
        writing.option("txnAppId", writer).option("txnVersion", number).save(path)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], json.loads(sys.argv[5]))
