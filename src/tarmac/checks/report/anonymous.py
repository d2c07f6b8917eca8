"""Takes what names persons, and what is secret, out of a report that leaves the machine."""

from __future__ import annotations

import getpass
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.checks.report.model import Report
from tarmac.masking import is_secret_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# A shorter value, such as "1", may stand anywhere without being the secret.
_MIN_SECRET = 6


def without_names(report: Report, environment: Mapping[str, str]) -> Report:
    """Return a report without the user's name, home directory and secrets.

    Frameworks print paths and sometimes variables, so all that is text is looked through.

    Args:
        report: Report to clean; it stays unchanged.
        environment: Holds secrets by variables' names, and the user's name.
    """
    return Report.model_validate(_mapped(report.model_dump(), text_cleaner(environment)))


def text_cleaner(environment: Mapping[str, str]) -> Callable[[str], str]:
    """Return what takes the user's name, home directory and secrets out of a text.

    Args:
        environment: Holds secrets by variables' names, and the user's name.
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
        # A container's user may have no name, and no home.
        return None
    return home if home not in ("/", "/root") else None


def _names(environment: Mapping[str, str]) -> list[str]:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = ""
    names = {user, environment.get("SUDO_USER", "")}
    # Root is nobody in particular, and part of many paths.
    return sorted(names - {"", "root"})


def _mapped(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {key: _mapped(part, clean) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_mapped(part, clean) for part in value]
    return value
