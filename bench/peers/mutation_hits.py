"""Records which test reaches which mutant's line.

A probe of `mutation.py map` runs this file in each process that reaches a line first, with ``SITE``
and ``PLACE``. A worker of pytest writes the number of its current test into a file of 8 bytes,
which this maps into memory; child processes find it by a variable, or by a parent where the
environment was cleared. So a server or a fork that outlives a test counts for the test that uses
it.
"""

from __future__ import annotations

import builtins
import mmap
import os
import struct
import sys

VARIABLE = "MUTATION_CURRENT"
# Tests replace functions of `os`.
_open, _write, _close, _getpid = os.open, os.write, os.close, os.getpid


class Recorder:
    """Appends ``test site is_import`` to a file, once per process."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.process = _getpid()
        self.reached: set[tuple[int, int]] = set()
        self.current: mmap.mmap | None = None
        self.path = os.environ.get(VARIABLE) or self.of_parent()

    def of_parent(self) -> str:
        """Return the file of the closest parent that is a worker, or an empty string."""
        pid = os.getppid()
        while pid > 1:
            path = f"{self.place}/current/{pid}"
            if os.path.exists(path):
                return path
            try:
                with open(f"/proc/{pid}/stat") as file:
                    pid = int(file.read().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                break
        return ""

    def hit(self, site: int) -> None:
        """Record that the current test has reached a site."""
        try:
            if self.process != _getpid():
                # Workers share servers that fork: the child has the variables of its own worker.
                self.__init__(self.place)
            if self.current is None:
                if not self.path:
                    return
                with open(self.path, "rb") as file:
                    self.current = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
            (test,) = struct.unpack("Q", self.current[:8])
            if (test, site) in self.reached:
                return
            self.reached.add((test, site))
            frame, is_import = sys._getframe(1), 0
            while frame is not None and not is_import:
                is_import = int(frame.f_code.co_filename.startswith("<frozen importlib"))
                frame = frame.f_back
            file = _open(f"{self.place}/hits.txt", os.O_WRONLY | os.O_APPEND)
            _write(file, f"{test} {site} {is_import}\n".encode())
            _close(file)
        except (OSError, ValueError):
            self.path, self.current = "", None


SITE, PLACE = globals()["SITE"], globals()["PLACE"]
builtins.mutation_hit = Recorder(PLACE).hit
builtins.mutation_hit(SITE)
