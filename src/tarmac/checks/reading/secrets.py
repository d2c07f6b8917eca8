"""Takes out of a log's line what, by its form, is a secret or names a person."""

from __future__ import annotations

import re

__all__ = ["without_secrets"]

_FORMS = (
    # A name that speaks of a secret, and its value: WANDB_API_KEY=..., "password": "..."
    (
        re.compile(
            r"(?i)(\w*(?:token|api_?key|access_?key|secret|passw(?:or)?d|credential)\w*"
            r"[\"']?\s*[=:]\s*[\"']?)[^\s\"',;&]{6,}"
        ),
        r"\1(hidden)",
    ),
    (re.compile(r"(?i)\b(bearer|basic) [\w.~+/=-]{8,}"), r"\1 (hidden)"),
    (re.compile(r"(://)[^/\s:@]+:[^/\s@]+@"), r"\1(hidden)@"),
    # Tokens of Hugging Face, GitHub, OpenAI, Amazon, Slack and Google.
    (
        re.compile(
            r"\b(?:hf_\w{20,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|sk-[\w-]{20,}|AKIA[0-9A-Z]{16}"
            r"|xox[abprs]-[\w-]{10,}|AIza[\w-]{35})"
        ),
        "(hidden)",
    ),
    (re.compile(r"(/home|/Users)/[\w.-]+"), "~"),
)


def without_secrets(text: str) -> str:
    """Return a line without values of secrets, and with ``~`` for home directories."""
    for form, instead in _FORMS:
        text = form.sub(instead, text)
    return text
