"""Masking of secrets in environments, command lines and texts before they are shown.

Example:
    >>> masked_environment({"WANDB_API_KEY": "abc123", "CUDA_VISIBLE_DEVICES": "0"})
    {'WANDB_API_KEY': '(hidden)', 'CUDA_VISIBLE_DEVICES': '0'}
    >>> masked_command(["train.py", "--token", "abc123", "--epochs", "3"])
    ['train.py', '--token', '(hidden)', '--epochs', '3']
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tarmac.masking.forms import HIDDEN, hide_forms, hide_urls, is_count
from tarmac.masking.programs import hide_in_arguments, hide_in_lines
from tarmac.masking.values import (
    fingerprints,
    learn,
    longest_known,
    num_remembered,
    remember,
    without_known,
    without_known_in,
)

__all__ = [
    "HIDDEN",
    "fingerprints",
    "hide_urls",
    "is_secret_name",
    "learn",
    "longest_known",
    "masked_command",
    "masked_environment",
    "masked_text",
    "num_remembered",
    "remember",
    "remember_environment",
    "without_known",
    "without_known_in",
]

# A shorter value of a variable may occur in many texts without being the secret.
_MIN_VALUE = 8

_SECRET_NAME = re.compile(
    r"TOKEN|KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|COOKIE|(?:^|[_-])(?:PASS|PW|PWD|AUTH)(?:$|[_-])",
    re.IGNORECASE,
)
# Names that only look like secrets: directories, keyboards, tokenizers.
_HARMLESS_NAME = re.compile(
    r"^(?:PWD|OLDPWD|.*KEYBOARD.*|.*MONKEY.*|(?!.*(?:TOKEN(?!I[SZ])|KEY|SECRET|PASS|CREDENTIAL)).*TOKENI[SZ].*)$",
    re.IGNORECASE,
)


def is_secret_name(name: str) -> bool:
    """Return whether a variable or an option of this name holds a secret."""
    return _SECRET_NAME.search(name) is not None and _HARMLESS_NAME.match(name) is None


def masked_text(text: str) -> str:
    """Return a text with ``(hidden)`` for known secrets and for parts with a secret's form."""
    return hide_in_lines(hide_forms(without_known(text)))


def masked_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return variables with ``(hidden)`` for values that are secrets by their name or form."""
    return {
        name: HIDDEN if value and _holds_secret(name, value) else masked_text(value)
        for name, value in variables.items()
    }


def remember_environment(variables: Mapping[str, str]) -> None:
    """Mask in all texts the values of variables that are secrets by their names.

    Paths are no secrets. Passwords in URLs, such as a proxy's, are masked by their form anyway.
    """
    for name, value in variables.items():
        is_place = value.startswith(("/", "~", "."))
        if len(value) >= _MIN_VALUE and not is_place and _holds_secret(name, value):
            remember(value)


def masked_command(arguments: Iterable[str]) -> list[str]:
    """Return a command's arguments with ``(hidden)`` for values that look like secrets.

    ``--token VALUE``, ``--token=VALUE`` and a variable's ``NAME=VALUE`` are all recognized.
    """
    masked: list[str] = []
    option = ""
    for argument in hide_in_arguments(arguments):
        if option and not argument.startswith("-"):
            masked.append(HIDDEN if _holds_secret(option, argument) else argument)
            option = ""
            continue
        name, is_joined, value = argument.partition("=")
        is_named = not any(c.isspace() for c in name) and is_secret_name(name.lstrip("-"))
        if is_named and is_joined and value and _holds_secret(name, value):
            masked.append(f"{name}={HIDDEN}")
        else:
            masked.append(masked_text(argument))
        is_option = is_named and not is_joined and argument.startswith("--")
        option = argument if is_option else ""
    return masked


def _holds_secret(name: str, value: str) -> bool:
    return is_secret_name(name) and not is_count(name, value)
