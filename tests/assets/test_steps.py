"""What steps share: failing with a message, and which tables a run works on."""

from pathlib import Path
from typing import cast

import dagster as dg
import pytest

from assets.keys import lineages
from assets.steps import Selection, failing, selection_of
from spark_jobs.binlog import TableName
from spark_jobs.config.model import Pipeline, Source
from spark_jobs.errors import (
    ConfigError,
    DecodeError,
    JvmEnded,
    LakeError,
    LostRace,
    SourceError,
    StratalogError,
    TableStopped,
    Truncated,
)
from spark_jobs.text.remedies import advised

PIPELINE = Pipeline(path=Path("pipeline.yaml"), lake="lake", sources={"shop": Source(files=Path("binlogs"))})
(LINEAGE,) = lineages(PIPELINE, [("shop", "shop", "orders"), ("shop", "shop", "lines")])
LINES, ORDERS = LINEAGE.silver


@pytest.mark.parametrize(
    "error, is_retried",
    [
        (SourceError("the server is away"), True),
        (LostRace("another writer"), True),
        (LakeError("no space"), True),
        (JvmEnded("Spark's JVM ended"), False),
        (DecodeError("bytes"), False),
        (Truncated("bytes"), False),
        (ConfigError("a key"), False),
        (TableStopped("a table"), False),
    ],
)
def test_a_failure_has_the_message_and_is_tried_again_where_that_may_help(
    error: StratalogError, is_retried: bool
) -> None:
    with pytest.raises(dg.Failure) as raised, failing():
        raise error
    assert (raised.value.description, raised.value.allow_retries) == (advised(error), is_retried)
    assert raised.value.__suppress_context__


def test_what_is_not_ours_stays_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError), failing():
        raise ZeroDivisionError


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
    assert Selection((ORDERS,), is_all=False).names == frozenset({TableName("shop", "orders")})
    assert Selection((ORDERS,), is_all=True).names is None
