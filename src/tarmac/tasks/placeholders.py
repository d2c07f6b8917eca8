"""Placeholders ``{{ name }}`` in commands and other texts; all other braces stay unchanged."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

from tarmac.errors import RequestError

# A name, possibly dotted: ``{{ lr }}``, ``{{ task.name }}``. Shells, JSON, Helm and Jinja use
# double braces for other things. As in Helm and Jinja, {{ '{{' }} stands for the braces themselves.
_NAME = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
_PLACEHOLDER = re.compile(rf"\{{\{{\s*({_NAME}|'\{{\{{')\s*\}}\}}")
_BRACES = "{{ '{{' }}"


def placeholders_in(text: str) -> list[tuple[str, str]]:
    """Return the name of each placeholder in a text, and its source text."""
    return [(match[1], match[0]) for match in _PLACEHOLDER.finditer(text) if match[1] != "'{{'"]


def escape(text: str) -> str:
    """Escape a text so that nothing in it is a placeholder.

    Example:
        >>> fill(escape("docker ps --format {{ Names }}"), {})
        'docker ps --format {{ Names }}'
    """
    return _PLACEHOLDER.sub(lambda match: _BRACES + match[0][2:], text)


def fill(text: str, values: Mapping[str, Any]) -> str:
    """Replace the placeholders of a text by values.

    Args:
        text: Text with placeholders, such as ``{{ lr }}``.
        values: Values of the placeholders, by name.

    Raises:
        RequestError: A placeholder has no value.
    """

    def value_of(match: re.Match[str]) -> str:
        name = match[1]
        if name == "'{{'":
            return "{{"
        if name not in values:
            near = difflib.get_close_matches(name, values, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(values)}"
            raise RequestError(f"{{{{ {name} }}}} has no value", hint=hint)
        return show(values[name])

    return _PLACEHOLDER.sub(value_of, text)


def fill_all(value: Any, values: Mapping[str, Any]) -> Any:
    """Replace the placeholders in all texts of nested lists and mappings."""
    if isinstance(value, str):
        return fill(value, values)
    if isinstance(value, (list, tuple)):
        return type(value)(fill_all(part, values) for part in value)
    if isinstance(value, dict):
        return {key: fill_all(part, values) for key, part in value.items()}
    return value


def show(value: Any) -> str:
    """Format a value as a program's argument: booleans as in JSON, numbers with all digits."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
