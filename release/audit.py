"""Known vulnerabilities of the packages in the locks, by pip-audit; skipped where its index is not reached.

    python -m release.audit

Exits with 1 where a package has one, with each and the version that mends it.

Put here: asking and telling. Not here: what is to be done about one (SECURITY.md).
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from release.locks import merged

ROOT = Path(__file__).parents[1]
SECONDS = 300
"""Longest that all requests may take."""
_APART = ("requirements-dbt.txt", "requirements-engines.txt")
"""Locks of an environment of their own."""
_UNREACHED = ("ConnectionError", "ServiceError", "Failed to establish", "Max retries", "timed out", "HTTPError")


def environments(root: Path) -> list[list[Path]]:
    """The locks, by the environment that they are installed into: dbt and the query engines have one each."""
    locks = sorted(root.glob("requirements*.txt"))
    apart = [[lock] for lock in locks if lock.name in _APART]
    return [[lock for lock in locks if [lock] not in apart], *apart]


def main(locks: Sequence[Path]) -> int:
    """Audits locks as one. The exit status."""
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes", "--progress-spinner", "off"]
    command += ["--format", "json", "--timeout", "10", "-r", "/dev/stdin"]
    lock = merged(locks)
    try:
        ran = subprocess.run(
            command, input=lock, capture_output=True, text=True, check=False, timeout=SECONDS, cwd=ROOT
        )
    except subprocess.TimeoutExpired:
        print(f"skipped: the index of vulnerabilities did not answer within {SECONDS} s")
        return 0
    return report(ran.stdout, ran.stderr)


def report(output: str, errors: str) -> int:
    """Prints what pip-audit found. The exit status: 1 for vulnerabilities, and for other errors than the network's."""
    try:
        packages = json.loads(output)["dependencies"]
    except (ValueError, KeyError):
        last = next(iter(errors.strip().splitlines()[-1:]), "no output")
        if any(text in errors for text in _UNREACHED):
            print("skipped: the index of vulnerabilities cannot be reached from here")
            return 0
        print(f"pip-audit failed: {last}", file=sys.stderr)
        return 1
    # An audit in which the index knew nothing is none.
    unchecked = [package["name"] for package in packages if "skip_reason" in package]
    if len(unchecked) == len(packages):
        print(f"skipped: the index that is reached from here knows none of {len(packages)} packages")
        return 0
    found = [
        f"{package['name']} {package['version']}: {problem['id']}, mended in {' or '.join(problem['fix_versions'])}"
        for package in packages
        for problem in package.get("vulns", ())
    ]
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{len(packages) - len(unchecked)} packages audited, {len(found)} vulnerabilities", end="")
    print(f"; not known to the index: {', '.join(unchecked)}" if unchecked else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(max(main(locks) for locks in environments(ROOT)))
