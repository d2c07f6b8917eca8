"""Names of packages that are imported on first use.

Example, in a package's ``__init__``:
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
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

# `import NAME as NAME` makes the name a public name of the package (PEP 484, "Stub files").
_OFFERED = re.compile(r"^ *from (\S+) import (\w+) as \2$", re.MULTILINE)


def lazy_names(
    face: str, within: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return a package's ``__getattr__``, ``__dir__`` and ``__all__``, as its source imports names.

    Args:
        face: Package whose source has a line ``from MODULE import NAME as NAME`` for each name.
        within: Returns the context manager around each import. Default: no context.
    """
    source = sys.modules[face].__loader__.get_source(face)  # type: ignore[union-attr]
    modules = {name: module for module, name in _OFFERED.findall(source)}

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {face!r} has no attribute {name!r}")
        with within():
            return getattr(importlib.import_module(modules[name]), name)

    return get, lambda: sorted(modules), sorted(modules)
