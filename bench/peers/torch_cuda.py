"""mnist-mlp by a plain PyTorch loop on a GPU. Prints one JSON line.

    python torch_cuda.py EPOCHS SEED plain|graph|compile [fp32|bf16]

The strongest simple loops: all images lie on the GPU, batches are gathered there by index, the
optimizer is fused, and nothing is read back within an epoch. ``graph`` replays a step recorded by
torch.cuda.graph, as PyTorch's documentation shows it; ``compile`` is torch.compile with
mode="reduce-overhead". ``epoch_s`` has first use, recording and compilation in the first epoch.
"""

from __future__ import annotations

import json
import sys
import time

import torch
import torch.nn.functional as F
from _mnist import load
from torch import nn

BATCH = 128

epochs, seed, mode = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
use_bf16 = "bf16" in sys.argv[4:]
torch.manual_seed(seed)
(x_train, y_train), (x_test, y_test) = load()
inputs = torch.from_numpy(x_train.reshape(-1, 784).copy()).cuda().float() / 255
targets = torch.from_numpy(y_train.astype("int64")).cuda()
test_inputs = torch.from_numpy(x_test.reshape(-1, 784).copy()).cuda().float() / 255
test_targets = torch.from_numpy(y_test.astype("int64")).cuda()

model = nn.Sequential(
    nn.Linear(784, 512),
    nn.ReLU(),
    nn.Dropout(0.2),
    nn.Linear(512, 512),
    nn.ReLU(),
    nn.Dropout(0.2),
    nn.Linear(512, 10),
).cuda()
for layer in model:
    if isinstance(layer, nn.Linear):
        nn.init.xavier_uniform_(layer.weight)
        nn.init.zeros_(layer.bias)
optimizer = torch.optim.RMSprop(
    model.parameters(), lr=1e-3, alpha=0.9, eps=1e-8, foreach=True, capturable=mode == "graph"
)
static_x = torch.empty(BATCH, 784, device="cuda")
static_y = torch.empty(BATCH, dtype=torch.int64, device="cuda")


def loss_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cuda", torch.bfloat16, enabled=use_bf16, cache_enabled=mode != "graph"):
        return F.cross_entropy(model(x), y)


def train_step(x: torch.Tensor, y: torch.Tensor) -> None:
    optimizer.zero_grad(set_to_none=True)
    computed(x, y).backward()
    optimizer.step()


computed = torch.compile(loss_of, mode="reduce-overhead") if mode == "compile" else loss_of


def recorded() -> torch.cuda.CUDAGraph:
    """Record a step on static inputs; weights and optimizer are as before."""
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    static_x.zero_()
    static_y.zero_()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            train_step(static_x, static_y)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        computed(static_x, static_y).backward()
        optimizer.step()
    model.load_state_dict(kept)
    for state in optimizer.state.values():
        for value in state.values():
            value.zero_()
    return graph


graph = None
epoch_s = []
for _ in range(epochs):
    start = time.perf_counter()
    if mode == "graph" and graph is None:
        graph = recorded()
    for index in torch.randperm(len(inputs), device="cuda").split(BATCH):
        if graph is not None and len(index) == BATCH:
            torch.index_select(inputs, 0, index, out=static_x)
            torch.index_select(targets, 0, index, out=static_y)
            graph.replay()
        else:
            if mode == "compile":
                torch.compiler.cudagraph_mark_step_begin()
            train_step(inputs[index], targets[index])
    torch.cuda.synchronize()
    epoch_s.append(time.perf_counter() - start)

model.eval()
with torch.no_grad():
    logits = model(test_inputs)
print(
    json.dumps(
        {
            "epoch_s": epoch_s,
            "train_seconds": sum(epoch_s),
            "test_accuracy": (logits.argmax(1) == test_targets).float().mean().item(),
            "memory_mib": torch.cuda.max_memory_allocated() / 2**20,
            "versions": {"torch": torch.__version__},
        }
    )
)
