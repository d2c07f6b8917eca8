"""Stacks of all threads of a training, printed to its log on SIGUSR2.

A hanging training offers no other way. Python runs none of its own signal handlers while a
collective waits, but the handler of `faulthandler` needs no Python.
"""

from __future__ import annotations

import contextlib
import faulthandler
import signal
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def telling_stacks() -> Iterator[None]:
    """Print stacks on SIGUSR2 within the context, unless the program handles that signal."""
    stream = sys.__stderr__
    is_ours = stream is not None and signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL
    if is_ours and stream is not None:
        # Without a usable stream, nothing is printed.
        try:
            faulthandler.register(signal.SIGUSR2, stream, all_threads=True)
        except (ValueError, OSError, RuntimeError):
            is_ours = False
    try:
        yield
    finally:
        if is_ours:
            faulthandler.unregister(signal.SIGUSR2)
