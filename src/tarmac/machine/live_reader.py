"""Repeated readings of all GPUs: NVIDIA's by NVML, AMD's by the kernel's files.

The driver is started once. Each GPU is queried in a separate thread. If a GPU hangs, as the driver
does when a card is lost, its row has an error, and the other GPUs go on.

Example:
    >>> reader = open_live_reader()
    >>> if not isinstance(reader, NvmlProblem):
    ...     with reader:
    ...         gpus = reader.read()
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import pynvml

from tarmac.machine.asking import Asker, NoAnswerError
from tarmac.machine.live import LiveGpu
from tarmac.machine.live_amd import AmdReader
from tarmac.machine.live_nvml import NvmlCard
from tarmac.machine.live_xids import XidReader, XidSeen
from tarmac.machine.nvml_calls import NvmlProblem, NvmlStart, start_nvml
from tarmac.machine.pids import sees_all_processes

# Without persistence mode, the driver's start initializes each card, which takes seconds.
_START_S = 10.0


@dataclasses.dataclass
class _Watched:
    """A GPU, or all AMD GPUs: the thread that queries, and the last answer."""

    asker: Asker[tuple[LiveGpu, ...]]
    known: tuple[LiveGpu, ...]


class LiveReader:
    """A reader of all GPUs, for one thread at a time.

    Attributes:
        driver_version: Version of NVIDIA's driver. None if it is absent or unknown.
        problem: Reason why NVML does not start, on a machine with AMD's cards; None if it starts.

    Args:
        start: The started NVML, or the problem of starting it.
        amd: Reader of AMD's cards. It may find none.
        sees_all: Whether the driver's PIDs are valid in this process's PID namespace.
        patience_s: Maximum duration of a reading in seconds.
        clock: Monotonic clock in seconds; for tests.
    """

    def __init__(
        self,
        start: NvmlStart | NvmlProblem,
        amd: AmdReader,
        *,
        sees_all: bool,
        patience_s: float,
        clock: Callable[[], float],
    ) -> None:
        self.problem = start if isinstance(start, NvmlProblem) else None
        self.driver_version = None if isinstance(start, NvmlProblem) else start.version
        num_gpus = 0 if isinstance(start, NvmlProblem) else start.num_gpus
        self._patience_s = patience_s
        self._gpus = [
            _Watched(
                Asker(NvmlCard(index, sees_all=sees_all, clock=clock).read, clock),
                (LiveGpu(index=index, uuid=f"nvidia:{index}", name="NVIDIA GPU"),),
            )
            for index in range(num_gpus)
        ]
        if amd.has_cards:
            self._gpus.append(_Watched(Asker(lambda _: amd.read(), clock), amd.cards))
        self._xids = Asker(XidReader(num_gpus).read, clock) if num_gpus else None

    def read(self, *, details: bool = False) -> tuple[LiveGpu, ...]:
        """Return the current values of all GPUs, each followed by its slices.

        A GPU that cannot be read, or gives no answer in time, has an `error`. It recovers by
        itself.

        Args:
            details: Whether to read PCIe's throughput too, which takes 40 ms. Default False.
        """
        for gpu in self._gpus:
            gpu.asker.ask(details)
        return tuple(row for gpu in self._gpus for row in self._answer(gpu))

    def new_xids(self) -> tuple[XidSeen, ...]:
        """Return the errors that NVIDIA's driver has reported since the last call."""
        if self._xids is None:
            return ()
        self._xids.ask()
        try:
            return self._xids.answer(self._patience_s)
        except NoAnswerError:
            return ()

    def close(self) -> None:
        """Release the driver."""
        askers = [gpu.asker for gpu in self._gpus]
        is_stuck = any(asker.is_open for asker in askers)
        for asker in askers:
            asker.close()
        if self._xids is not None:
            is_stuck = is_stuck or self._xids.is_open
            self._xids.close()
        self._gpus, self._xids = [], None
        if self.problem is None and not is_stuck:
            # With a hung driver this call would hang too; the driver ends with the process.
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _answer(self, gpu: _Watched) -> tuple[LiveGpu, ...]:
        try:
            gpu.known = gpu.asker.answer(self._patience_s)
        except NoAnswerError as silence:
            return tuple(_unread(known, _silence(silence)) for known in gpu.known)
        except (pynvml.NVMLError, OSError, ValueError) as error:
            return tuple(_unread(known, str(error)) for known in gpu.known)
        return gpu.known


def open_live_reader(
    *,
    root: Path = Path("/"),
    patience_s: float = 2.0,
    clock: Callable[[], float] = time.monotonic,
) -> LiveReader | NvmlProblem:
    """Return a reader of all GPUs, or NVML's problem if there is no other GPU.

    Args:
        root: Directory with ``proc`` and ``sys``; for tests.
        patience_s: Maximum duration of a reading in seconds. Default 2.
        clock: Monotonic clock in seconds; for tests.
    """
    try:
        start = start_nvml(_START_S)
    except NoAnswerError as silence:
        start = NvmlProblem(f"NVML: {_silence(silence)}", is_absence=False)
    amd = AmdReader(root, clock=clock)
    if isinstance(start, NvmlProblem) and not amd.has_cards:
        return start
    return LiveReader(
        start, amd, sees_all=sees_all_processes(root), patience_s=patience_s, clock=clock
    )


def _silence(silence: NoAnswerError) -> str:
    return f"the driver has not answered for {silence.silent_s:.0f} s"


def _unread(known: LiveGpu, error: str) -> LiveGpu:
    return LiveGpu(
        index=known.index,
        uuid=known.uuid,
        name=known.name,
        parent_uuid=known.parent_uuid,
        maker=known.maker,
        pci_address=known.pci_address,
        error=error,
    )
