"""The models of this project as Dagster assets, behind the tables that Stratalog's code location has."""

from pathlib import Path
from typing import Any

import dagster as dg
from dagster_dbt import DbtCliResource, DbtProject, dbt_assets

project = DbtProject(Path(__file__).parent, profiles_dir=Path(__file__).parent)
project.prepare_if_dev()


@dbt_assets(manifest=project.manifest_path)
def models(context: dg.AssetExecutionContext, dbt: DbtCliResource) -> Any:
    """``dbt build``: a materialization a model, a result a test."""
    yield from dbt.cli(["build"], context=context).stream()


defs = dg.Definitions(assets=[models], resources={"dbt": DbtCliResource(project_dir=project)})
