"""Process-wide switches that a training needs, set for its length and put back after it."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tarmac.machine import Device
    from tarmac.training.plan import Plan

__all__ = ["denormals_flushed", "training_environment"]


@contextlib.contextmanager
def denormals_flushed() -> Iterator[None]:
    """Let the CPU treat denormal numbers as zero, as TensorFlow does in its own threads.

    The squared gradients of weights that see no input decay to denormals, on which a CPU is many
    times slower: RMSprop's step on MNIST went from 0.4 to 1.0 ms within two epochs. PyTorch's
    threads take the mode over from the thread that starts them, so this must come before the first
    operation that is large enough for several.
    """
    before = _flushes_denormals()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def _flushes_denormals() -> bool:
    """Find the mode by its effect: PyTorch sets it, but does not tell it."""
    return bool(torch.tensor(1e-310, dtype=torch.float64).mul(1) == 0)


@contextlib.contextmanager
def training_environment(plan: Plan, devices: Sequence[Device]) -> Iterator[None]:
    """Set PyTorch up for a plan, and give the caller's random state and modes back at the end.

    Args:
        plan: What will be done.
        devices: Those that this process computes on.
    """
    indices = [device.index for device in devices if device.index is not None]
    # As a mode: `use_deterministic_algorithms` imports the compiler, which takes seconds.
    determinism = torch.get_deterministic_debug_mode()
    benchmark = torch.backends.cudnn.benchmark
    try:
        with torch.random.fork_rng(devices=indices), _current(indices):
            torch.backends.cudnn.benchmark = not plan.deterministic
            if plan.deterministic:
                # cuBLAS reads this when it makes its handle; PyTorch's notes on reproducibility.
                os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
                torch.set_deterministic_debug_mode("error")
            yield
    finally:
        torch.set_deterministic_debug_mode(determinism)
        torch.backends.cudnn.benchmark = benchmark


def _current(indices: Sequence[int]) -> contextlib.AbstractContextManager[object]:
    """Make the first GPU the current one, on which streams, events and graphs are made."""
    return torch.cuda.device(indices[0]) if indices else contextlib.nullcontext()
