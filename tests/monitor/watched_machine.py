"""A machine with three GPUs at one moment, as outlets get it: nearly all that can be known."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

from tarmac.machine import LiveGpu, LiveHost, LiveProcess
from tarmac.monitor import Finding, HostSnapshot, ProcessRow, Snapshot, Work

AT = datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC)
GIB = 2**30

BUSY = LiveGpu(
    index=0,
    uuid="GPU-0",
    name="NVIDIA H100",
    pci_address="0000:9c:00.0",
    utilization_ratio=0.97,
    memory_utilization_ratio=0.4,
    memory_used_bytes=40 * GIB,
    memory_total_bytes=80 * GIB,
    power_watts=612.5,
    power_limit_watts=700.0,
    temperature_c=64.0,
    sm_clock_mhz=1755,
    energy_joules=12345.5,
    throttle_reasons=("power",),
    throttled_s={"power": 12.5, "thermal": 0.0},
    corrected_errors=3,
    processes=(LiveProcess(4711, 4711, memory_bytes=39 * GIB, sm_ratio=0.9),),
)
HELD = LiveGpu(index=1, uuid="GPU-1", name="NVIDIA H100", utilization_ratio=0.0)
LOST = LiveGpu(index=2, uuid="GPU-2", name="NVIDIA H100", error="GPU is lost")

TRAINING = Work(
    id="brave-fox",
    kind="training",
    path="/runs/brave-fox",
    status="running",
    workload="mnist-mlp",
    user="ann",
    pids=(4711,),
    gpu_uuids=("GPU-0",),
    joined_by="processes",
    epoch=7,
    epochs=20,
    loss=0.25,
    metric_name="val_accuracy",
    metric=0.97,
    samples_per_s=51000.0,
    eta_s=42.0,
    waits={"data": 0.06},
    energy_joules=1800.0,
)
XID = Finding(
    "xid", "failure", "GPU 0 (0000:9c:00): Xid 94, contained memory error", "restart it",
    gpu_uuid="GPU-0", at=AT - timedelta(minutes=4),
)  # fmt: skip
HOST = HostSnapshot(
    at=AT,
    host=LiveHost("n01", 8.0, 0.5, 3.25, 10 * GIB, 64 * GIB),
    gpus=(BUSY, HELD, LOST),
    gpu_states={"GPU-0": "busy", "GPU-1": "held", "GPU-2": "bad"},
    gpu_idle_s={"GPU-1": 1200.0},
    processes=(
        ProcessRow(4711, "GPU-0", "ann", "python train.py", 39 * GIB, work="brave-fox"),
        ProcessRow(None, "GPU-1", "bob", "jupyter", started_at=AT - timedelta(hours=3)),
    ),
    work=(TRAINING,),
    findings=(XID,),
)
SNAPSHOT = Snapshot(AT, (HOST,))


def later(seconds: float, snapshot: Snapshot = SNAPSHOT) -> Snapshot:
    """Return the snapshot some seconds later, where nothing has changed."""
    moved = timedelta(seconds=seconds)
    hosts = tuple(dataclasses.replace(host, at=host.at + moved) for host in snapshot.hosts)
    return dataclasses.replace(snapshot, at=snapshot.at + moved, hosts=hosts)


def with_host(snapshot: Snapshot = SNAPSHOT, **changes: object) -> Snapshot:
    """Return the snapshot with other facts of its host."""
    (host,) = snapshot.hosts
    return dataclasses.replace(snapshot, hosts=(dataclasses.replace(host, **changes),))


def with_work(**changes: object) -> Snapshot:
    """Return the snapshot with other facts of its training."""
    return with_host(work=(dataclasses.replace(TRAINING, **changes),))


class Given:
    """A feed of given snapshots."""

    def __init__(self, *snapshots: Snapshot) -> None:
        self._left = list(snapshots)
        self.is_closed = False

    def next(self) -> Snapshot:
        if not self._left:
            raise StopIteration
        return self._left.pop(0)

    def close(self) -> None:
        self.is_closed = True
