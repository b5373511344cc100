"""The unit in docs/examples/systemd, by systemd's own checker, and by the command that it starts."""

import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest

from tests.fix_cli import Stratalog

UNIT = Path(__file__).parents[2] / "docs" / "examples" / "systemd" / "stratalog.service"


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not here")
    ran = subprocess.run([analyze, "verify", str(UNIT)], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")
    # A key that systemd does not know is seen.
    wrong = tmp_path / "wrong.service"
    wrong.write_text(UNIT.read_text().replace("KillMode=", "KillMod="))
    ran = subprocess.run([analyze, "verify", str(wrong)], capture_output=True, text=True, check=False)
    assert "KillMod" in ran.stderr


def test_the_command_of_the_unit_has_these_options(stratalog: Stratalog) -> None:
    unit = ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(UNIT)
    words = unit["Service"]["ExecStart"].split()
    assert words[:2] == ["/usr/bin/env", "/srv/stratalog/.venv/bin/stratalog"]
    ran = stratalog(*words[2:])
    # The options are known; the configuration is not there.
    assert (ran.status, "No such option" in ran.err) == (2, False)
    assert "/srv/stratalog/pipeline.yaml" in ran.err
