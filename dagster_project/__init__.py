"""The wiring: what Dagster's UI, sensors and schedules see."""
