import re
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from spark_jobs.config.store import LakeStore, ObjectStore
from spark_jobs.errors import ConfigError
from spark_jobs.runtime import s3
from spark_jobs.runtime.s3 import HADOOP_AWS, s3_confs, trust_options


def test_s3a_is_of_the_hadoop_that_pyspark_has() -> None:
    (client,) = Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar")
    assert HADOOP_AWS[0].version == client.stem.removeprefix("hadoop-client-api-")


def test_settings_name_variables_and_hold_no_key(store_keys: None) -> None:
    settings = ObjectStore(endpoint="https://s3.internal:9000", region="eu-west-1", access_key_env="KEY")
    confs = s3_confs(LakeStore("bucket", settings))
    bucket = "spark.hadoop.fs.s3a.bucket.bucket"
    assert confs[f"{bucket}.endpoint"] == "https://s3.internal:9000"
    assert confs[f"{bucket}.connection.ssl.enabled"] == "true"
    assert confs[f"{bucket}.path.style.access"] == "true"
    assert confs[f"{bucket}.endpoint.region"] == "eu-west-1"
    assert confs[f"{bucket}.stratalog.access_key_env"] == "KEY"
    assert confs["spark.delta.logStore.s3a.impl"] == "stratalog.ConditionalLogStore"
    assert not [key for key in confs if re.search(r"(access|secret)\.key$", key)]
    assert f"{bucket}.endpoint" not in s3_confs(LakeStore("bucket", ObjectStore()))


def test_a_jvm_trusts_each_certificate_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATALOG_CACHE", str(tmp_path / "cache"))
    names = ["one.example", "two.example"]
    for name in names:
        subject = ["-subj", f"/CN={name}", "-days", "2", "-nodes", "-newkey", "rsa:2048"]
        files = ["-keyout", str(tmp_path / "key"), "-out", str(tmp_path / name)]
        subprocess.run(["openssl", "req", "-x509", *subject, *files], check=True, capture_output=True)
    (tmp_path / "ca.pem").write_text("".join((tmp_path / name).read_text() for name in names))
    options = trust_options(ObjectStore(ca=tmp_path / "ca.pem"))
    match = re.search(r"trustStore=(\S+)", options)
    assert match
    listed = subprocess.run(
        ["keytool", "-list", "-v", "-keystore", match[1], "-storepass", "changeit"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert all(f"CN={name}" in listed for name in names)
    assert trust_options(ObjectStore()) == ""


def test_a_file_without_certificates_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("none")
    with pytest.raises(ConfigError, match="has no certificate in PEM form"):
        trust_options(ObjectStore(ca=tmp_path / "ca.pem"))


def test_what_the_compiler_refuses_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "Broken.scala"
    source.write_text("class Broken extends Nothing_of_that_name")
    monkeypatch.setattr(s3, "_SOURCE", source)
    with pytest.raises(ConfigError, match=r"the log store for S3 was not compiled: .*Nothing_of_that_name"):
        s3.log_store_jar([])


@pytest.mark.stores
def test_the_command_prints_the_jars() -> None:
    lines = subprocess.run(
        [sys.executable, "-m", "spark_jobs.runtime.s3"], check=True, capture_output=True, text=True
    ).stdout.split()
    assert [Path(line).name for line in lines][-1] == "stratalog-s3.jar"
    assert all(Path(line).is_file() for line in lines)
