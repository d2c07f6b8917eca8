"""A `DataLoader` in a plain PyTorch loop. Arguments: task, workers, seed. Prints JSON."""

from __future__ import annotations

import json
import sys
import time

import torch
import torch.nn.functional as F
from _loader_task import BATCH_SIZE, EPOCHS, LEARNING_RATE, TASKS
from torch.utils.data import DataLoader

task, workers, seed = TASKS[sys.argv[1]], int(sys.argv[2]), int(sys.argv[3])
torch.manual_seed(seed)
model = task.network()
optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9, nesterov=True)
loader = DataLoader(
    task.dataset(task.count, 0),
    batch_size=BATCH_SIZE,
    shuffle=True,
    num_workers=workers,
    persistent_workers=workers > 0,
)
epoch_s = []
for _ in range(EPOCHS):
    start = time.perf_counter()
    for images, classes in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(images), classes).backward()
        optimizer.step()
    epoch_s.append(time.perf_counter() - start)
print(json.dumps({"epoch_s": epoch_s, "versions": {"torch": torch.__version__}}))
