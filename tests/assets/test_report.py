"""Where a source's page is written, and what Dagster links to. That runs write it is tested in test_chain.py."""

from pathlib import Path

import dagster as dg
import pytest

from assets.report import REPORT, link, refresh
from spark_jobs.errors import ConfigError
from tests.lakes.code_location import CodeLocation

pytestmark = pytest.mark.dagster


def shop(folder: Path, **reports: str | None) -> CodeLocation:
    location = CodeLocation(folder, dg.DagsterInstance.ephemeral(), keys={"reports": reports} if reports else {})
    location.write(1)
    return location


def test_a_page_is_a_path_to_copy(tmp_path: Path) -> None:
    page = tmp_path / "reports" / "shop.html"
    metadata = refresh(dg.build_op_context(), shop(tmp_path).pipeline, "shop")
    assert metadata == {REPORT: dg.MetadataValue.path(str(page))} == link(shop(tmp_path).pipeline, "shop")
    assert "<h1>shop</h1>" in page.read_text()
    assert list(page.parent.iterdir()) == [page]


def test_a_page_that_a_web_server_has_is_a_link(tmp_path: Path) -> None:
    location = shop(tmp_path, to="pages", url="https://reports.example.org/shop/")
    metadata = refresh(dg.build_op_context(), location.pipeline, "shop")
    assert metadata == {REPORT: dg.MetadataValue.url("https://reports.example.org/shop/shop.html")}
    assert (tmp_path / "pages" / "shop.html").is_file()


def test_none_is_written_where_none_is_wanted(tmp_path: Path) -> None:
    location = shop(tmp_path, to=None)
    assert refresh(dg.build_op_context(), location.pipeline, "shop") == {} == link(location.pipeline, "shop")
    assert not (tmp_path / "reports").exists()


def test_a_page_that_cannot_be_written_holds_up_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "reports").write_text("a file")
    assert refresh(dg.build_op_context(), shop(tmp_path).pipeline, "shop") == {}
    output = capfd.readouterr().err + caplog.text
    assert f"shop: no report: {tmp_path / 'reports'}: a report cannot be written there: File exists" in output


def test_a_link_to_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"reports.url: .*must begin with http:// or https://"):
        _ = shop(tmp_path, url="file:///srv/reports").pipeline
