"""Takes secrets out of what a run was asked, however deep they lie in it.

Example:
    >>> without_secrets({"env": {"SSH_KEY": "abc"}, "command": ["run", "--token", "abc"]})
    {'env': {'SSH_KEY': '(hidden)'}, 'command': ['run', '--token', '(hidden)']}
"""

from __future__ import annotations

from typing import Any

from tarmac.masking import masked_command, masked_environment


def without_secrets(value: Any, name: str = "") -> Any:
    """Return a value with ``(hidden)`` for what by its name or its form is a secret.

    Args:
        value: Mappings, lists and single values, as JSON has them.
        name: Its own; empty if it has none.
    """
    if isinstance(value, dict):
        return {key: without_secrets(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        if all(isinstance(item, str) for item in value):
            return masked_command(value)
        return [without_secrets(item) for item in value]
    return masked_environment({name: value})[name] if isinstance(value, str) else value
