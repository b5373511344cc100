from pathlib import Path
from typing import cast

import dagster as dg
import pytest

from assets.lineage import lineages
from assets.selection import StepSelection, selection_of
from spark_jobs.binlog import TableName
from spark_jobs.config.model import Pipeline, SourceSettings

PIPELINE = Pipeline(path=Path("pipeline.yaml"), lake="lake", sources={"shop": SourceSettings(files=Path("binlogs"))})
(LINEAGE,) = lineages(PIPELINE, [("shop", "shop", "orders"), ("shop", "shop", "lines")])
LINES, ORDERS = LINEAGE.silver


class Selecting:
    """As much of a step's context as tells what is selected."""

    def __init__(self, *keys: dg.AssetKey) -> None:
        self.selected_asset_keys = set(keys)
        self.selected_output_names = {asset.output for asset in LINEAGE.silver if asset.key in keys}


@pytest.mark.parametrize(
    "keys, tables, is_all",
    [
        (LINEAGE.keys, LINEAGE.silver, True),
        ([ORDERS.key, LINES.key], LINEAGE.silver, True),
        ([ORDERS.key], (ORDERS,), False),
        ([LINEAGE.published], (), False),
        ([LINEAGE.bronze], (), False),
        ([LINEAGE.bronze, LINEAGE.published], (), True),  # all that a UI knows before it is reloaded
    ],
)
def test_a_selection_of_tables(keys: list[dg.AssetKey], tables: tuple[object, ...], is_all: bool) -> None:
    selection = selection_of(cast(dg.OpExecutionContext, Selecting(*keys)), LINEAGE, LINEAGE.silver)
    assert (selection.tables, selection.is_all) == (tables, is_all)
    assert selection.is_any == (is_all or bool(tables))


def test_the_names_of_a_selection() -> None:
    assert StepSelection((ORDERS,), is_all=False).names == frozenset({TableName("shop", "orders")})
    assert StepSelection((ORDERS,), is_all=True).names is None
