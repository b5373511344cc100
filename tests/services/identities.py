"""Environments without identities, for tests that give theirs.

Put here: the fixture. Not here: services that give identities (token_services.py).
"""

import os
from pathlib import Path

import pytest

from spark_jobs.identity import leases

NAMES = ("AWS_", "AZURE_", "IDENTITY_", "GOOGLE_", "GCE_", "CLOUDSDK_")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An environment without identities, and no lease of another test."""
    for name in list(os.environ):
        if name.startswith(NAMES):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(leases, "_leases", {})
    return monkeypatch
