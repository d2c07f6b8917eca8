"""Errors (Xids) from the events of NVIDIA's driver, which need no permission to read a log."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
from datetime import UTC, datetime

import pynvml

from tarmac.machine.nvml_calls import ask, pci_address

# Maximum number of errors per reading: a broken card may report errors without end.
_MAX_XIDS = 100


@dataclasses.dataclass(frozen=True)
class XidSeen:
    """An error (Xid) of a GPU.

    Attributes:
        number: Xid of the error, as NVIDIA numbers them.
        gpu_uuid: UUID of the GPU. None if the GPU is unknown.
        at: Time at which it was read, in UTC.
        pci_address: PCI address of the GPU, as the kernel writes it.
    """

    number: int
    gpu_uuid: str | None
    at: datetime
    pci_address: str | None = None


class XidReader:
    """A reader of errors from its first reading on, for a single thread.

    Args:
        num_gpus: Number of GPUs of the driver.
    """

    def __init__(self, num_gpus: int) -> None:
        self._num_gpus = num_gpus
        self._events: pynvml.c_nvmlEventSet_t | None = None
        self._is_deaf = False
        # UUID and address by the handle's pointer: a lost GPU no longer reports them.
        self._gpus: dict[int, tuple[str | None, str | None]] = {}

    def read(self) -> tuple[XidSeen, ...]:
        """Return the errors since the last reading; empty if the driver has no events."""
        if self._events is None and not self._is_deaf:
            self._listen()
        seen: list[XidSeen] = []
        while self._events is not None and len(seen) < _MAX_XIDS:
            try:
                event = pynvml.nvmlEventSetWait_v2(self._events, 0)
            except pynvml.NVMLError:
                # There are no more events, or the driver fails.
                break
            if event.eventType & pynvml.nvmlEventTypeXidCriticalError:
                uuid, address = self._gpus.get(_place(event.device), (None, None))
                seen.append(XidSeen(int(event.eventData), uuid, datetime.now(UTC), address))
        return tuple(seen)

    def _listen(self) -> None:
        try:
            events = pynvml.nvmlEventSetCreate()
        except pynvml.NVMLError:
            self._is_deaf = True
            return
        for index in range(self._num_gpus):
            with contextlib.suppress(pynvml.NVMLError):
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                pynvml.nvmlDeviceRegisterEvents(
                    handle, pynvml.nvmlEventTypeXidCriticalError, events
                )
                self._events = events
                self._gpus[_place(handle)] = (
                    ask(pynvml.nvmlDeviceGetUUID, handle),
                    pci_address(ask(pynvml.nvmlDeviceGetPciInfo, handle)),
                )
        self._is_deaf = self._events is None


def _place(handle: pynvml.c_nvmlDevice_t) -> int:
    """Return the pointer of a handle, since handles have nothing else to compare."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
