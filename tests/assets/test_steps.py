"""What a user runs around a step, and which metadata stays."""

from collections.abc import Iterator
from typing import Any, cast

import dagster as dg
import pytest

from assets.steps import Execute, SourceStep, StepEvents, around

CONTEXT = cast(dg.OpExecutionContext, object())
METADATA: dict[str, Any] = {"binlog/end": "a.000001:4", "rows/inserted": 3, "delta/version": 7}


def events(execute: Execute | None = None, *patterns: str) -> list[Any]:
    @around(execute, "merge", "shop", patterns or ("*",))
    def step(context: dg.OpExecutionContext, compacted: int) -> Iterator[Any]:
        yield dg.MaterializeResult(asset_key="t", metadata=METADATA)
        yield dg.Output(compacted, "merged")

    return list(step(CONTEXT, compacted=5))


def test_without_a_wish_a_step_is_as_it_is() -> None:
    result, output = events()
    assert (result.metadata, output.value) == (METADATA, 5)


def test_code_runs_before_and_after_a_step() -> None:
    order = []

    def execute(context: dg.OpExecutionContext, step: SourceStep) -> StepEvents:
        order.append(f"before {step.name} of {step.source}")
        for event in step.events:
            order.append(type(event).__name__)
            yield event
        order.append("after")

    assert len(events(execute)) == 2
    assert order == ["before merge of shop", "MaterializeResult", "Output", "after"]


@pytest.mark.parametrize(
    "patterns, keys", [(("rows/*",), ["binlog/end", "rows/inserted"]), (("none",), ["binlog/end"])]
)
def test_metadata_is_that_of_the_patterns_and_the_position(patterns: tuple[str, ...], keys: list[str]) -> None:
    assert sorted(events(None, *patterns)[0].metadata) == keys
