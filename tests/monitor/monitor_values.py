"""Values that the tests of monitors are made of: GPUs, processes and glances, with what matters."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from tarmac.machine import LiveGpu, LiveProcess
from tarmac.monitor.processes import Process
from tarmac.runs import Glance

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def ago(seconds):
    return NOW - timedelta(seconds=seconds)


def gpu(index=0, *pids, **fields):
    fields = {
        "uuid": f"GPU-{index}",
        "name": "NVIDIA H100",
        "utilization_ratio": 0.9,
        "memory_used_bytes": 40 * 2**30,
        "memory_total_bytes": 80 * 2**30,
        "power_watts": 600.0,
        "power_limit_watts": 700.0,
    } | fields
    rows = tuple(
        pid if isinstance(pid, LiveProcess) else LiveProcess(pid, pid, memory_bytes=30 * 2**30)
        for pid in pids
    )
    return LiveGpu(index=index, processes=rows, **fields)


def process(pid, parent=1, **fields):
    fields = {
        "inner_pid": pid,
        "uid": 1000,
        "user": "ada",
        "command": "python train.py",
        "started_at": ago(1000),
    } | fields
    return Process(pid=pid, parent=parent, **fields)


def glance(kind="training", name="run", **fields):
    fields = {"status": "running", "path": Path("/runs") / name, "started_at": ago(990)} | fields
    return Glance(kind=kind, name=name, **fields)


def table(*processes):
    return {one.pid: one for one in processes}
