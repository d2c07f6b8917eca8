"""Times fused steps of stacks on the GPU. Prints one JSON line.

    python gpu_kernels.py NETWORKS:WIDTH,WIDTH,...  ...

Random images, batches of 128, bf16; each stack with equal networks and with all activations and
optimizers in turns. ``first_s`` is the first step, with compilation where Triton's cache is cold.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import torch

from tarmac.kernels import FusedNetwork, FusedStack
from tarmac.workloads import SGD, Adadelta, Adagrad, Adam, Adamax, Nadam, RMSprop

SAMPLES, BATCH, STEPS = 16384, 128, 96
OPTIMIZERS = (
    RMSprop(learning_rate=1e-3, rho=0.9, eps=1e-8),
    Adam(learning_rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8),
    SGD(learning_rate=1e-2, momentum=0.9, nesterov=True),
    Adagrad(learning_rate=1e-2, eps=1e-8),
    Adadelta(learning_rate=1.0, rho=0.95, eps=1e-8),
    Adamax(learning_rate=2e-3, beta1=0.9, beta2=0.999, eps=1e-8),
    Nadam(learning_rate=2e-3, beta1=0.9, beta2=0.999, eps=1e-8, momentum_decay=0.004),
)
ACTIVATIONS = ("relu", "elu", "tanh", "sigmoid")

draws = torch.Generator().manual_seed(0)
targets = torch.randint(0, 10, (SAMPLES,), generator=draws).cuda()


def network(index: int, sizes: tuple[int, ...], mix: str) -> FusedNetwork:
    """Return a network with its own optimizer and activation, unless ``mix`` is ``equal``.

    A ragged network has one to four hidden layers of a quarter to all of the first one's width.
    """
    if mix == "ragged":
        width = sizes[1] * (1 + index % 4) // 4
        sizes = (sizes[0], *(width,) * (1 + index // 4 % 4), sizes[-1])
    hidden = len(sizes) - 2
    return FusedNetwork(
        sizes=sizes,
        activations=(ACTIVATIONS[index % 4 if mix != "equal" else 0],) * hidden,
        dropouts=(0.2,) * hidden,
        optimizer=OPTIMIZERS[index % 7 if mix != "equal" else 0],
        seed=index,
    )


def measured(count: int, sizes: tuple[int, ...], mix: str) -> dict:
    inputs = torch.randint(0, 256, (SAMPLES, sizes[0]), generator=draws, dtype=torch.uint8).cuda()
    networks = [network(n, sizes, mix) for n in range(count)]
    started = time.perf_counter()
    stack = FusedStack(networks, inputs, targets, batch_size=BATCH, dtype=torch.bfloat16)
    order = torch.randperm(SAMPLES, generator=draws)
    stack.begin(order, np.full(2 * STEPS, 1e-3), first_step=0)
    stack.run(1)
    torch.cuda.synchronize()
    first_s = time.perf_counter() - started
    # Records what is replayed below.
    stack.run(STEPS - 1)
    torch.cuda.synchronize()
    stack.begin(order, np.full(2 * STEPS, 1e-3), first_step=STEPS)
    torch.cuda.synchronize()
    started = time.perf_counter()
    stack.run(STEPS)
    torch.cuda.synchronize()
    step_s = (time.perf_counter() - started) / STEPS
    return {
        "networks": count,
        "sizes": ",".join(map(str, sizes)),
        "mix": mix,
        "first_s": first_s,
        "us_per_step": 1e6 * step_s,
        "memory_mib": torch.cuda.max_memory_allocated() / 2**20,
    }


found = []
for word in sys.argv[1:]:
    number, _, widths = word.partition(":")
    sizes = tuple(map(int, widths.split(",")))
    for mix in ("equal", "mixed", "ragged") if int(number) > 1 else ("equal",):
        found.append(measured(int(number), sizes, mix))
        torch.cuda.empty_cache()
print(json.dumps({"stacks": found}))
