"""A task of `trainings.py` by a plain PyTorch loop in fp32. Arguments: task, seed. Prints JSON.

The strongest simple loop: the data are one tensor in memory, and batches are gathered by index.
"""

from __future__ import annotations

import json
import sys
import time

import torch
from _training_tasks import TASKS
from torch import nn

task, seed = TASKS[sys.argv[1]], int(sys.argv[2])
torch.manual_seed(seed)
network = task.network()
x, y, x_test, y_test = task.tensors()
optimizer = task.optimizer(network.parameters())
epoch_s = []
for _ in range(task.epochs):
    start = time.perf_counter()
    for index in torch.randperm(len(x)).split(task.batch_size):
        optimizer.zero_grad()
        task.loss(network(x[index]), y[index]).backward()
        if task.clip_norm:
            nn.utils.clip_grad_norm_(network.parameters(), task.clip_norm)
        optimizer.step()
    epoch_s.append(time.perf_counter() - start)
print(
    json.dumps(
        {
            "epoch_s": epoch_s,
            "test_loss": task.score(network, x_test, y_test),
            "parameters": sum(p.numel() for p in network.parameters()),
            "versions": {"torch": torch.__version__},
        }
    )
)
