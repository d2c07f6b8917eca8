"""Parsing of Python in several threads; Triton parses every kernel that it compiles."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator

# From Python 3.12 on, garbage is collected only between instructions.
_SAFE = (3, 12)


@contextlib.contextmanager
def parsing_in_threads() -> Iterator[None]:
    """Let threads call `ast.parse` in parallel; pause garbage collection where it breaks that.

    Python 3.11 may collect garbage while it builds a tree. A finalizer may then let another thread
    run. If that thread parses too, both threads share one depth counter, and one fails with
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
