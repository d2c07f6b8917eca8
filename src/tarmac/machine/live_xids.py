"""Errors (Xids) as NVIDIA's driver tells of them to whoever listens, with no right to a log."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
from datetime import UTC, datetime

import pynvml

__all__ = ["XidReader", "XidSeen"]

# A card that is broken may say so for ever.
_MOST = 100


@dataclasses.dataclass(frozen=True)
class XidSeen:
    """An error of a GPU.

    Attributes:
        number: NVIDIA's.
        gpu_uuid: Of which GPU; None where it no longer tells.
        at: When it was heard of, UTC.
    """

    number: int
    gpu_uuid: str | None
    at: datetime


class XidReader:
    """Listens from its first reading on; for one thread.

    Args:
        num_gpus: How many GPUs the driver has.
    """

    def __init__(self, num_gpus: int) -> None:
        self._num_gpus = num_gpus
        self._events: pynvml.c_nvmlEventSet_t | None = None
        self._is_deaf = False
        self._uuids: dict[int, str] = {}

    def read(self) -> tuple[XidSeen, ...]:
        """Return what was told since the last reading; nothing where the driver has no events."""
        if self._events is None and not self._is_deaf:
            self._listen()
        seen: list[XidSeen] = []
        while self._events is not None and len(seen) < _MOST:
            try:
                event = pynvml.nvmlEventSetWait_v2(self._events, 0)
            except pynvml.NVMLError:
                # Nothing more, or nobody who could tell.
                break
            if event.eventType & pynvml.nvmlEventTypeXidCriticalError:
                uuid = self._uuid_of(event.device)
                seen.append(XidSeen(int(event.eventData), uuid, datetime.now(UTC)))
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
                # A GPU that is lost no longer tells its name.
                self._uuids[_place(handle)] = pynvml.nvmlDeviceGetUUID(handle)
        self._is_deaf = self._events is None

    def _uuid_of(self, handle: pynvml.c_nvmlDevice_t) -> str | None:
        return self._uuids.get(_place(handle))


def _place(handle: pynvml.c_nvmlDevice_t) -> int:
    """Return where a handle points to, which is all that there is to compare."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
