"""Takes secrets out of environments, command lines and texts before anybody is shown them.

Example:
    >>> masked_environment({"WANDB_API_KEY": "abc123", "CUDA_VISIBLE_DEVICES": "0"})
    {'WANDB_API_KEY': '(hidden)', 'CUDA_VISIBLE_DEVICES': '0'}
    >>> masked_command(["train.py", "--token", "abc123", "--epochs", "3"])
    ['train.py', '--token', '(hidden)', '--epochs', '3']
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["is_secret_name", "masked_command", "masked_environment", "masked_text"]

_INSTEAD = "(hidden)"

_SECRET_NAME = re.compile(
    r"TOKEN|KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|COOKIE|(?:^|[_-])(?:PASS|PWD|AUTH)(?:$|[_-])",
    re.IGNORECASE,
)
# Names that only look like it: where a key lies, what sorts, what cuts a text into tokens.
_HARMLESS_NAME = re.compile(
    r"^(?:PWD|OLDPWD|.*KEYBOARD.*|.*MONKEY.*|(?:(?!TOKEN(?!I[SZ])|KEY|SECRET|PASS|CREDENTIAL).)*TOKENI[SZ].*)$",
    re.IGNORECASE,
)
# How many tokens there are is no secret, as --max-tokens says it; which ones is.
_TOKENS = re.compile(r"(?i)tokens(?![a-z])")
_NUMBER = re.compile(r"[+-]?[0-9][0-9_,]*(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?[kMGBT]?")

# A name that speaks of a secret. What repeats has a bound, and nothing stands before the word:
# strangers' texts, such as the 64 KiB of a log without a line's end, take a time that grows with
# their length and no more.
_SPEAKING = (
    r"(?:token(?!i[sz])|api[_-]?key|access[_-]?key|secret|passw(?:or)?d|passphrase|credential)"
    r"[\w-]{0,100}"
)
# WANDB_API_KEY=..., "password": "..."
_ASSIGNED = re.compile(rf"(?i)({_SPEAKING}[\"']?\s*[=:]\s*[\"']?)([^\s\"',;&]{{6,}})")
# --token VALUE and --token=VALUE, in a line that a shell reads.
_OPTION = re.compile(
    r"(?i)(?<!\S)(--"
    r"(?=[\w-]{0,60}(?:token(?!i[sz])|key(?!board)|secret|passw(?:or)?d|passphrase|credential))"
    r"[\w-]{1,80}(?:[ \t]+|=))"
    # What is hidden already keeps the quotes with which it can be typed.
    r"(?![\"']\(hidden\))"
    r"(\"[^\"]{1,1000}\"|'[^']{1,1000}'|[^\s\"';&|()-][^\s\"';&|()]{0,1000})"
)

_FORMS = (
    (re.compile(r"(?i)\b(bearer|basic) [\w.~+/=-]{8,}"), rf"\1 {_INSTEAD}"),
    (re.compile(r"(://)[^/\s:@]*:[^/\s@]+@"), rf"\1{_INSTEAD}@"),
    # Tokens of Hugging Face, GitHub, OpenAI, Amazon, Slack and Google.
    (
        re.compile(
            r"\b(?:hf_\w{20,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|sk-[\w-]{20,}|AKIA[0-9A-Z]{16}"
            r"|xox[abprs]-[\w-]{10,}|AIza[\w-]{35})"
        ),
        _INSTEAD,
    ),
)


def is_secret_name(name: str) -> bool:
    """Whether a variable or an option of such a name holds a secret."""
    return _SECRET_NAME.search(name) is not None and _HARMLESS_NAME.match(name) is None


def masked_text(text: str) -> str:
    """Return a text without what by its form is a secret."""
    text = _ASSIGNED.sub(_hide, text)
    text = _OPTION.sub(_hide, text)
    for form, instead in _FORMS:
        text = form.sub(instead, text)
    return text


def masked_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return variables with ``(hidden)`` for values that by their name or form are secrets."""
    return {
        name: _INSTEAD if value and _holds_secret(name, value) else masked_text(value)
        for name, value in variables.items()
    }


def masked_command(arguments: Iterable[str]) -> list[str]:
    """Return a command's arguments with ``(hidden)`` for values that look like secrets.

    Both ``--token VALUE`` and ``--token=VALUE`` are known, and ``NAME=VALUE`` of a variable.
    """
    masked = []
    asked = ""
    for argument in arguments:
        if asked and not argument.startswith("-"):
            masked.append(_INSTEAD if _holds_secret(asked, argument) else argument)
            asked = ""
            continue
        name, is_joined, value = argument.partition("=")
        is_named = not any(c.isspace() for c in name) and is_secret_name(name.lstrip("-"))
        if is_named and is_joined and value and _holds_secret(name, value):
            masked.append(f"{name}={_INSTEAD}")
        else:
            masked.append(masked_text(argument))
        is_option = is_named and not is_joined and argument.startswith("--")
        asked = argument if is_option else ""
    return masked


def _holds_secret(name: str, value: str) -> bool:
    return is_secret_name(name) and not _is_count(name, value)


def _is_count(name: str, value: str) -> bool:
    return _TOKENS.search(name) is not None and _NUMBER.fullmatch(value) is not None


def _hide(match: re.Match[str]) -> str:
    name, value = match.groups()
    is_hidden = value.strip("'\"") == _INSTEAD
    return match.group() if is_hidden or _is_count(name, value) else f"{name}{_INSTEAD}"
