from pathlib import Path

import pytest

from spark_jobs.cli.page_list import pages_by_section


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A folder of pages with a folder in it."""
    (tmp_path / "clusters").mkdir()
    (tmp_path / "README.md").write_text(
        "# All\n\nWhat it is: [README](../README.md).\n\n"
        "## Start\n\n- [A](a.md), [explained](b.md#why)\n- no page: [x](https://example.org/x)\n\n"
        "## Operate\n\n- [Clusters](clusters/README.md)\n- [Changes](../CHANGELOG.md)\n"
    )
    (tmp_path / "clusters" / "README.md").write_text("[Y](yarn.md), [E](emr.md#a), [Y](yarn.md#b), [A](../a.md)\n")
    return tmp_path


def test_sections_have_the_pages_that_their_lists_link_to(docs: Path) -> None:
    assert pages_by_section(docs)["Start"] == ["a.md", "b.md"]
    assert [*pages_by_section(docs)] == ["Start", "Operate"]


def test_a_folder_is_listed_by_its_readme_in_the_order_of_its_links(docs: Path) -> None:
    folder = ["clusters/README.md", "clusters/yarn.md", "clusters/emr.md"]
    assert pages_by_section(docs)["Operate"] == [*folder, "../CHANGELOG.md"]
