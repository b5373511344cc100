"""The files of AWS's profiles, which its command line and SDKs share.

Put here: reading them. Not here: what a role's keys are asked of (aws.py).

Source: docs.aws.amazon.com, "Configuration and credential file settings".
"""

import configparser
import os
from collections.abc import Mapping
from pathlib import Path

from spark_jobs.identity.errors import CredentialsError


def files_of(environment: Mapping[str, str]) -> tuple[str, str]:
    """Paths of the file of credentials and of the file of settings."""
    home = Path(os.path.expanduser("~"), ".aws")  # noqa: PTH111 -- stays as it is for a user without a home
    return (
        environment.get("AWS_SHARED_CREDENTIALS_FILE") or str(home / "credentials"),
        environment.get("AWS_CONFIG_FILE") or str(home / "config"),
    )


def profile(environment: Mapping[str, str], name: str) -> Mapping[str, str] | None:
    """The settings of a profile, those of the file of credentials before the other's; None where neither has it.

    Raises CredentialsError where a file is none of profiles.
    """
    found: list[Mapping[str, str]] = []
    # The file of settings has "profile NAME" where the other has "NAME".
    sections = (name, name if name == "default" else f"profile {name}")
    for path, section in zip(files_of(environment), sections, strict=True):
        parser = configparser.RawConfigParser(default_section="\0", strict=False)
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, ValueError, OSError):
            raise CredentialsError(f"{path} is no file of profiles") from None
        if parser.has_section(section):
            found.append(dict(parser[section]))
    return {key: value for settings in reversed(found) for key, value in settings.items()} if found else None
