"""The formats that there are: Tarmac's, and those of other packages."""

from __future__ import annotations

import functools
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from tarmac.errors import TarmacError, unknown_name
from tarmac.formats.format import Format
from tarmac.formats.hkube import HKUBE
from tarmac.formats.own import TARMAC
from tarmac.formats.shipyard import SHIPYARD

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["all_formats", "find_format", "format_names"]

_GROUP = "tarmac.formats"
_BUILT_IN = {format_.name: format_ for format_ in (TARMAC, SHIPYARD, HKUBE)}


def format_names() -> tuple[str, ...]:
    """Return the names of Tarmac's formats, then of those that packages provide."""
    return (*_BUILT_IN, *_provided())


def find_format(name: str) -> Format:
    """Find a format.

    Raises:
        RequestError: There is none of that name.
        TarmacError: The package that should hold it failed to import, or holds something else.
    """
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    provided = _provided()
    if name not in provided:
        raise unknown_name("format", name, dict.fromkeys(format_names(), ""))
    return _load(provided[name])


def all_formats() -> list[Format]:
    """Return all formats, in the order in which they are asked whether a file is theirs.

    Raises:
        TarmacError: See `find_format`.
    """
    others = [part for part in _BUILT_IN.values() if part is not TARMAC]
    return [*others, *(_load(point) for point in _provided().values()), TARMAC]


@functools.cache
def _provided() -> dict[str, EntryPoint]:
    points = {point.name: point for point in entry_points(group=_GROUP)}
    return {name: points[name] for name in sorted(points.keys() - _BUILT_IN.keys())}


def _load(point: EntryPoint) -> Format:
    what = f"format {point.name!r} of {point.value}"
    try:
        loaded = point.load()
    except Exception as error:
        raise TarmacError(f"{what} failed to load: {type(error).__name__}: {error}") from error
    if not isinstance(loaded, Format):
        raise TarmacError(f"{what} is a {type(loaded).__name__}, expected a Format")
    if loaded.name != point.name:
        raise TarmacError(f"{what} calls itself {loaded.name!r}, expected its entry point's name")
    return loaded
