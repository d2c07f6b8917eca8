"""Calls functions in forks that are killed at a call of the file system.

number = 0
while killed_at(number := number + 1, lambda: write_text(path, "new")):
    assert path.read_text() in ("old", "new")
"""

from __future__ import annotations

import os
from collections.abc import Callable

_CALLS = ("fsync", "link", "mkdir", "rename", "replace", "rmdir", "unlink", "ftruncate")

_KILLED = 99


def killed_at(number: int, action: Callable[[], object]) -> bool:
    """Call a function in a fork that ends before its n-th change of names or wait for the disk.

    Args:
        number: From 1.
        action: The function.

    Returns:
        Whether it came to that call; else the function has returned.
    """
    if pid := os.fork():
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code in (0, _KILLED)
        return code == _KILLED
    left = number

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            nonlocal left
            left -= 1
            if not left:
                os._exit(_KILLED)
            return real(*arguments, **options)

        return call

    try:
        for name in _CALLS:
            setattr(os, name, counted(getattr(os, name)))
        action()
    except BaseException:
        os._exit(1)
    os._exit(0)
