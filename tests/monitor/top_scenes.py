"""Snapshots of machines, for tests of what `tarmac top` shows of them."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

from tarmac.machine import LiveGpu, LiveHost
from tarmac.monitor import Finding, HostSnapshot, ProcessRow, Snapshot, Work

AT = datetime(2026, 7, 1, 12, 0, 7, tzinfo=UTC)
HOST = LiveHost("node-a", 32, 0.34, 11.2, 96 * 2**30, 512 * 2**30, 0.0)


def gpu(index, util=0.97, used_gib=61.3, watts=612.0, **changes):
    """Return an H100 that computes."""
    known = {
        "utilization_ratio": util,
        "memory_used_bytes": int(used_gib * 2**30),
        "memory_total_bytes": 80 * 2**30,
        "power_watts": watts,
        "power_limit_watts": 700.0,
        "temperature_c": 63.0,
        "sm_clock_mhz": 1755,
        "max_sm_clock_mhz": 1980,
        "pcie_generation": 5,
        "pcie_width": 16,
    }
    return LiveGpu(index, f"GPU-{index}", "NVIDIA H100 80GB HBM3", **(known | changes))


def training(name="mnist-cnn-20260701-115501-3f2a", **changes):
    """Return a training in its seventh epoch."""
    known = {
        "path": f"/runs/{name}",
        "status": "running",
        "workload": "mnist-cnn",
        "user": "ann",
        "pids": (4711,),
        "joined_by": "processes",
        "epoch": 7,
        "epochs": 20,
        "loss": 0.03124,
        "metric_name": "val_accuracy",
        "metric": 0.9871,
        "samples_per_s": 452_301.0,
        "eta_s": 185.0,
        "checkpoint_age_s": 41.0,
        "quiet_s": 2.0,
        "energy_joules": 410_000.0,
    }
    return Work(id=name, kind="training", **(known | changes))


def node(gpus, states=None, host=HOST, **changes):
    """Return a host; its GPUs are busy unless something else is said."""
    states = {g.uuid: "busy" for g in gpus} | (states or {})
    return HostSnapshot(AT, host, tuple(gpus), states, **changes)


def one(host_snapshot):
    """Return a snapshot of one host."""
    return Snapshot(AT, (host_snapshot,))


def full_node():
    """Return eight GPUs with a bit of everything: ranks, a search, others, idle, hung, broken."""
    gpus = [
        gpu(0, throttle_reasons=("sw_power_cap",)),
        *(gpu(i) for i in (1, 2)),
        gpu(3, util=0.41, watts=340.0, used_gib=12.0),
        gpu(4, util=0.0, watts=92.0, used_gib=33.0),
        gpu(5, util=1.0, watts=121.0),
        gpu(6, util=0.88),
        dataclasses.replace(
            LiveGpu(7, "GPU-7", "NVIDIA H100 80GB HBM3"), error="fell off the bus (Xid 79)"
        ),
    ]
    ranks = tuple(
        {"rank": rank, "samples_per_s": 113_000.0 + 500 * rank, "waiting_s": 3.0 - rank}
        for rank in range(3)
    )
    work = (
        training(
            gpu_uuids=("GPU-0", "GPU-1", "GPU-2"),
            ranks=ranks,
            waits={"data": 0.31, "ranks": 0.02},
            slow=("waits for data 31% of the time",),
            advice=("tarmac train --workers 8",),
        ),
        Work(
            "digits-search",
            "search",
            "/runs/digits-search",
            "running",
            user="ann",
            gpu_uuids=("GPU-3",),
            done=41,
            total=200,
            eta_s=5400.0,
        ),
        training(
            "digits-search/trial-41",
            parent="digits-search",
            workload="digits-mlp",
            gpu_uuids=("GPU-3",),
            epoch=2,
            epochs=5,
            checkpoint_age_s=None,
            energy_joules=None,
        ),
        training(
            "cifar10-resnet-20260701-090000-77aa",
            gpu_uuids=("GPU-5",),
            state="hung",
            quiet_s=612.0,
            note="no step for 9 times the median step",
        ),
        Work(
            "nightly",
            "job",
            "/runs/nightly",
            "running",
            user="ann",
            done=3,
            total=12,
        ),
        Work(
            "nightly/fold-4",
            "task",
            "/runs/nightly/tasks/fold-4",
            "running",
            parent="nightly",
            user="ann",
            gpu_uuids=("GPU-6",),
            retries=1,
        ),
        Work(
            "nightly/fold-5",
            "task",
            "/runs/nightly/tasks/fold-5",
            "waiting",
            parent="nightly",
            user="ann",
            state="waiting",
            note="waits for a GPU",
        ),
    )
    processes = (
        *(
            ProcessRow(4711 + i, f"GPU-{i}", "ann", "python -m tarmac", work=work[0].id)
            for i in range(3)
        ),
        ProcessRow(
            52001,
            "GPU-4",
            "bob",
            "/opt/conda/bin/python finetune.py --epochs 3",
            33 * 2**30,
            0.0,
            slurm_job="81234",
        ),
        ProcessRow(None, "GPU-6", None, None, 2**30, container="quirky_hopper"),
    )
    findings = (
        Finding(
            "xid",
            "failure",
            "Xid 79, the GPU has fallen off the bus, 4 min ago",
            "sudo reboot",
            "GPU-7",
            AT,
        ),
        Finding("persistence-off", "note", "persistence mode is off", "sudo nvidia-smi -pm 1"),
    )
    return one(
        node(
            gpus,
            {"GPU-4": "held", "GPU-7": "bad"},
            gpu_idle_s={"GPU-4": 843.0},
            processes=processes,
            work=work,
            findings=findings,
        )
    )


def two_hosts():
    """Return a training on two hosts, and one that no longer answers."""
    run = training(gpu_uuids=("GPU-0",), ranks=({"rank": 0, "samples_per_s": 90_000.0},))
    other = dataclasses.replace(
        run, epoch=None, is_own=True, ranks=({"rank": 1, "samples_per_s": 45_000.0},)
    )
    dead = node(
        [gpu(0)],
        host=dataclasses.replace(HOST, name="node-c"),
        problem="ssh: connect to host node-c port 22: Connection timed out",
        age_s=95.0,
    )
    return Snapshot(
        AT,
        (
            node([gpu(0)], work=(run,)),
            node([gpu(0)], host=dataclasses.replace(HOST, name="node-b"), work=(other,)),
            dead,
        ),
    )


def slices():
    """Return a card in two slices, whose use the driver does not tell."""
    card = gpu(0, util=None)
    parts = [
        LiveGpu(
            0,
            f"MIG-{number}",
            "H100 MIG 3g.40gb",
            parent_uuid="GPU-0",
            memory_used_bytes=2**30,
            memory_total_bytes=40 * 2**30,
        )
        for number in range(2)
    ]
    work = (training(gpu_uuids=("MIG-1",)),)
    return one(node([card, *parts], {"MIG-0": "free"}, work=work))


def without_gpu():
    """Return a machine without a GPU that trains on its CPU."""
    reason = "there is no NVIDIA driver here"
    return one(node([], no_gpu_reason=reason, work=(training(waits={"ranks": 0.2}),)))


def nothing_known():
    """Return a machine of which hardly anything is known."""
    unknown = LiveGpu(0, "GPU-x", "?")
    bare = Work("r", "training", "/r", "running", state="new-state", gpu_uuids=("GPU-x",))
    return one(HostSnapshot(AT, LiveHost("h"), (unknown,), work=(bare,)))


def hostile():
    """Return names that would move the cursor, hide, or break a line."""
    evil = "\x1b[2J\x1b]0;owned\x07\r\nrm \u202etxt.exe \U0001f4a3日本語"
    process = ProcessRow(1, "GPU-0", evil, evil, container=evil)
    work = training(evil, gpu_uuids=("GPU-0",), note=evil, slow=(evil,), loss=float("nan"))
    finding = Finding(evil, "odd-level", evil, evil)
    return one(
        node(
            [dataclasses.replace(gpu(0), name=evil)],
            work=(work,),
            processes=(process,),
            findings=(finding,),
        )
    )


SCENES = {
    "full": full_node,
    "two-hosts": two_hosts,
    "slices": slices,
    "without-gpu": without_gpu,
    "nothing-known": nothing_known,
    "hostile": hostile,
}
