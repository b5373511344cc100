"""Telemetry of runs for other systems: spans and metrics by OpenTelemetry, events of OpenLineage.

Put here: recording spans, and sending. Not here: what is measured (operations/observation/metrics.py),
or which run it is of (operations/observation/run_telemetry.py). An endpoint that does not answer is a warning; it
never fails a run.
"""
