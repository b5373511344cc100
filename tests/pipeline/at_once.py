"""``stratalog`` in a process of its own that begins together with others. Started by tests of this folder.

``at_once.py FOLDER WORD…``. It starts Spark, says in the folder that it is there, and waits for the file ``go``: so
what it does meets what the others do, and not their starting.
"""

import os
import sys
import time
from pathlib import Path

from spark_jobs.cli import main
from spark_jobs.config.loader import load
from spark_jobs.runtime.spark_session import spark_session


def begin(folder: Path, words: list[str]) -> None:
    spark_session(load(Path(words[words.index("-c") + 1])).spark)
    (folder / f"ready-{os.getpid()}").touch()
    while not (folder / "go").exists():
        time.sleep(0.02)
    sys.argv = ["stratalog", *words]
    main()


if __name__ == "__main__":
    begin(Path(sys.argv[1]), sys.argv[2:])
