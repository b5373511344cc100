import re
import subprocess
from pathlib import Path

import pytest

from spark_jobs.config.store import ObjectStore
from spark_jobs.errors import ConfigError
from spark_jobs.runtime import key_providers
from spark_jobs.runtime.key_providers import trust_options


@pytest.mark.thorough
@pytest.mark.processes
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


@pytest.mark.thorough
@pytest.mark.processes
def test_what_the_compiler_refuses_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "Broken.scala"
    source.write_text("class Broken extends Nothing_of_that_name")
    monkeypatch.setitem(key_providers.SOURCES, "S3", source)
    with pytest.raises(ConfigError, match=r"the key provider for S3 was not compiled: .*Nothing_of_that_name"):
        key_providers.key_provider_jar("S3", [])
