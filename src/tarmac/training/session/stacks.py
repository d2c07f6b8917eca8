"""What all threads of a training do, printed where its log goes, whenever SIGUSR2 asks for it.

A training that hangs cannot be asked in any other way: Python runs no handler of its own while a
collective waits, but what `faulthandler` installs needs no Python.
"""

from __future__ import annotations

import contextlib
import faulthandler
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def telling_stacks() -> Iterator[None]:
    """Answer SIGUSR2 while the block lasts, unless the program has a use of its own for it."""
    stream = sys.__stderr__
    is_ours = stream is not None and signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL
    if is_ours and stream is not None:
        # Where there is nowhere to print to, nothing is printed.
        try:
            faulthandler.register(signal.SIGUSR2, stream, all_threads=True)
        except (ValueError, OSError, RuntimeError):
            is_ours = False
    try:
        yield
    finally:
        if is_ours:
            faulthandler.unregister(signal.SIGUSR2)
