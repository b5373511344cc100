import json
from pathlib import Path

import pytest

from release.audit import environments, report
from release.locks import merged

ROOT = Path(__file__).parents[2]


def test_a_vulnerability_is_named_with_what_mends_it(capsys: pytest.CaptureFixture[str]) -> None:
    problem = {"id": "PYSEC-1", "fix_versions": ["1.1", "2.0"]}
    packages = [{"name": "a", "version": "1.0", "vulns": [problem]}, {"name": "b", "version": "2", "vulns": []}]
    packages.append({"name": "c", "skip_reason": "not found"})
    assert report(json.dumps({"dependencies": packages}), "") == 1
    assert capsys.readouterr().out.splitlines() == [
        "a 1.0: PYSEC-1, mended in 1.1 or 2.0",
        "2 packages audited, 1 vulnerabilities; not known to the index: c",
    ]
    assert report(json.dumps({"dependencies": packages[1:2]}), "") == 0
    assert capsys.readouterr().out == "1 packages audited, 0 vulnerabilities\n"
    assert report(json.dumps({"dependencies": packages[2:]}), "") == 0
    assert capsys.readouterr().out == "skipped: the index that is reached from here knows none of 1 packages\n"


@pytest.mark.parametrize(
    "errors, status, text",
    [
        ("requests.exceptions.ConnectionError: Max retries exceeded", 0, "skipped: the index of vulnerabilities"),
        ("ERROR: no such option", 1, "pip-audit failed: ERROR: no such option"),
        ("", 1, "pip-audit failed: no output"),
    ],
)
def test_only_what_the_network_does_is_skipped(
    errors: str, status: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report("", errors) == status
    assert text in "".join(capsys.readouterr())


def test_every_lock_is_audited_with_those_of_its_environment() -> None:
    locks = [lock for group in environments(ROOT) for lock in group]
    assert sorted(locks) == sorted(ROOT.glob("requirements*.txt"))
    assert all(merged(group) for group in environments(ROOT))
