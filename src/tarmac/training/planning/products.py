"""Measure how much faster this CPU computes matrix products in bf16 than in fp32, and cache it.

CPU flags do not predict the speed. AMX makes bf16 several times as fast. AVX512_BF16 makes it two
to four times as fast on some processors and hardly faster on others. Without either, PyTorch
emulates bf16, which is slower.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import platform
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import platformdirs
import torch
import torch.nn.functional as F

from tarmac.errors import TarmacError
from tarmac.files import parse_json, write_json
from tarmac.machine import Device, read_cpuinfo
from tarmac.training.engine.linear import fast_linear, mkl_is_held_back

# [rows, inputs] x [outputs, inputs]: a layer of 512 on a batch of 128, and its weights' gradient.
_SHAPES = ((128, 512, 512), (512, 128, 512))

# Some 15 ms in all. The minimum counts, as other work can only slow a measurement.
_ROUNDS = 7

# Environment variables that make PyTorch's libraries use other instructions.
_VARIABLES = ("ATEN_CPU_CAPABILITY", "DNNL_MAX_CPU_ISA", "MKL_CBWR", "ONEDNN_MAX_CPU_ISA")


def bf16_speedup(device: Device, cache: Path | None = None) -> float:
    """Return the speed of bf16 products on the CPU over that of fp32 products.

    Args:
        device: CPU to measure, whose name is part of the cache's key.
        cache: Directory of the cached measurements; by default in the user's cache. If it cannot be
            written, the next call measures again.
    """
    path = (cache or platformdirs.user_cache_path("tarmac") / "products") / f"{_key(device)}.json"
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        known = float(parse_json(path.read_text(encoding="utf-8"))["bf16_speedup"])
        if math.isfinite(known) and known > 0:
            return known
    # Round before the decision, so that the printed value and the cached value are the same.
    speedup = round(measure_bf16_speedup(), 2)
    with contextlib.suppress(OSError, TarmacError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"cpu": device.name, "torch": torch.__version__, "bf16_speedup": speedup})
    return speedup


def measure_bf16_speedup() -> float:
    """Measure products of both precisions in turn, as trainings compute them, on one thread.

    With several threads, the slowest determines the time. A thread slowed by other work would
    distort the measurement.
    """
    fp32_linear = fast_linear if mkl_is_held_back() else F.linear
    fp32_s = bf16_s = 0.0
    with _one_thread(), torch.no_grad():
        for rows, inputs, outputs in _SHAPES:
            wide = torch.ones(rows, inputs), torch.ones(outputs, inputs)
            half = wide[0].bfloat16(), wide[1].bfloat16()
            fp32_linear(*wide), F.linear(*half)
            times = [(_time(fp32_linear, *wide), _time(F.linear, *half)) for _ in range(_ROUNDS)]
            fp32_s += min(fp32 for fp32, _ in times)
            bf16_s += min(bf16 for _, bf16 in times)
    return fp32_s / bf16_s


def _time(
    linear: Callable[..., torch.Tensor], inputs: torch.Tensor, weights: torch.Tensor
) -> float:
    started = time.perf_counter()
    linear(inputs, weights)
    return time.perf_counter() - started


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _key(device: Device) -> str:
    facts = (
        platform.machine(),
        device.name,
        sorted(read_cpuinfo().get("flags", "").split()),
        torch.__version__,
        mkl_is_held_back(),
        *(os.environ.get(name) for name in _VARIABLES),
    )
    return hashlib.blake2b(repr(facts).encode(), digest_size=12).hexdigest()
