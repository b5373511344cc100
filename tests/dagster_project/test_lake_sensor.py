"""When the lake is looked at."""

from pathlib import Path

import dagster as dg
import pytest

from dagster_project.build import build_defs
from tests.lakes.recorded_lake import recorded

pytestmark = pytest.mark.dagster


def test_what_the_command_line_did_appears_and_the_lake_is_left_alone_until_it_moves(tmp_path: Path) -> None:
    with recorded(tmp_path) as (pipeline, instance):
        defs = build_defs(pipeline)
        sensor = defs.resolve_sensor_def("lake_sensor")
        assert sensor.default_status == dg.DefaultSensorStatus.RUNNING
        with dg.build_sensor_context(instance=instance, definitions=defs) as context:
            first = sensor.evaluate_tick(context)
        assert len(first.asset_events) > 10
        assert first.run_requests == []
        assert list(instance.get_dynamic_partitions("binlog_files_shop")) == ["mysql-bin.000001", "mysql-bin.000002"]
        with dg.build_sensor_context(instance=instance, cursor=first.cursor, definitions=defs) as context:
            second = sensor.evaluate_tick(context)
        assert (second.asset_events, second.skip_message) == ([], "Dagster has what the lake has")


def test_a_source_with_a_run_under_way_reports_by_itself(tmp_path: Path) -> None:
    with recorded(tmp_path) as (pipeline, instance):
        defs = build_defs(pipeline)
        instance.create_run_for_job(defs.resolve_job_def("sync_shop"))
        with dg.build_sensor_context(instance=instance, definitions=defs) as context:
            tick = defs.resolve_sensor_def("lake_sensor").evaluate_tick(context)
        assert (tick.asset_events, tick.cursor) == ([], "{}")
