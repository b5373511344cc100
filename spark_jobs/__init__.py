"""The work: from a source's log to merged tables. Runs without Dagster.

Put here: what must happen before any module is imported. Not here: anything else; each package says what belongs in it.
"""

import os

# delta-rs logs, in colours, what it raises all the same; read when it is loaded.
os.environ.setdefault("RUST_LOG", "off")
