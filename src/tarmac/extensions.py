"""Extensions of Tarmac that installed packages provide by entry points.

Each group of entry points, such as ``tarmac.strategies``, holds values of one type.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import TypeVar

from tarmac.errors import TarmacError

_Value = TypeVar("_Value")


def points_of(group: str) -> EntryPoints:
    """Return the entry points of a group that installed packages provide.

    Args:
        group: Name of an entry point group, such as ``tarmac.strategies``.
    """
    return _points_on(tuple(sys.path), group)


@functools.cache
def _points_on(path: tuple[str, ...], group: str) -> EntryPoints:
    # Cached: a look-up reads a file of each package on `path`, some 10 ms, and commands repeat it.
    del path
    return entry_points(group=group)


def names_with_provided(group: str, own: Iterable[str]) -> tuple[str, ...]:
    """Return Tarmac's own names in their order, then the sorted names that packages provide.

    Args:
        group: Name of an entry point group, such as ``tarmac.strategies``.
        own: Tarmac's names, which a package cannot take.
    """
    mine = tuple(own)
    provided = {point.name for point in points_of(group)}
    return (*mine, *sorted(provided.difference(mine)))


def load_provided(
    group: str, kind: str, name: str, expected: type[_Value], *, is_named: bool = True
) -> _Value | None:
    """Return the value that a package provides by a name; None if no package does.

    Args:
        group: Name of an entry point group, such as ``tarmac.strategies``.
        kind: Kind of the group's values for error messages: ``strategy``.
        name: Name of the entry point to load.
        expected: Type of the group's values.
        is_named: Whether the value's ``name`` must equal that of its entry point. Default True.

    Raises:
        TarmacError: The package failed to import, or its value has another type or name.
    """
    for point in points_of(group).select(name=name):
        return _load(point, kind, expected, is_named=is_named)
    return None


def _load(point: EntryPoint, kind: str, expected: type[_Value], *, is_named: bool) -> _Value:
    what = f"{kind} {point.name!r} of {point.value}"
    hint = "Fix or uninstall the package that provides it"
    try:
        value = point.load()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise TarmacError(f"{what} failed to load: {reason}", hint=hint) from error
    if not isinstance(value, expected):
        type_name = type(value).__name__
        raise TarmacError(f"{what} is of type {type_name}, expected {expected.__name__}", hint=hint)
    own = getattr(value, "name", None)
    if is_named and own != point.name:
        raise TarmacError(
            f"{what} calls itself {own!r}, expected its entry point's name", hint=hint
        )
    return value
