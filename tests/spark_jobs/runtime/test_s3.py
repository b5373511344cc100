import re
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from spark_jobs.config.store import LakeStore, ObjectStore
from spark_jobs.runtime.s3 import HADOOP_AWS, s3_confs


def test_s3a_is_of_the_hadoop_that_pyspark_has() -> None:
    (client,) = Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar")
    assert HADOOP_AWS[0].version == client.stem.removeprefix("hadoop-client-api-")


def test_settings_name_variables_and_hold_no_key(store_keys: None) -> None:
    settings = ObjectStore(
        endpoint="https://s3.internal:9000", region="eu-west-1", access_key_env="KEY", secret_key_env="SECRET"
    )
    confs = s3_confs(LakeStore("bucket", settings))
    bucket = "spark.hadoop.fs.s3a.bucket.bucket"
    assert confs[f"{bucket}.endpoint"] == "https://s3.internal:9000"
    assert confs[f"{bucket}.connection.ssl.enabled"] == "true"
    assert confs[f"{bucket}.path.style.access"] == "true"
    assert confs[f"{bucket}.endpoint.region"] == "eu-west-1"
    assert confs[f"{bucket}.stratalog.access_key_env"] == "KEY"
    assert not [key for key in confs if re.search(r"(access|secret)\.key$", key)]
    assert confs[f"{bucket}.aws.credentials.provider"] == "stratalog.EnvironmentKeys"


def test_without_names_of_variables_the_sdk_searches() -> None:
    confs, bucket = s3_confs(LakeStore("bucket", ObjectStore())), "spark.hadoop.fs.s3a.bucket.bucket"
    assert f"{bucket}.endpoint" not in confs
    assert not [key for key in confs if ".stratalog." in key]
    assert confs[f"{bucket}.aws.credentials.provider"].endswith(".DefaultCredentialsProvider")


@pytest.mark.stores
def test_the_command_prints_the_jars() -> None:
    lines = subprocess.run(
        [sys.executable, "-m", "spark_jobs.runtime.s3"], check=True, capture_output=True, text=True
    ).stdout.split()
    assert [Path(line).name for line in lines][-1] == "stratalog-s3.jar"
    assert all(Path(line).is_file() for line in lines)
