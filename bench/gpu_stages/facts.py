"""The machine: names, limits, the ceilings of copies and products, the latencies of launches.

Ceilings are what a program reaches, not what a data sheet says. All times are medians.
"""

from __future__ import annotations

import os
import statistics
import time
from typing import TYPE_CHECKING, Any

from _harness import machine_facts, table

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_stages._report import Report


def run(report: Report) -> None:
    """Measure; every part stands alone."""
    started = time.perf_counter()
    import torch

    report.keep("import_torch_s", round(time.perf_counter() - started, 2))
    started = time.perf_counter()
    torch.ones(1, device="cuda").add_(1).cpu()
    report.keep("context_s", round(time.perf_counter() - started, 2))
    with report.part("machine"):
        report.keep("machine", machine_facts() | _versions())
    with report.part("ceilings"):
        report.keep("ceilings", _ceilings())
    with report.part("latencies"):
        report.keep("latencies_us", _latencies())
    with report.part("fsync"):
        report.keep("fsync_ms", _fsync_ms(report))
    rows = [
        [name, str(value)]
        for part in ("ceilings", "latencies_us")
        for name, value in report.result.get(part, {}).items()
    ]
    report.page("facts", report.result, table(["measured", "value"], rows))


def _versions() -> dict[str, Any]:
    import torch

    properties = torch.cuda.get_device_properties(0)
    found = {
        "compute_capability": f"{properties.major}.{properties.minor}",
        "multiprocessors": properties.multi_processor_count,
        "l2_mib": getattr(properties, "L2_cache_size", 0) / 2**20,
        "architectures": torch.cuda.get_arch_list(),
        "cudnn": torch.backends.cudnn.version(),
    }
    try:
        found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    except (RuntimeError, AttributeError) as error:
        found["nccl"] = str(error)
    try:
        import triton

        found["triton"] = triton.__version__
    except ImportError as error:
        found["triton"] = str(error)
    return found


def _gpu_s(function: Callable[[], object], repeats: int = 10) -> float:
    """Return a call's median time on the GPU, by its own clock."""
    import torch

    for _ in range(3):
        function()
    times = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        function()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1000)
    # Clocks of a stand-in stand still.
    return statistics.median(times) or float("nan")


def _ceilings() -> dict[str, float]:
    import torch

    found = {}
    free, _ = torch.cuda.mem_get_info()
    size = min(4 * 2**30, free // 4)
    source = torch.empty(size, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    # Read and written.
    found["copy TB/s"] = round(2 * size / _gpu_s(lambda: target.copy_(source)) / 1e12, 3)
    target = source = torch.empty(0)
    torch.cuda.empty_cache()
    n = 8192
    for name, dtype, tf32 in (
        ("bf16", torch.bfloat16, False),
        ("fp16", torch.float16, False),
        ("tf32", torch.float32, True),
        ("fp32", torch.float32, False),
    ):
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = tf32
        try:
            a, b = (torch.randn(n, n, device="cuda").to(dtype) for _ in range(2))
            seconds = _gpu_s(lambda a=a, b=b: a @ b)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before
        found[f"{name} {n} TFLOP/s"] = round(2 * n**3 / seconds / 1e12, 1)
    return found


def _latencies() -> dict[str, float]:
    import torch

    one = torch.zeros(1, device="cuda")
    found = {"eager launch, host": round(_host_us(lambda: one.add_(1), 2000), 2)}
    for count in (1, 43, 700):
        graph = _recorded(lambda count=count: [one.add_(1) for _ in range(count)])
        found[f"graph of {count}, per node"] = round(1e6 * _gpu_s(graph.replay, 50) / count, 3)
        found[f"graph of {count}, host"] = round(_host_us(graph.replay, 200), 2)
    x = torch.randn(128, 784, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(784, 512, device="cuda", dtype=torch.bfloat16)
    out = torch.empty(128, 512, device="cuda", dtype=torch.bfloat16)
    product = _recorded(lambda: [torch.mm(x, w, out=out) for _ in range(50)])
    found["[128, 784] x [784, 512] bf16 in a graph"] = round(1e6 * _gpu_s(product.replay) / 50, 3)
    return found


def _recorded(function: Callable[[], object]) -> Any:
    import torch

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph


def _host_us(function: Callable[[], object], repeats: int) -> float:
    """Return what a call costs the host while the GPU keeps up."""
    import torch

    for _ in range(10):
        function()
    torch.cuda.synchronize()
    times = []
    for _ in range(7):
        started = time.perf_counter()
        for _ in range(repeats):
            function()
        times.append((time.perf_counter() - started) / repeats)
        torch.cuda.synchronize()
    return 1e6 * statistics.median(times)


def _fsync_ms(report: Report) -> float:
    times = []
    for _ in range(20):
        with (report.scratch / "fsync").open("wb") as file:
            file.write(b"x" * 2**20)
            started = time.perf_counter()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - started)
    return round(1000 * statistics.median(times), 3)
