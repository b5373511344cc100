from pathlib import Path

from pydantic import SecretStr

from spark_jobs.config.model import SourceSettings
from spark_jobs.config.servers import MySQL
from spark_jobs.source.files import Files
from spark_jobs.source.open import open_source
from spark_jobs.source.server import Server


def test_files_are_a_directory(tmp_path: Path) -> None:
    source = open_source("archive", SourceSettings(files=tmp_path))
    assert isinstance(source, Files)
    assert (source.name, source.directory) == ("archive", tmp_path)


def test_mysql_is_a_server_and_nothing_is_connected_yet() -> None:
    settings = MySQL(host="256.0.0.1", user="repl", password=SecretStr("geheim"))
    source = open_source("shop", SourceSettings(mysql=settings))
    assert isinstance(source, Server)
    assert (source.name, source.settings) == ("shop", settings)
