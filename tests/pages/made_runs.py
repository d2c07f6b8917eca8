"""Trainings' directories made by hand: what a training writes, without one."""

from __future__ import annotations

import json
from datetime import timedelta

from tarmac.runs import Replica, Run, Session

EVIL = """<script>alert("1")</script>' onload='x"""


def make_run(output, name="made-run", **changes):
    """Make the directory of a completed training; changes are those of its record."""
    arguments = {
        "workload": "mnist-mlp",
        "command": ["tarmac", "train", "mnist-mlp"],
        "configuration": {
            "workload": "mnist-mlp",
            "epochs": 4,
            "batch_size": 128,
            "settings": {"hidden": 512},
        },
        "dataset": {"name": "mnist", "num_train": 60000, "sample_shape": [28, 28]},
        "device": {"type": "cuda", "index": 0, "name": "NVIDIA H100", "memory_bytes": 80 * 2**30},
        "versions": {"python": "3.12.1", "torch": "2.9"},
        "seed": 7,
        "git": None,
        "expectation": None,
    }
    arguments |= {key: changes.pop(key) for key in [*changes] if key in arguments}
    run = Run.create(output, name=name, **arguments)
    began = run.record.created_at
    run.update(
        **{
            "status": "completed",
            "elapsed_s": 40.0,
            "ended_at": began + timedelta(seconds=40),
            "sessions": [Session(started_at=began, pid=11).model_dump()],
            "metrics": {"test_accuracy": 0.984, "test_loss": 0.05},
        }
        | changes
    )
    return run


def epoch(number, **values):
    return {
        "epoch": number,
        "loss": 1 / number,
        "accuracy": 1 - 0.5 / number,
        "val_loss": 1.1 / number,
        "val_accuracy": 0.9 - 0.4 / number,
        "learning_rate": 0.001,
        "samples_per_s": 1000.0 * number,
        "seconds": 10.0,
        "data_wait_s": 2.0,
        "rank_wait_s": 1.0,
    } | values


def write_epochs(run, count=4, **values):
    lines = [json.dumps(epoch(number, **values)) for number in range(1, count + 1)]
    (run.path / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))


def write_samples(run, *, gpus=2, count=8, name="NVIDIA H100 80GB HBM3"):
    """Write samples of some GPUs: one restart, and clocks lowered for a while."""
    facts = [
        {
            "uuid": f"GPU-{number}",
            "index": number,
            "name": name,
            "power_limit_watts": 700.0,
            "memory_total_bytes": 80 * 2**30,
        }
        for number in range(gpus)
    ]
    session = {"kind": "session", "host": "node-1", "cpu_count": 8.0, "gpus": facts}
    lines = [session | {"at_s": 0.0}]
    for place in range(count):
        if place == count // 2:
            lines.append(session | {"at_s": place * 5.0, "text": "after a crash"})
        row = {
            "utilization_ratio": 0.9,
            "memory_used_bytes": 40 * 2**30,
            "power_watts": 600.0 + place,
            "temperature_c": 60.0,
            "throttle_reasons": ["sw_power_cap"] if 2 <= place < 4 else [],
        }
        lines.append(
            {
                "kind": "sample",
                "at_s": place * 5.0,
                "cpu_ratio": 0.5,
                "memory_used_bytes": 2**34,
                "gpus": {f"GPU-{number}": row for number in range(gpus)},
            }
        )
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (run.path / "samples.jsonl").write_text(text)


def replicas(count):
    return [
        Replica(
            rank=rank,
            host=f"node-{rank}",
            device={"name": "NVIDIA H100"},
            samples_per_s=900.0 + rank,
            waiting_s=float(rank),
        ).model_dump()
        for rank in range(count)
    ]
