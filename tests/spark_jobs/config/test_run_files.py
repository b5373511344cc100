import re
from pathlib import Path

from spark_jobs.config.run_files import RunFile

PAGE = Path(__file__).parents[3] / "docs" / "own-assets.md"


def test_files_are_beside_their_configuration() -> None:
    assert RunFile.ICEBERG_CATALOG.path_for(Path("/a/erp.yaml")) == Path("/a/erp.iceberg-catalog.json")


def test_the_page_for_version_control_names_each_file() -> None:
    listed = re.findall(r"`(pipeline\.[\w-]+\.json)`", PAGE.read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(file.path_for(Path("pipeline.yaml")).name for file in RunFile)
