import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.config.store import GOOGLE, LakeStore, ObjectStore
from spark_jobs.runtime.google import google_confs

HADOOP = "spark.hadoop.fs.gs"


def test_settings_hold_no_key_and_name_an_endpoint_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/geheim")
    confs = google_confs(LakeStore("lake", ObjectStore(), GOOGLE))
    assert confs[f"{HADOOP}.auth.type"] == "APPLICATION_DEFAULT"
    assert "geheim" not in str(confs)
    assert f"{HADOOP}.storage.root.url" not in confs
    settings = ObjectStore(endpoint="http://127.0.0.1:1")
    assert google_confs(LakeStore("lake", settings, GOOGLE))[f"{HADOOP}.storage.root.url"] == "http://127.0.0.1:1"


@pytest.mark.stores
@pytest.mark.google
def test_the_command_prints_the_jar() -> None:
    lines = subprocess.run(
        [sys.executable, "-m", "spark_jobs.runtime.google"], check=True, capture_output=True, text=True
    ).stdout.split()
    assert [Path(line).name for line in lines] == ["gcs-connector-4.0.0-shaded.jar"]
    assert all(Path(line).is_file() for line in lines)
