"""The work: from a source's log to merged tables. Runs without Dagster."""
