"""Process-wide settings that a training needs, restored at its end."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch

from tarmac.machine import Device, read_limits
from tarmac.training.plan import Plan

_T = TypeVar("_T")


@contextlib.contextmanager
def denormals_flushed() -> Iterator[None]:
    """Make the CPU treat denormal numbers as zero, as TensorFlow does in its own threads.

    The squared gradients of weights that see no input decay to denormals, on which a CPU is many
    times slower: RMSprop's step on MNIST went from 0.4 to 1.0 ms within two epochs. PyTorch's
    threads inherit the mode from the thread that starts them. So enter this context before the
    first operation that is large enough for several threads.
    """
    before = _flushes_denormals()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def _flushes_denormals() -> bool:
    """Return the mode by its effect, as PyTorch sets the mode but cannot return it."""
    return bool(torch.tensor(1e-310, dtype=torch.float64).mul(1) == 0)


@contextlib.contextmanager
def threads_within_limits() -> Iterator[None]:
    """Limit the threads to the cores of this process's control group quota.

    PyTorch starts one thread for each core of the machine. Threads that wait for each other while
    the kernel holds some of them back are slower than fewer threads: 1000 samples of mnist-dense
    for 3 epochs took 20 s with 2 threads within a quota of one core, and 3.4 s with one. A pod with
    a fifth of a core on a machine of 64 would get 64 threads. If the user has set
    ``OMP_NUM_THREADS``, that number stays.
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
    """Set PyTorch up for a plan, and restore the caller's random state and modes at the end.

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
    """Make the first GPU current, on which streams, events and graphs are created."""
    return torch.cuda.device(indices[0]) if indices else contextlib.nullcontext()


@contextlib.contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """Set the threads of operations on the CPU; None for PyTorch's default."""
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
    """Compute fp32 matrix products and convolutions in TF32, or in IEEE fp32.

    PyTorch's defaults are IEEE for products and TF32 for convolutions. PyTorch has two generations
    of switches. Reading one fails if the other contradicts it, and the compiler reads both. So this
    sets both.
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
    """Return the value of a first-generation switch; None if the second contradicts it."""
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
    """Make operations with varying bits raise an error, if that is requested."""
    # `use_deterministic_algorithms` would import the compiler, which takes seconds.
    mode = torch.get_deterministic_debug_mode()
    memory: Any = torch.utils.deterministic  # PyTorch does not declare its switch
    fill = memory.fill_uninitialized_memory
    if on:
        # cuBLAS reads this when it creates its handle; see PyTorch's notes on reproducibility.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.set_deterministic_debug_mode("error")
        # Otherwise PyTorch fills each empty tensor first: 15 more launches in a step of mnist-mlp,
        # for memory that Tarmac always writes before it reads.
        memory.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(mode)
        memory.fill_uninitialized_memory = fill
