"""Early work for a training while PyTorch is imported: reading data, starting the GPU's driver."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.data import Dataset, Loader, Progress


@contextlib.contextmanager
def prefetching(workload: str | None, *, devices: str, strategy: str) -> Iterator[Loader]:
    """Read a workload's data and start the driver, in threads.

    The data are known only after the workload and PyTorch are imported. They are guessed instead:
    names of reference workloads begin with their dataset, such as ``mnist-mlp``.

    Args:
        workload: Workload to train. None for a resumed or extended run, whose record names it.
        devices: Value of ``--devices``. A value that begins with ``cpu`` leaves the driver alone.
        strategy: Value of ``--strategy``. Only ``auto`` and ``single`` can compute in this process.

    Yields:
        A function that loads a dataset, and returns the data read early if they are the right ones.
    """
    with ThreadPoolExecutor(2, "tarmac-ahead") as threads:
        if workload is not None and _may_use_cuda(devices):
            threads.submit(_wake, with_context=_computes_here(devices, strategy))
        likely = None if workload is None else workload.partition("-")[0]
        reading = threads.submit(_read, likely) if likely else None

        def load(name: str, *, progress: Progress | None = None) -> Dataset:
            from tarmac import data

            dataset = reading.result() if reading is not None and name == likely else None
            return dataset or data.load(name, progress=progress)

        yield load


def _read(name: str) -> Dataset | None:
    """Load a dataset if it exists and is complete on this machine; return None if not."""
    from tarmac import data

    states = {status.name: status.state for status in data.describe()}
    if states.get(name) not in ("embedded", "present"):
        return None
    dataset = data.load(name)
    # Computed here for the run's record; the dataset keeps it.
    assert dataset.fingerprint
    return dataset


def _wake(*, with_context: bool) -> None:
    from tarmac.machine import wake_driver

    wake_driver(with_context=with_context)


def _may_use_cuda(devices: str) -> bool:
    """Return whether training may use a GPU, by a PyTorch that is built for GPUs."""
    spec = importlib.util.find_spec("torch")
    if devices.startswith("cpu") or spec is None or spec.origin is None:
        return False
    return (Path(spec.origin).parent / "lib" / "libtorch_cuda.so").exists()


def _computes_here(devices: str, strategy: str) -> bool:
    """Return whether this process would compute on the GPU, if there is only one."""
    is_alone = "WORLD_SIZE" not in os.environ
    return (
        is_alone and devices in ("auto", "1", "cuda", "cuda:0") and strategy in ("auto", "single")
    )
