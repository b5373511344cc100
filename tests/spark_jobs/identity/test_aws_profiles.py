from pathlib import Path

import pytest

from spark_jobs.identity.aws_profiles import profile
from spark_jobs.identity.errors import CredentialsError


def test_both_files_are_of_one_profile_and_credentials_win(tmp_path: Path) -> None:
    credentials, settings = tmp_path / "credentials", tmp_path / "config"
    variables = {"AWS_SHARED_CREDENTIALS_FILE": str(credentials), "AWS_CONFIG_FILE": str(settings)}
    assert profile(variables, "default") is None
    credentials.write_text("[lake]\naws_access_key_id=A\n")
    settings.write_text("[profile lake]\nregion=eu-west-1\naws_access_key_id=B\n[default]\nregion=x\n")
    assert profile(variables, "lake") == {"aws_access_key_id": "A", "region": "eu-west-1"}
    assert profile(variables, "default") == {"region": "x"}
    credentials.write_text("geheim")
    with pytest.raises(CredentialsError) as refused:
        profile(variables, "lake")
    assert str(refused.value) == f"{credentials} is no file of profiles"
