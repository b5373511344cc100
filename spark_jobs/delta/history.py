"""What commits of a table did, one by one.

Put here: questions about commits between two versions. Not here: what a version consists of (snapshot.py).
"""

import json

from spark_jobs.delta.log_files import read_commit


def added_since(path: str, after: int, until: int) -> set[str] | None:
    """Paths of the data files that commits behind one version and up to another added, removed ones among them.

    None where the log does not have all of these commits any more.
    """
    paths: set[str] = set()
    for version in range(after + 1, until + 1):
        content = read_commit(path, version)
        if content is None:
            return None
        for line in content.splitlines():
            if line.startswith(b'{"add"'):
                paths.add(json.loads(line)["add"]["path"])
    return paths
