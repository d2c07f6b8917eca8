"""Whether anything computes on the GPUs that a program has, while it runs."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tarmac.node.gpus import GpuUse

# A context of CUDA, without which nothing computes, takes some tenths of a second to be made.
_EVERY_S = 0.2

# A program that ends sooner may have used a GPU between two looks.
_FEWEST_LOOKS = 5

# A context takes some hundred MiB.
_CONTEXT_BYTES = 16 * 2**20

# A driver that takes longer to answer, as for a GPU that hangs, keeps no program waiting.
_PATIENCE_S = 2.0


class UnusedGpus:
    """Keeps which GPUs have not been used since a first look at them.

    A program has a context on a GPU from its first use of it to its end: its process is listed
    there, which the driver may hide from containers, and memory is in use, which it never hides;
    how much it computes is told of whole GPUs.

    Args:
        uses: What was in use at first.

    Attributes:
        looks: How often it was looked since.
    """

    def __init__(self, uses: Iterable[GpuUse]) -> None:
        self._before = {use.uuid: use for use in uses}
        self.looks = 0

    def __bool__(self) -> bool:
        """Whether any is left."""
        return bool(self._before)

    def look(self, uses: Iterable[GpuUse]) -> None:
        """Leave out what is used now, and what does not answer: that may have been used."""
        self.looks += 1
        now = {use.uuid: use for use in uses}
        self._before = {
            name: before
            for name, before in self._before.items()
            if name in now and not _is_used(before, now[name])
        }

    def names(self) -> list[str]:
        """Return those on which nothing computed; none where it was not looked often enough."""
        return [*self._before] if self.looks >= _FEWEST_LOOKS else []


class GpuWatch:
    """Watches GPUs that an attempt has alone, in a thread, until each is used.

    Args:
        names: What names them; pretended ones, whose names are no UUIDs, are not watched.
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
                # What is in use from here on may be the program's.
                self._is_over.set()

    def close(self, host: str) -> list[str]:
        """End; return a line for each GPU on which nothing was seen to compute.

        Args:
            host: The machine's name; empty for this one.
        """
        if not self._names:
            return []
        self._is_over.set()
        self._thread.join(_PATIENCE_S)
        if self._thread.is_alive():
            return []
        place = f" on {host}" if host else ""
        return [
            f"nothing was seen to compute on {name}{place}, which it was given: does its framework "
            "see GPUs? (tarmac check)"
            for name in self._unused.names()
        ]

    def _watch(self) -> None:
        from tarmac.node.nvml import reading_use  # noqa: PLC0415 - costs the start of others

        with reading_use(self._names) as read:
            self._unused = UnusedGpus(read())
            self._has_begun.set()
            while self._unused and not self._is_over.wait(_EVERY_S):
                start = time.monotonic()
                uses = read()
                # Whatever was used while the driver gave no answer was not seen.
                is_late = time.monotonic() - start > _PATIENCE_S
                self._unused.look(() if is_late else uses)


def _is_used(before: GpuUse, now: GpuUse) -> bool:
    has_come = not {*now.pids} <= {*before.pids}
    has_grown = now.used_bytes >= before.used_bytes + _CONTEXT_BYTES
    return has_come or has_grown or now.utilization > before.utilization
