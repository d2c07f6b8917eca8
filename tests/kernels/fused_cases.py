"""Trainings of fused stacks that tests compare, run where the kernels can run.

The fused side is `trained`, which needs Triton; `expected` is autograd in float64 with the
optimizers of the unfused path, and dropout drawn by a Philox of its own.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from tarmac.kernels import FusedNetwork, FusedStack
from tarmac.training import FlatOptimizer, Group
from tarmac.workloads import SGD, Adadelta, Adagrad, Adam, Adamax, Nadam, Optimizer, RMSprop

OPTIMIZERS: tuple[Optimizer, ...] = (
    RMSprop(learning_rate=1e-3, rho=0.9, eps=1e-8),
    Adam(learning_rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8),
    SGD(learning_rate=1e-2, momentum=0.9, nesterov=True),
    Adagrad(learning_rate=1e-2, eps=1e-8),
    Adadelta(learning_rate=1.0, rho=0.95, eps=1e-8),
    Adamax(learning_rate=2e-3, beta1=0.9, beta2=0.999, eps=1e-8),
    Nadam(learning_rate=2e-3, beta1=0.9, beta2=0.999, eps=1e-8, momentum_decay=0.004),
    SGD(learning_rate=1e-2, momentum=0.0, nesterov=False),
    SGD(learning_rate=1e-2, momentum=0.5, nesterov=False),
)
ACTIVATIONS = ("relu", "elu", "tanh", "sigmoid")
_FUNCTIONS = {"relu": torch.relu, "elu": F.elu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}

Tensors = list[torch.Tensor]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """A stack and how it trains."""

    networks: tuple[FusedNetwork, ...]
    num_samples: int
    batch_size: int
    num_steps: int
    dtype: torch.dtype = torch.float32
    label_smoothing: float = 0.0
    same_order: bool = False
    shift: float = 0.0
    stop_after: int | None = None
    kept: tuple[int, ...] | None = None
    device: str = "cpu"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """By network: weights and biases in turns, state by name likewise, totals, the test's score."""

    parameters: list[Tensors]
    slots: list[dict[str, Tensors]]
    totals: torch.Tensor
    scores: torch.Tensor


def network(
    optimizer: Optimizer,
    *activations: str,
    sizes: tuple[int, ...] = (16, 16, 3),
    dropout: float = 0.0,
    seed: int = 1,
    weight_decay: tuple[tuple[float, float], ...] | None = None,
) -> FusedNetwork:
    """A network with one dropout."""
    return FusedNetwork(
        sizes=sizes,
        activations=activations,
        dropouts=(dropout,) * len(activations),
        optimizer=optimizer,
        seed=seed,
        weight_decay=weight_decay,
    )


