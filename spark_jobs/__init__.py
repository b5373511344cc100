"""The work: from a source's log to merged tables. Runs without Dagster."""

import os

os.environ.setdefault(
    "RUST_LOG", "off"
)  # delta-rs logs, in colours, what it raises all the same; read when it is loaded
