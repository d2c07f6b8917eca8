"""Sample the GPUs and the host of a training every few seconds, in a thread beside the training.

One process samples each host. With `ddp` in Tarmac's own workers that is the launcher, which does
not train. Under torchrun and other launchers it is the first rank on each host, with a file of its
own; see `tarmac.runs.read_all_samples`. Values that cannot be read are left out. If the file cannot
be written, for example on a full disk, samples are lost but the training continues.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Any

from tarmac import runs
from tarmac.errors import TarmacError
from tarmac.machine import (
    Device,
    HostReader,
    LiveGpu,
    LiveHost,
    LiveReader,
    NvmlProblem,
    open_live_reader,
)
from tarmac.runs import Run, SampleFile, samples_path
from tarmac.training.session.gpu_meter import GpuMeter

INTERVAL_S = 5.0

# Seconds to wait for the thread. A GPU with no answer must not keep a training from ending.
_PATIENCE_S = 3.0

_FACTS = ("uuid", "index", "name", "power_limit_watts", "memory_total_bytes", "max_sm_clock_mhz")


class Sampler:
    """A sampler that runs within its context, and does not block on a driver's calls.

    Args:
        run: Run to store the samples in; without its directory, nothing is sampled.
        uuids: UUIDs of the GPUs to sample; if empty, only the host is sampled.
        is_on: Whether to sample at all.
        rank: Global rank of the first process on this host.
        interval_s: Seconds to wait between two readings.
        open_gpus: Function that opens a reader of the GPUs.
        open_host: Function that opens a reader of the host.

    Attributes:
        steps: Number of steps since the training's beginning, set by the training; None before.
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
        # Use the monotonic clock, so that a change of the system time does not move the axis.
        age_s = (runs.now() - run.record.created_at).total_seconds()
        self._zero = time.monotonic() - max(age_s, 0.0)
        self._is_over = threading.Event()
        self._writing = threading.Lock()
        self._file: SampleFile | None = None
        self._is_closed = False
        self._thread: threading.Thread | None = None
        if is_on:
            # A daemon, so that the process can end without waiting for the thread.
            self._thread = threading.Thread(target=self._work, name="tarmac-samples", daemon=True)

    def __enter__(self) -> Sampler:
        """Start the thread."""
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the thread."""
        self.stop()

    def stop(self) -> None:
        """Take a last reading and stop; further calls do nothing."""
        self._is_over.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join(_PATIENCE_S)
        with self._writing:
            # A thread that still waits for a driver must not write any more.
            self._is_closed = True
            self._file = None

    def workers_lost(self, reason: str) -> None:
        """Record that workers were lost and all restart from a checkpoint."""
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
            # Take a first and a last reading, however short the training is.
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
        """Open the file; return the GPUs' earlier counts, or None if it cannot be used."""
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
