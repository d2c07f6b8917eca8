"""mnist-mlp by a plain PyTorch fp32 loop. Prints one JSON line.

Without the word "loader" it is the strongest simple loop: the data are one tensor in memory, and
batches are gathered by index. With it, batches come through a DataLoader over a TensorDataset.
"""

from __future__ import annotations

import json
import resource
import sys
import time

import torch
import torch.nn.functional as F
from _mnist import load
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

epochs, seed, with_loader = int(sys.argv[1]), int(sys.argv[2]), "loader" in sys.argv
torch.manual_seed(seed)
(x_train, y_train), (x_test, y_test) = load()
inputs = torch.from_numpy(x_train.reshape(-1, 784).copy()).float() / 255
targets = torch.from_numpy(y_train.astype("int64"))

model = nn.Sequential(
    nn.Linear(784, 512),
    nn.ReLU(),
    nn.Dropout(0.2),
    nn.Linear(512, 512),
    nn.ReLU(),
    nn.Dropout(0.2),
    nn.Linear(512, 10),
)
for layer in model:
    if isinstance(layer, nn.Linear):
        nn.init.xavier_uniform_(layer.weight)
        nn.init.zeros_(layer.bias)
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.9, eps=1e-8)
loader = DataLoader(TensorDataset(inputs, targets), batch_size=128, shuffle=True)


def gathered():
    for index in torch.randperm(len(inputs)).split(128):
        yield inputs[index], targets[index]


epoch_s = []
for _ in range(epochs):
    start = time.perf_counter()
    for x, y in loader if with_loader else gathered():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    epoch_s.append(time.perf_counter() - start)

model.eval()
with torch.no_grad():
    logits = model(torch.from_numpy(x_test.reshape(-1, 784).copy()).float() / 255)
print(
    json.dumps(
        {
            "epoch_s": epoch_s,
            "test_accuracy": (logits.argmax(1) == torch.from_numpy(y_test)).float().mean().item(),
            "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "versions": {"torch": torch.__version__},
        }
    )
)
