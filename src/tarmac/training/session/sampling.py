"""Samples the GPUs and the host of a training every few seconds, in a thread beside it.

The process that leads does it for its host: with `ddp` in workers of Tarmac's own that is the
launcher, which computes nothing. Under torchrun and its like the first rank on each host does, into
a file of its own; see `tarmac.runs.read_all_samples`. What cannot be read is left out, and a file
that cannot be written, on a full disk for one, loses points and stops nothing.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from tarmac import runs
from tarmac.errors import TarmacError
from tarmac.machine import HostReader, NvmlProblem, open_live_reader
from tarmac.runs import SampleFile, samples_path
from tarmac.training.session.gpu_meter import GpuMeter

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from types import TracebackType

    from tarmac.machine import Device, LiveGpu, LiveHost, LiveReader
    from tarmac.runs import Run

INTERVAL_S = 5.0

# A GPU that does not answer must not keep a training from ending.
_PATIENCE_S = 3.0

_FACTS = ("uuid", "index", "name", "power_limit_watts", "memory_total_bytes", "max_sm_clock_mhz")


class Sampler:
    """Samples while it is entered; entering and leaving wait for nothing that a driver does.

    Args:
        run: Run to store the samples in; without its directory, nothing is sampled.
        uuids: UUIDs of the GPUs to sample; if empty, the host alone is sampled.
        is_on: Whether to sample at all.
        rank: The first one on this host.
        interval_s: Seconds to wait between two readings.
        open_gpus: Opens what reads GPUs.
        open_host: Opens what reads the host.

    Attributes:
        steps: Done so far since the training's beginning, as whoever trains last said; None before.
    """

    def __init__(
        self,
        run: Run,
        uuids: Collection[str],
        *,
        is_on: bool = True,
        rank: int = 0,
        interval_s: float = INTERVAL_S,
        open_gpus: Callable[[], LiveReader | NvmlProblem] = open_live_reader,
        open_host: Callable[[], HostReader] = HostReader,
    ) -> None:
        self.steps: int | None = None
        self._path = samples_path(run.path, rank)
        self._uuids = frozenset(uuids)
        self._interval_s = interval_s
        self._open_gpus = open_gpus
        self._open_host = open_host
        # A clock that is set while the training goes on does not move its axis.
        age_s = (runs.now() - run.record.created_at).total_seconds()
        self._zero = time.monotonic() - max(age_s, 0.0)
        self._is_over = threading.Event()
        self._writing = threading.Lock()
        self._file: SampleFile | None = None
        self._is_closed = False
        self._thread: threading.Thread | None = None
        if is_on:
            # A daemon: whatever ends the process need not wait for it.
            self._thread = threading.Thread(target=self._work, name="tarmac-samples", daemon=True)

    def __enter__(self) -> Sampler:
        """Begin."""
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End."""
        self.stop()

    def stop(self) -> None:
        """Take a last reading and end; again, do nothing."""
        self._is_over.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join(_PATIENCE_S)
        with self._writing:
            # A thread that still waits for a driver comes too late.
            self._is_closed = True
            self._file = None

    def workers_lost(self, reason: str) -> None:
        """Note that workers were lost, and all begin again from a checkpoint."""
        self._write(lambda file: file.note("workers_lost", self._now_s(), text=reason))

    def _work(self) -> None:
        host = self._open_host()
        with contextlib.ExitStack() as opened:
            gpus: LiveReader | None = None
            if self._uuids:
                reader = self._open_gpus()
                if not isinstance(reader, NvmlProblem):
                    gpus = reader
                    opened.callback(reader.close)
            self._sample(host, gpus)

    def _sample(self, host: HostReader, gpus: LiveReader | None) -> None:
        meters: dict[str, GpuMeter] | None = None
        while True:
            # However short it was, there is a first reading and a last.
            is_last = meters is not None and self._is_over.is_set()
            own = [gpu for gpu in gpus.read() if gpu.uuid in self._uuids] if gpus else []
            seen, at_s = host.read(), self._now_s()
            if meters is None:
                counted = self._begin(at_s, seen, own)
                if counted is None:
                    return
                meters = {uuid: GpuMeter(counted.get(uuid, {})) for uuid in self._uuids}
            rows = {gpu.uuid: meters[gpu.uuid].row(at_s, gpu) for gpu in own}
            values = {**_of_host(seen), "steps": self.steps}
            self._write(partial(SampleFile.add, at_s=at_s, host=values, gpus=rows))
            if is_last:
                self._write(SampleFile.flush)
                self._write(lambda file: file.note("end", self._now_s()))
                return
            self._is_over.wait(self._interval_s)

    def _begin(
        self, at_s: float, host: LiveHost, gpus: Iterable[LiveGpu]
    ) -> Mapping[str, Mapping[str, Any]] | None:
        """Open the file; return what the GPUs have counted before, None where it cannot be read."""
        facts = [{name: getattr(gpu, name) for name in _FACTS} for gpu in gpus]
        with self._writing, contextlib.suppress(TarmacError):
            if self._is_closed or not self._path.parent.is_dir():
                return None
            self._file = file = SampleFile(self._path)
            file.note(
                "session",
                at_s,
                host=host.name,
                pid=os.getpid(),
                interval_s=self._interval_s,
                cpu_count=host.cpu_count,
                memory_total_bytes=host.memory_total_bytes,
                gpus=facts,
            )
        return None if self._file is None else self._file.counted

    def _write(self, write: Callable[[SampleFile], None]) -> None:
        with self._writing, contextlib.suppress(TarmacError):
            if self._file is not None:
                write(self._file)

    def _now_s(self) -> float:
        return time.monotonic() - self._zero


def uuids_of(devices: Iterable[Device]) -> set[str]:
    """Return the UUIDs of the GPUs among some devices."""
    return {device.uuid for device in devices if device.uuid is not None}


def _of_host(host: LiveHost) -> dict[str, float | None]:
    return {
        "cpu_ratio": host.cpu_ratio,
        "memory_used_bytes": host.memory_used_bytes,
        "throttled_ratio": host.throttled_ratio,
    }
