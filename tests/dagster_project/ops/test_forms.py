"""Fields of forms, as Dagster takes values for them."""

import dagster as dg
import pytest

from dagster_project.ops.forms import source_field


def values(*sources: str) -> "dg.Field":
    return source_field(sources, "".join(["Of", *sources]))


def test_the_only_source_need_not_be_named() -> None:
    field = values("shop")
    assert (field.is_required, field.default_value) == (False, "shop")


@pytest.mark.parametrize("source, is_known", [("shop", True), ("other", True), ("none", False)])
def test_of_several_sources_one_is_named(source: str, is_known: bool) -> None:
    @dg.op(config_schema={"source": values("shop", "other")})
    def step(context: dg.OpExecutionContext) -> str:
        return str(context.op_config["source"])

    @dg.job
    def job() -> None:
        step()

    assert values("shop", "other").is_required
    config = {"ops": {"step": {"config": {"source": source}}}}
    if is_known:
        assert dg.validate_run_config(job, config)
    else:
        with pytest.raises(dg.DagsterInvalidConfigError):
            dg.validate_run_config(job, config)
