"""Verification: the source's rows compared with the lake's, while writes continue.

value_text.py gives every type one text that both sides' SQL makes; row_digest.py puts the columns of a table together;
server_rows.py and lake_rows.py hash and read rows (protocol.py: in one shape); compare.py narrows down and reads again;
tables.py goes over a source's tables, and named_tables.py says which there are; verdict.py is what is said of one. Why
it is done so: docs/adr/0014-verify.md.

Put here: comparing rows. Not here: comparing definitions (schema_drift.py), or positions (integrity.py).
"""

from spark_jobs.checks.verify.compare import KeyDifference
from spark_jobs.checks.verify.tables import require_live, require_named, verify_source
from spark_jobs.checks.verify.verdict import Verdict

__all__ = ["KeyDifference", "Verdict", "require_live", "require_named", "verify_source"]
