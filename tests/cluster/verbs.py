"""Verbs one after the other in one process: a command a line on standard input, as JSON, and its end on the output.

Put here: running them. Not here: which (deployments.py). A JVM that is warm takes a fifth of the time of a new one for
each.
"""

import contextlib
import io
import json
import sys

from spark_jobs.cli import main


def run(arguments: list[str]) -> dict[str, object]:
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    sys.argv = ["stratalog", *arguments]
    status: object = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            status = ended.code or 0
    return {"status": status, "out": _stream_text(out), "err": _stream_text(err)}


def _stream_text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


if __name__ == "__main__":
    for line in sys.stdin:
        sys.stdout.write(json.dumps(run(json.loads(line))) + "\n")
        sys.stdout.flush()
