"""Redacts names of persons and secrets in a report that leaves the machine."""

from __future__ import annotations

import getpass
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tarmac.checks.report.model import Report
from tarmac.masking import is_secret_name

# A shorter value, such as "1", may occur anywhere without being the secret.
_MIN_SECRET = 6


def without_names(report: Report, environment: Mapping[str, str]) -> Report:
    """Return a report without the user's name, home directory and secrets.

    Frameworks print paths and sometimes variables, so every text of the report is redacted.

    Args:
        report: Report to redact; it stays unchanged.
        environment: Environment variables, which hold the secrets and the user's name.
    """
    return Report.model_validate(_mapped(report.model_dump(), text_cleaner(environment)))


def text_cleaner(environment: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that redacts the user's name, home directory and secrets in a text.

    Args:
        environment: Environment variables, which hold the secrets and the user's name.
    """
    secrets = [v for k, v in environment.items() if is_secret_name(k) and len(v) >= _MIN_SECRET]
    home, names = _home(), _names(environment)
    user = re.compile(rf"(?<=/)({'|'.join(map(re.escape, names))})(?![\w.-])") if names else None

    def clean(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, "(hidden)")
        if home is not None:
            text = re.sub(rf"{re.escape(home)}(?![\w.-])", "~", text)
        return user.sub("USER", text) if user else text

    return clean


def _home() -> str | None:
    try:
        home = str(Path.home())
    except RuntimeError:
        # A container's user may have neither a name nor a home directory.
        return None
    return home if home not in ("/", "/root") else None


def _names(environment: Mapping[str, str]) -> list[str]:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = ""
    names = {user, environment.get("SUDO_USER", "")}
    # "root" identifies nobody, and is part of many paths.
    return sorted(names - {"", "root"})


def _mapped(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {key: _mapped(part, clean) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_mapped(part, clean) for part in value]
    return value