def samples_of(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    """Bytes and classes."""
    draws = torch.Generator().manual_seed(5)
    inputs = torch.randint(0, 256, (case.num_samples, case.networks[0].sizes[0]), generator=draws)
    targets = torch.randint(0, case.networks[0].sizes[-1], (case.num_samples,), generator=draws)
    return inputs.to(torch.uint8), targets


def initial(case: Case, index: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """A network's first weights and biases."""
    draws = torch.Generator().manual_seed(100 + index)
    return [
        (
            torch.randn(outer, inner, generator=draws) / inner**0.5,
            torch.randn(outer, generator=draws) / 10,
        )
        for inner, outer in itertools.pairwise(case.networks[index].sizes)
    ]


def orders_of(case: Case) -> torch.Tensor:
    """The networks' orders of samples for all epochs, each epoch whole."""
    draws = torch.Generator().manual_seed(7)
    rows = 1 if case.same_order else len(case.networks)
    steps = -(-case.num_samples // case.batch_size)
    epochs = -(-case.num_steps // steps)
    return torch.stack(
        [
            torch.stack([torch.randperm(case.num_samples, generator=draws) for _ in range(epochs)])
            for _ in range(rows)
        ]
    )


def rates_of(case: Case) -> NDArray[np.float64]:
    """Rates that fall, by network."""
    factor = 1 - np.arange(case.num_steps) / (2 * case.num_steps)
    return np.stack([n.optimizer.learning_rate * factor for n in case.networks])


def trained(case: Case) -> Outcome:
    """Train by the kernels."""
    inputs, targets = (tensor.to(case.device) for tensor in samples_of(case))

    def stack_of() -> FusedStack:
        return FusedStack(
            case.networks,
            inputs,
            targets,
            batch_size=case.batch_size,
            dtype=case.dtype,
            shift=case.shift,
            label_smoothing=case.label_smoothing,
        )

    stack = stack_of()
    for index in range(len(case.networks)):
        for mine, (weight, bias) in zip(stack.parameters(index), initial(case, index), strict=True):
            mine.weight.copy_(weight)
            mine.bias.copy_(bias)
    stack.publish()
    orders, rates = orders_of(case), rates_of(case)
    per_epoch = -(-case.num_samples // case.batch_size)
    done = 0
    totals = torch.zeros(len(case.networks), 2, dtype=torch.float64)
    while done < case.num_steps:
        epoch, step = divmod(done, per_epoch)
        stop = min(case.num_steps, (epoch + 1) * per_epoch)
        if case.stop_after is not None and done < case.stop_after:
            stop = min(stop, case.stop_after)
        stack.begin(orders[:, epoch, step * case.batch_size :], rates[:, done:stop], done)
        stack.run(stop - done)
        done = stop
        if done == case.stop_after:
            totals += stack.totals().cpu()
            stack = _resumed(stack, stack_of())
        if done == case.stop_after and case.kept is not None:
            stack.keep(case.kept)
            orders = orders if case.same_order else orders[[*case.kept]]
            rates, totals = rates[[*case.kept]], totals[[*case.kept]]
    return Outcome(
        parameters=[
            [t.cpu().clone() for p in stack.parameters(k) for t in (p.weight, p.bias)]
            for k in range(len(stack.networks))
        ],
        slots=[
            {
                name: [t.cpu().clone() for p in of_name for t in (p.weight, p.bias)]
                for name, of_name in stack.slots(k).items()
            }
            for k in range(len(stack.networks))
        ],
        totals=totals + stack.totals().cpu(),
        scores=stack.evaluate(inputs, targets).cpu(),
    )


def _resumed(before: FusedStack, after: FusedStack) -> FusedStack:
    """Carry parameters and state over into a stack that knows nothing else."""
    for k in range(len(before.networks)):
        pairs = [*zip(before.parameters(k), after.parameters(k), strict=True)]
        for name, of_name in before.slots(k).items():
            pairs += zip(of_name, after.slots(k)[name], strict=True)
        for old, new in pairs:
            new.weight.copy_(old.weight)
            new.bias.copy_(old.bias)
    after.publish()
    return after


def expected(case: Case, index: int) -> tuple[Tensors, dict[str, Tensors], list[float]]:
    """Train one network in float64: parameters, state by name, and the totals."""
    inputs, targets = samples_of(case)
    mine = case.networks[index]
    parameters = [p.double().requires_grad_() for pair in initial(case, index) for p in pair]
    decays = [d for pair in mine.weight_decay or () for d in pair] or [0.0] * len(parameters)
    groups = [
        Group(decay, p.detach().view(-1), torch.zeros_like(p).detach().view(-1))
        for decay, p in zip(decays, parameters, strict=True)
    ]
    optimizer = FlatOptimizer(mine.optimizer, groups)
    orders, rates = orders_of(case)[0 if case.same_order else index], rates_of(case)[index]
    per_epoch = -(-case.num_samples // case.batch_size)
    totals = [0.0, 0.0]
    for step in range(case.num_steps):
        epoch, first = step // per_epoch, step % per_epoch * case.batch_size
        batch = orders[epoch, first : first + case.batch_size]
        hidden = inputs[batch].double() / 255 + case.shift
        for layer, (weight, bias) in enumerate(zip(parameters[::2], parameters[1::2], strict=True)):
            hidden = hidden @ weight.T + bias
            if layer < len(mine.activations):
                hidden = _FUNCTIONS[mine.activations[layer]](hidden)
                hidden = hidden * mask(mine, layer, step, *hidden.shape)
        logits, wanted = hidden, targets[batch]
        loss = F.cross_entropy(logits, wanted, label_smoothing=case.label_smoothing)
        totals[0] += loss.item() * len(batch)
        totals[1] += int((logits.argmax(1) == wanted).sum())
        for group, gradient in zip(groups, torch.autograd.grad(loss, parameters), strict=True):
            group.gradients.copy_(gradient.reshape(-1))
        optimizer.set_learning_rate(float(rates[step]))
        optimizer.step()
    state = optimizer.state()
    names = dict.fromkeys(key.partition(".")[2] for key, value in state.items() if value.dim())
    slots = {
        name: [state[f"{i}.{name}"].view_as(p) for i, p in enumerate(parameters)] for name in names
    }
    return [p.detach() for p in parameters], slots, totals


def mask(mine: FusedNetwork, layer: int, step: int, rows: int, columns: int) -> torch.Tensor:
    """What a layer's output is multiplied by."""
    dropped = round(mine.dropouts[layer] * 65536)
    if dropped == 0:
        return torch.ones(rows, columns, dtype=torch.float64)
    if dropped == 65536:
        return torch.zeros(rows, columns, dtype=torch.float64)
    stored = -(-columns // 16) * 16
    elements = np.arange(rows)[:, None] * stored + np.arange(columns)
    draws = philox(elements, step, layer, 0, key=mine.seed)
    return torch.from_numpy((draws & 0xFFFF >= dropped) * (65536 / (65536 - dropped)))


def philox(c0: NDArray[np.int64], *counters: int, key: int) -> NDArray[np.uint64]:
    """The first word of Philox4x32-10 (Salmon et al., SC'11)."""
    low = np.uint64(0xFFFFFFFF)
    c = [c0.astype(np.uint64), *(np.full(c0.shape, x, np.uint64) for x in counters)]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [
            (b >> np.uint64(32)) ^ c[1] ^ np.uint64(k0),
            b & low,
            (a >> np.uint64(32)) ^ c[3] ^ np.uint64(k1),
            a & low,
        ]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c[0]


def worst(found: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> float:
    """The largest relative error among tensors, by their norms."""
    return max(
        float((f.double() - w).norm() / w.norm().clamp(min=1e-12))
        for f, w in zip(found, wanted, strict=True)
    )
