from pathlib import Path

import pytest

from spark_jobs.config.store import LakeStore, ObjectStore
from spark_jobs.errors import ConfigError
from spark_jobs.runtime import server_conf
from spark_jobs.runtime.server_conf import main, server_confs


@pytest.fixture(autouse=True)
def jars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_conf, "delta_jars", lambda: [Path("/jars/delta.jar")])
    monkeypatch.setattr(server_conf, "store_jars", lambda store: [Path("/jars/s3.jar")] if store else [])


def test_a_lake_in_a_folder_needs_delta_alone(pipeline_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(pipeline_file)]) == 0
    lines = dict(line.split(" ", 1) for line in capsys.readouterr().out.splitlines())
    assert lines["spark.jars"] == "/jars/delta.jar"
    assert lines["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"
    assert not any("s3a" in key for key in lines)


def test_a_lake_on_s3_needs_its_jars_and_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE_KEY", "of nobody's business")
    confs = server_confs(
        LakeStore(
            "lake", ObjectStore(endpoint="https://s3.internal", access_key_env="LAKE_KEY", secret_key_env="LAKE_SECRET")
        )
    )
    assert confs["spark.jars"] == "/jars/delta.jar,/jars/s3.jar"
    assert confs["spark.hadoop.fs.s3a.bucket.lake.stratalog.access_key_env"] == "LAKE_KEY"
    assert "business" not in str(confs)


def test_a_ca_is_trusted_by_driver_and_executors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_conf, "trust_options", lambda settings: "-Dtrust=it")
    confs = server_confs(LakeStore("lake", ObjectStore()))
    assert {confs["spark.driver.extraJavaOptions"], confs["spark.executor.extraJavaOptions"]} == {"-Dtrust=it"}


def test_a_file_that_is_not_there_is_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "pipeline.yaml")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert main([]) == 2


def test_jars_that_cannot_be_had_are_one_message(
    pipeline_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> list[Path]:
        raise ConfigError("Delta's jars could not be fetched")

    monkeypatch.setattr(server_conf, "delta_jars", refuse)
    assert main([str(pipeline_file)]) == 2
    assert capsys.readouterr().err == "Delta's jars could not be fetched\n"
