"""Several GPUs: copies between them, sums over all of them, and trainings on one, two and all."""

from __future__ import annotations

import socket
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from _harness import table
from gpu_stages._report import Skip
from gpu_stages._tarmac import PEERS, need_mnist, run_json, train

if TYPE_CHECKING:
    from gpu_stages._report import Report


def run(report: Report) -> None:
    """Measure.

    Raises:
        Skip: There is one GPU.
    """
    import torch

    count = torch.cuda.device_count()
    if count < 2:
        raise Skip("there is one GPU")
    report.keep("gpus", count)
    with report.part("copies"):
        report.keep("copies, GB/s", _copies(count))
    with report.part("sums"):
        report.keep("sums", _sums(report, count))
    need_mnist()
    rows = []
    for devices, strategy in ((1, "single"), (2, "ddp"), (count, "ddp"), (2, "towers")):
        name = f"{strategy} on {devices}"
        with report.part(name):
            options = ("--epochs", 3, "--no-check", "--devices", devices, "--strategy", strategy)
            answer = train(report, "mnist-convnet", *options)
            report.keep(name, answer)
            rows.append([name, f"{answer['epoch_s'][-1]:.3f}", f"{answer['process_s']:.1f}"])
    report.page("several", report.result, table(["mnist-convnet", "last epoch s", "s"], rows))


def _copies(count: int) -> dict[str, float]:
    import torch

    found = {}
    source = torch.empty(2**30, dtype=torch.uint8, device="cuda:0")
    for index in range(1, count):
        target = torch.empty_like(source, device=f"cuda:{index}")
        times = []
        for _ in range(5):
            torch.cuda.synchronize(0)
            started = time.perf_counter()
            target.copy_(source)
            torch.cuda.synchronize(index)
            torch.cuda.synchronize(0)
            times.append(time.perf_counter() - started)
        found[f"0 to {index}"] = round(2**30 / statistics.median(times) / 1e9, 1)
        del target
    return found


def _sums(report: Report, count: int) -> dict:
    """Time all-reduces of 2.7 MB, a step of mnist-mlp, and of 256 MB."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = str(PEERS / "gpu_all_reduce.py")
    others = [
        subprocess.Popen([sys.executable, program, str(rank), str(count), str(port)])
        for rank in range(1, count)
    ]
    try:
        command = [sys.executable, program, "0", str(count), str(port)]
        return run_json(report, command, limit_s=60)
    finally:
        for process in others:
            process.kill()
            process.wait()
