"""Trains a workload over many seeds in one process, on the GPU. Prints one JSON line.

    python gpu_trainings.py WORKLOAD FIRST_SEED COUNT SECONDS [EPOCHS]

No seed is begun after SECONDS. The first training has first use in it, the others show what the
training itself takes.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time

import torch

import tarmac

workload, first, count, limit_s = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
options = {"epochs": int(sys.argv[5])} if len(sys.argv) > 5 else {}
begun = time.perf_counter()
rows = []
for seed in range(first, first + count):
    started = time.perf_counter()
    if rows and started - begun > float(limit_s):
        break
    with tempfile.TemporaryDirectory() as output:
        run = tarmac.train(workload, seed=seed, devices="cuda:0", output=output, **options)
    whole_s = time.perf_counter() - started
    # All plain figures that a training tells of itself, such as train_seconds and setup_s.
    plain = {k: v for k, v in run.metrics.items() if isinstance(v, int | float)}
    rows.append({"seed": seed, "whole_s": whole_s, **plain})
    rows[-1]["allocated_mib"] = torch.cuda.memory_allocated() / 2**20
    rows[-1]["precision"] = run.record.configuration["precision"]
print(json.dumps({"trainings": rows}))
