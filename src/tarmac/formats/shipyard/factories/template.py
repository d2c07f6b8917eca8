"""A task factory's command, filled with values by the rules of ``str.format``.

A field has a value's number or name, a conversion and a format. Fields cannot access attributes or
items of values.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

# Long enough for any number format. A width of nine digits would fill the memory.
_FORMAT = re.compile(r"[^{}]{0,12}")
_LONG_WIDTH = re.compile(r"\d{4,}")
_CONVERSIONS: Mapping[str, Callable[[Any], str]] = {"r": repr, "s": str, "a": ascii}
_TWICE = "write a literal brace twice, {{ or }}"


class Template:
    """A command template.

    Args:
        text: Command with fields ``{}``, ``{0}`` or ``{name}``. ``{{`` and ``}}`` are braces.

    Raises:
        ValueError: The braces do not match, or a field is invalid.
    """

    def __init__(self, text: str) -> None:
        self._parts: list[tuple[str, str | int | None, str, str]] = []
        numbered: set[str] = set()
        try:
            parsed = [*string.Formatter().parse(text)]
        except ValueError as error:
            raise ValueError(f"{error}; {_TWICE}") from error
        for literal, name, spec, conversion in parsed:
            if name is None:
                self._parts.append((literal, None, "", ""))
                continue
            if conversion and conversion not in _CONVERSIONS:
                raise ValueError(f"{{{name}!{conversion}}} is no form of a value; {_TWICE}")
            if name and not re.fullmatch(r"[0-9]{1,6}|[A-Za-z_][A-Za-z0-9_]*", name):
                raise ValueError(f"{_field(name, spec)} names no value; {_TWICE}")
            if not _FORMAT.fullmatch(spec or "") or _LONG_WIDTH.search(spec or ""):
                raise ValueError(f"{_field(name, spec)} is no format of a value; {_TWICE}")
            key: str | int = name
            if not name or name.isdecimal():
                numbered.add("{}" if not name else "{0}")
                key = int(name) if name else sum(isinstance(part[1], int) for part in self._parts)
            self._parts.append((literal, key, spec or "", conversion or ""))
        if len(numbered) > 1:
            raise ValueError("{} and {0} cannot be mixed")

    @property
    def names(self) -> Sequence[str]:
        """Names of the named fields."""
        return [key for _, key, _, _ in self._parts if isinstance(key, str)]

    def fill(self, values: Sequence[Any], named: Mapping[str, Any]) -> str:
        """Return the command with the values in its fields.

        Args:
            values: Values of numbered fields, such as ``{0}``, by position.
            named: Values of named fields, by field name.

        Raises:
            ValueError: A field's value is missing, or does not fit the field's format.
        """
        text = ""
        for literal, key, spec, conversion in self._parts:
            text += literal
            if key is None:
                continue
            try:
                value = values[key] if isinstance(key, int) else named[key]
            except IndexError:
                has = f"{len(values)} value{'' if len(values) == 1 else 's'}"
                raise ValueError(
                    f"it asks for value {key}, and the factory gives {has}, from 0"
                ) from None
            except KeyError:
                has = f"gives {', '.join(named)}" if named else "gives numbered values only"
                raise ValueError(f"{{{key}}} names no value, the factory {has}; {_TWICE}") from None
            if conversion:
                value = _CONVERSIONS[conversion](value)
            try:
                text += format(value, spec)
            except (ValueError, TypeError, OverflowError) as error:
                raise ValueError(f"{value!r} as {_field(str(key), spec)}: {error}") from error
        return text


def _field(name: str, spec: str | None) -> str:
    return f"{{{name}{':' + spec if spec else ''}}}"
