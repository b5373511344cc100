"""The code location by its public name."""

from pathlib import Path

import dagster as dg
import pytest


@pytest.mark.dagster
def test_it_is_the_one_that_the_environment_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pipeline.yaml").write_text("lake: ./lake\nsources: {shop: {files: .}}\n")
    monkeypatch.setenv("STRATALOG_CONFIG", str(tmp_path / "pipeline.yaml"))
    from stratalog import definitions  # loads what the environment names when it is imported

    assert dg.AssetKey(["bronze", "shop"]) in definitions.defs.resolve_all_asset_keys()
