"""Input templates, read once and filled for each task."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from tarmac.errors import RequestError
from tarmac.formats import Reference, read_raw_batch, read_reference

# Marks a missing value: its key is left out of an object, and a list gets None.
ABSENT = object()

# Bound on nested lists and objects, above any real input.
_MAX_DEPTH = 100


@dataclasses.dataclass(frozen=True, slots=True)
class RawBatch:
    """A batch whose elements are in the reference itself.

    Attributes:
        elements: Elements of the batch, one for each task.
    """

    elements: Sequence[int | str]


Source = Reference | RawBatch


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    number: int


@dataclasses.dataclass(frozen=True, slots=True)
class _List:
    parts: tuple[Any, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _Object:
    parts: tuple[tuple[str, Any], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Template:
    """An input whose references are places to fill.

    Attributes:
        sources: Reference or raw batch for each place, in order.
        parts: Elements of the input list, with places for references.
    """

    sources: tuple[Source, ...]
    parts: tuple[Any, ...]

    def fill(self, values: Sequence[Any]) -> list[Any]:
        """Return the input with values in its places.

        Args:
            values: Value for each source, in order; `ABSENT` for none.
        """
        return [_or_none(_filled(part, values)) for part in self.parts]


def read_template(value: Sequence[Any], name: str) -> Template:
    """Read a node's input.

    Args:
        value: Input of a node, as a list of plain values.
        name: Name of the input in error messages.

    Raises:
        RequestError: The input is nested too deeply, or has a batch with too many elements.
    """
    sources: list[Source] = []
    parts = tuple(_read(part, sources, 1, name) for part in value)
    return Template(tuple(sources), parts)


def _read(value: Any, sources: list[Source], depth: int, name: str) -> Any:
    """Return a part with places, or the value itself without places, which tasks then share."""
    if depth > _MAX_DEPTH:
        raise RequestError(f"{name} is nested more than {_MAX_DEPTH} deep")
    if isinstance(value, str):
        elements = read_raw_batch(value)
        source = read_reference(value) if elements is None else RawBatch(elements)
        if source is None:
            return value
        sources.append(source)
        return _Place(len(sources) - 1)
    before = len(sources)
    part: _List | _Object
    if isinstance(value, list):
        part = _List(tuple(_read(item, sources, depth + 1, name) for item in value))
    elif isinstance(value, dict):
        items = value.items()
        part = _Object(tuple((key, _read(item, sources, depth + 1, name)) for key, item in items))
    else:
        return value
    return value if len(sources) == before else part


def _filled(part: Any, values: Sequence[Any]) -> Any:
    match part:
        case _Place(number):
            return values[number]
        case _List(parts):
            return [_or_none(_filled(item, values)) for item in parts]
        case _Object(parts):
            pairs = ((key, _filled(item, values)) for key, item in parts)
            return {key: value for key, value in pairs if value is not ABSENT}
        case _:
            return part


def _or_none(value: Any) -> Any:
    return None if value is ABSENT else value
