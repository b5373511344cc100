"""Telemetry of runs for other systems: spans and metrics by OpenTelemetry, events of OpenLineage.

Put here: recording spans, and sending. Not here: what is measured (operations/metrics.py), or which run it is of
(operations/observation.py). An endpoint that does not answer is a warning; it never fails a run.
"""
