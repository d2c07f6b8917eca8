"""Faces of rooms that import a module when a name of it is first used.

Example, in a room's ``__init__``:
    >>> if TYPE_CHECKING:  # doctest: +SKIP
    ...     from tarmac.machine.visible import list_gpus as list_gpus
    ... else:
    ...     __getattr__, __dir__, __all__ = lazy_names(__name__)
"""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

# An alias of the same name says that the name is the face's own (PEP 484, "Stub files").
_OFFERED = re.compile(r"^ *from (\S+) import (\w+) as \2$", re.MULTILINE)


def lazy_names(
    face: str, within: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return a face's ``__getattr__``, ``__dir__`` and ``__all__``, as its source imports names.

    Args:
        face: The room, whose source has a line ``from MODULE import NAME as NAME`` for each name.
        within: What each import is made in.
    """
    source = sys.modules[face].__loader__.get_source(face)  # type: ignore[union-attr]
    modules = {name: module for module, name in _OFFERED.findall(source)}

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {face!r} has no attribute {name!r}")
        with within():
            return getattr(importlib.import_module(modules[name]), name)

    return get, lambda: sorted(modules), sorted(modules)
