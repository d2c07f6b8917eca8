"""Takes out of a log's line what, by its form, is a secret or names a person."""

from __future__ import annotations

import re

from tarmac.masking import masked_text

_HOME = re.compile(r"(/home|/Users)/[\w.-]+")


def without_secrets(text: str) -> str:
    """Return a line without values of secrets, and with ``~`` for home directories."""
    return _HOME.sub("~", masked_text(text))
