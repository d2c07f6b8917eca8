"""Datasets of the user's own: tables, arrays and folders of images, taken over under a name."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.data.own.images import read_image
    from tarmac.data.own.store import OwnRecord, load_own, own_names, own_record
    from tarmac.data.own.table_values import TableColumns
    from tarmac.data.own.taking import Taking, take_over

__all__ = [
    "OwnRecord",
    "TableColumns",
    "Taking",
    "load_own",
    "own_names",
    "own_record",
    "read_image",
    "take_over",
]

# Where a name is at home.
_MODULES = {
    "TableColumns": "table_values",
    "OwnRecord": "store",
    "Taking": "taking",
    "load_own": "store",
    "own_names": "store",
    "own_record": "store",
    "read_image": "images",
    "take_over": "taking",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
