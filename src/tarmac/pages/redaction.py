"""Masking of secrets in a run's request, at any depth.

Example:
    >>> without_secrets({"env": {"SSH_KEY": "abc"}, "command": ["run", "--token", "abc"]})
    {'env': {'SSH_KEY': '(hidden)'}, 'command': ['run', '--token', '(hidden)']}
"""

from __future__ import annotations

from typing import Any

from tarmac.masking import masked_command, masked_environment


def without_secrets(value: Any, name: str = "") -> Any:
    """Return a value with ``(hidden)`` for parts that are secrets by their name or form.

    Args:
        value: Mappings, lists and scalars, as in JSON.
        name: Name of the value. Empty if it has none.
    """
    if isinstance(value, dict):
        return {key: without_secrets(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        if all(isinstance(item, str) for item in value):
            return masked_command(value)
        return [without_secrets(item) for item in value]
    return masked_environment({name: value})[name] if isinstance(value, str) else value
