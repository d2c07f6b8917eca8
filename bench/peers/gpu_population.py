"""Trains networks of one shape as a stack on the GPU. Prints one JSON line.

    python gpu_population.py NETWORKS equal|mixed EPOCHS [DATASET]

``setup_s`` is the time before the first step: that of the first epoch beyond the later ones'.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import time

import torch
from _gpu_networks import candidates

from tarmac import data
from tarmac.studies.evaluation.stacked.evaluator import StackedEvaluator
from tarmac.workloads import find_workload

num_networks, mix, epochs = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
dataset = data.load(sys.argv[4] if len(sys.argv) > 4 else "mnist")
workload = find_workload("mlp")
validation = len(dataset.train) // 6
batch_size = workload.recipe.batch_size
steps = -(-(len(dataset.train) - validation) // batch_size)


def train(count: int, how_many: int) -> tuple[list[float], list]:
    """Return when each epoch ended, from the start, and the results."""
    evaluator = StackedEvaluator(workload, dataset, validation_size=validation)
    ends: dict[int, float] = {}
    started = time.perf_counter()

    def noted(progress) -> bool:
        ends[progress.epoch] = time.perf_counter() - started
        return False

    results = list(evaluator.evaluate(candidates(count, mix, how_many, dataset.name), noted))
    for result in results:
        assert result.error is None, result.error
    assert evaluator.device.type == "cuda", evaluator.device
    return [ends[epoch] for epoch in sorted(ends)], results


# The context, libraries and kernels are a process's, not a search's; here once for all.
started = time.perf_counter()
train(min(num_networks, 4), 1)
first_use_s = time.perf_counter() - started
torch.cuda.reset_peak_memory_stats()
ends, results = train(num_networks, epochs)
epoch_s = statistics.median(b - a for a, b in itertools.pairwise(ends))
print(
    json.dumps(
        {
            "networks": num_networks,
            "mix": mix,
            "first_use_s": first_use_s,
            "setup_s": ends[0] - epoch_s,
            "epoch_s": epoch_s,
            "us_per_network_step": 1e6 * epoch_s / steps / num_networks,
            "trials_per_minute_of_20_epochs": 60 * num_networks / (ends[0] + 19 * epoch_s),
            "memory_mib": torch.cuda.max_memory_allocated() / 2**20,
            "stack": results[0].num_companions + 1,
            "val_accuracy": statistics.mean(r.metrics["val_accuracy"] for r in results),
            "device": "cuda",
        }
    )
)
