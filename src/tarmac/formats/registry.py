"""The known formats: Tarmac's own and those of other packages."""

from __future__ import annotations

import functools

from tarmac.errors import unknown_name
from tarmac.extensions import load_provided, names_with_provided
from tarmac.formats.format import Format
from tarmac.formats.hkube import HKUBE
from tarmac.formats.own import TARMAC
from tarmac.formats.shipyard import SHIPYARD
from tarmac.formats.skypilot import SKYPILOT

_GROUP = "tarmac.formats"
_BUILT_IN = {format_.name: format_ for format_ in (TARMAC, SHIPYARD, HKUBE, SKYPILOT)}


def format_names() -> tuple[str, ...]:
    """Return the names of the built-in formats, then of those of other packages."""
    return names_with_provided(_GROUP, _BUILT_IN)


def find_format(name: str) -> Format:
    """Find a format by its name.

    Raises:
        RequestError: No format has that name.
        TarmacError: See `load_provided`.
    """
    file_format = _BUILT_IN.get(name) or load_provided(_GROUP, "format", name, Format)
    if file_format is None:
        raise unknown_name("format", name, dict.fromkeys(format_names(), ""))
    return file_format


def all_formats() -> list[Format]:
    """Return all formats, in the order in which they are tried on a file.

    Raises:
        TarmacError: See `find_format`.
    """
    others = [part for part in _BUILT_IN.values() if part is not TARMAC]
    return [*others, *_provided(), TARMAC]


@functools.cache
def _provided() -> tuple[Format, ...]:
    names = (name for name in format_names() if name not in _BUILT_IN)
    formats = (load_provided(_GROUP, "format", name, Format) for name in names)
    return tuple(part for part in formats if part is not None)
