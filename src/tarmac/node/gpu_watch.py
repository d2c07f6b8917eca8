"""A watch for unused GPUs while a program runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence

from tarmac.node.gpus import Gpu

# Any computation needs a CUDA context, whose creation takes some tenths of a second.
_EVERY_S = 0.2

# A shorter program may have used a GPU between two polls.
_FEWEST_LOOKS = 5

# Well below a CUDA context, which takes some hundred MiB.
_CONTEXT_BYTES = 16 * 2**20

# A slow driver, as with a GPU that hangs, must not delay the program longer than this.
_PATIENCE_S = 2.0


class UnusedGpus:
    """The GPUs that nothing has used since the first poll.

    A program has a context on a GPU from its first use to its end. The driver may hide the process
    from containers, but never the used memory. It reports utilization for whole GPUs only.

    Args:
        gpus: The GPUs at the first poll.

    Attributes:
        looks: Number of polls since the first.
    """

    def __init__(self, gpus: Iterable[Gpu]) -> None:
        self._before = {gpu.uuid: gpu for gpu in gpus}
        self.looks = 0

    def __bool__(self) -> bool:
        """Whether any GPU is still unused."""
        return bool(self._before)

    def look(self, gpus: Iterable[Gpu]) -> None:
        """Drop the GPUs that are in use, and those without an answer: they may be in use."""
        self.looks += 1
        now = {gpu.uuid: gpu for gpu in gpus}
        self._before = {
            name: before
            for name, before in self._before.items()
            if name in now and not _is_used(before, now[name])
        }

    def names(self) -> list[str]:
        """Return the names of the unused GPUs; none after fewer than 5 polls."""
        return [*self._before] if self.looks >= _FEWEST_LOOKS else []


class GpuWatch:
    """A thread that polls an attempt's exclusive GPUs until each has been used.

    Each watch opens the driver for itself. Kept open between tasks, it would prevent a reset of a
    GPU and a change of the driver, and a forked child could not use it. Watches at the same time
    share one start, which NVML counts.

    Args:
        names: UUIDs of the GPUs. Other names are of pretended GPUs, which are not watched.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = [name for name in names if name.startswith(("GPU-", "MIG-"))]
        self._unused = UnusedGpus(())
        self._has_begun = threading.Event()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="tarmac-gpu-watch", daemon=True)
        if self._names:
            self._thread.start()
            if not self._has_begun.wait(_PATIENCE_S):
                # A later first poll may already see the program's own use.
                self._is_over.set()

    def close(self, host: str) -> list[str]:
        """End the watch; return a line for each GPU without any use.

        Args:
            host: Name of the machine for the lines. Empty: leave it out.
        """
        if not self._names:
            return []
        self._is_over.set()
        self._thread.join(_PATIENCE_S)
        if self._thread.is_alive():
            return []
        place = f" on {host}" if host else ""
        return [
            f"no process was seen to compute on {name}{place}, which the task has: does its "
            "framework "
            "see GPUs? (tarmac check)"
            for name in self._unused.names()
        ]

    def _watch(self) -> None:
        from tarmac.node.nvml import reading_use  # noqa: PLC0415 - slows the start of others

        with reading_use(self._names) as read:
            self._unused = UnusedGpus(read())
            self._has_begun.set()
            while self._unused and not self._is_over.wait(_EVERY_S):
                start = time.monotonic()
                gpus = read()
                # A late answer may have missed uses of any GPU, so no GPU stays listed.
                is_late = time.monotonic() - start > _PATIENCE_S
                self._unused.look(() if is_late else gpus)


def _is_used(before: Gpu, now: Gpu) -> bool:
    has_come = not {*now.pids} <= {*before.pids}
    has_grown = now.used_bytes >= before.used_bytes + _CONTEXT_BYTES
    return has_come or has_grown or now.utilization > before.utilization
