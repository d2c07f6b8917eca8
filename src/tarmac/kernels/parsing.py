"""Lets several threads parse Python, as Triton does for each kernel that it compiles."""

from __future__ import annotations

import contextlib
import gc
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# From here on garbage is collected between instructions only.
_SAFE = (3, 12)


@contextlib.contextmanager
def parsing_in_threads() -> Iterator[None]:
    """Let threads call `ast.parse` at once within; collect no garbage where that breaks it.

    Python 3.11 may collect while it builds a tree. What that finalizes lets another thread run,
    and if it parses too, both count in one place how deep they are: one of them ends with
    ``SystemError: AST constructor recursion depth mismatch`` (python/cpython#106905).
    """
    if sys.version_info >= _SAFE or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
