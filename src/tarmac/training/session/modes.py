"""Process-wide switches that a training needs, set for its length and put back after it."""

from __future__ import annotations

import contextlib
import math
import os
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from tarmac.machine import read_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tarmac.machine import Device
    from tarmac.training.plan import Plan

_T = TypeVar("_T")


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
def threads_within_limits() -> Iterator[None]:
    """Compute with no more threads than this process has cores by its control group's quota.

    PyTorch starts one for each core of the machine, and threads that wait for each other while the
    kernel holds some of them back are slower than fewer: 1000 samples of mnist-dense for 3 epochs
    took 20 s with 2 threads within a quota of one core, and 3.4 s with one. In a pod with a fifth
    of a core on a machine of 64 it is 64 threads. Where ``OMP_NUM_THREADS`` is set the user has
    decided.
    """
    before = torch.get_num_threads()
    most = max(1, math.ceil(read_limits().cpus))
    if most >= before or "OMP_NUM_THREADS" in os.environ:
        yield
        return
    torch.set_num_threads(most)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def training_environment(plan: Plan, devices: Sequence[Device]) -> Iterator[None]:
    """Set PyTorch up for a plan, and give the caller's random state and modes back at the end.

    Args:
        plan: Training plan, which sets the precision, cuDNN's autotuning and determinism.
        devices: Devices on which this process computes.
    """
    indices = [device.index for device in devices if device.index is not None]
    with (
        torch.random.fork_rng(devices=indices),
        _current(indices),
        _fp32_products(tf32=plan.precision == "tf32"),
        _cudnn_autotune(on=plan.autotune),
        _determinism(on=plan.deterministic),
        _threads(plan.threads),
    ):
        yield


def _current(indices: Sequence[int]) -> contextlib.AbstractContextManager[object]:
    """Make the first GPU the current one, on which streams, events and graphs are made."""
    return torch.cuda.device(indices[0]) if indices else contextlib.nullcontext()


@contextlib.contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """Let operations on the CPU take a number of threads; None for what PyTorch takes."""
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        if count is not None:
            torch.set_num_threads(before)


@contextlib.contextmanager
def _fp32_products(*, tf32: bool) -> Iterator[None]:
    """Compute fp32's matrix products and convolutions in TF32, or in IEEE fp32.

    PyTorch's defaults are IEEE for products and TF32 for convolutions. There are switches of two
    generations, each of which refuses to be read where the other says something else, and the
    compiler reads both: so both are set.
    """
    backends: Any = torch.backends  # PyTorch does not declare these switches
    cudnn, mkldnn = backends.cudnn, backends.mkldnn
    convolutions = (cudnn.conv, cudnn.rnn, mkldnn.conv, mkldnn.rnn)
    products = (backends.cuda.matmul, mkldnn.matmul)
    before = [(switch, switch.fp32_precision) for switch in (*products, *convolutions)]
    products_before = _readable(torch.get_float32_matmul_precision)
    convolutions_before = _readable(lambda: cudnn.allow_tf32)
    try:
        torch.set_float32_matmul_precision("high" if tf32 else "highest")
        cudnn.allow_tf32 = tf32
        for switch in convolutions:
            switch.fp32_precision = "tf32" if tf32 and switch in convolutions[:2] else "ieee"
        yield
    finally:
        if products_before is not None:
            torch.set_float32_matmul_precision(products_before)
        if convolutions_before is not None:
            cudnn.allow_tf32 = convolutions_before
        for switch, precision in before:
            switch.fp32_precision = precision


def _readable(read: Callable[[], _T]) -> _T | None:
    """Return what a switch of the first generation says, None where the second contradicts it."""
    try:
        return read()
    except RuntimeError:
        return None


@contextlib.contextmanager
def _cudnn_autotune(*, on: bool) -> Iterator[None]:
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = on
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


@contextlib.contextmanager
def _determinism(*, on: bool) -> Iterator[None]:
    """Let an operation whose bits may differ be an error, where that is asked for."""
    # As a mode: `use_deterministic_algorithms` imports the compiler, which takes seconds.
    mode = torch.get_deterministic_debug_mode()
    memory: Any = torch.utils.deterministic  # PyTorch does not declare its switch
    fill = memory.fill_uninitialized_memory
    if on:
        # cuBLAS reads this when it makes its handle; PyTorch's notes on reproducibility.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.set_deterministic_debug_mode("error")
        # Else each empty tensor is filled first: 15 more launches in a step of mnist-mlp, for
        # memory that nothing of ours reads before it is written.
        memory.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(mode)
        memory.fill_uninitialized_memory = fill
