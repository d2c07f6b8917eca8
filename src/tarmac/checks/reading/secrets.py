"""Redacts secrets and names of persons in a log's line, by their form."""

from __future__ import annotations

import re

from tarmac.masking import masked_text

_HOME = re.compile(r"(/home|/Users)/[\w.-]+")


def without_secrets(text: str) -> str:
    """Return a line without values of secrets, and with ``~`` for home directories."""
    return _HOME.sub("~", masked_text(text))
