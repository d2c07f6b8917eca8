"""Profiles steps of a training on the GPU: kernels, their time, and gaps. Prints one JSON line.

    python gpu_anatomy.py WORKLOAD|stack STEPS

The first epoch warms up and records; the second, of STEPS steps, is profiled from its start to its
end, by the hooks that every training has.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time

# Kernels of graphs that were recorded before it starts are otherwise lost to the profiler.
os.environ.setdefault("TEARDOWN_CUPTI", "0")
os.environ.setdefault("DISABLE_CUPTI_LAZY_REINIT", "1")

import torch
from _gpu_networks import candidates
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

import tarmac
from tarmac import data
from tarmac.studies.evaluation.stacked.evaluator import StackedEvaluator
from tarmac.workloads import find_workload

what, steps = sys.argv[1], int(sys.argv[2])


def profiler() -> profile:
    return profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])


# CUPTI begins before anything is recorded.
with profiler():
    torch.ones(1, device="cuda").add_(1)
measured = profiler()
times: dict[int, float] = {}


def ended(epoch: int) -> None:
    """Start at the end of the first epoch, stop at that of the second."""
    if epoch in times:
        return
    torch.cuda.synchronize()
    if epoch == 1:
        measured.start()
    times[epoch] = time.perf_counter()
    if epoch == 2:
        measured.stop()


if what == "stack":
    workload, dataset = find_workload("mlp"), data.load("mnist")
    evaluator = StackedEvaluator(
        workload, dataset, validation_size=128, train_size=steps * workload.recipe.batch_size
    )

    def reported(progress) -> bool:
        ended(progress.epoch)
        return False

    for result in evaluator.evaluate(candidates(20, "mixed", 2), reported):
        assert result.error is None, result.error
else:
    size = find_workload(what).recipe.batch_size * steps
    with tempfile.TemporaryDirectory() as output:
        tarmac.train(
            what,
            epochs=2,
            train_size=size,
            devices="cuda:0",
            score_test=False,
            output=output,
            stop=lambda row: ended(row["epoch"]),
        )
if 2 not in times:
    # An epoch that is the last ends without the hook.
    ended(2)

# Annotations span what is under them.
events = [
    e
    for e in measured.events()
    if e.device_type == DeviceType.CUDA and not getattr(e, "is_user_annotation", False)
]
if not events:
    sys.exit("The profiler saw nothing on the GPU: CUPTI is missing, or may not be used here.")
kernels: dict[str, list[float]] = {}
for event in events:
    kernels.setdefault(event.name, []).append(event.time_range.elapsed_us())
busy = sum(sum(each) for each in kernels.values())
wall_us = 1e6 * (times[2] - times[1])
calls = {
    e.key: {"per_step": e.count / steps, "us_per_step": e.self_cpu_time_total / steps}
    for e in measured.key_averages()
    if e.key.startswith(("cuda", "cu"))
}
rows = sorted(kernels.items(), key=lambda item: -sum(item[1]))
print(
    json.dumps(
        {
            "what": what,
            "steps": steps,
            "wall_us_per_step": wall_us / steps,
            "gpu_us_per_step": busy / steps,
            "operations_per_step": len(events) / steps,
            "calls": calls,
            "kernels": [
                {
                    "name": name[:160],
                    "per_step": len(each) / steps,
                    "us": sum(each) / len(each),
                    "share": sum(each) / busy if busy else 0.0,
                }
                for name, each in rows[:80]
            ],
        }
    )
)
