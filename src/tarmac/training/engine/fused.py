"""Steps of a multilayer perceptron by the fused kernels; see `tarmac.kernels`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Protocol, cast

import numpy as np
import torch

from tarmac.errors import TarmacError
from tarmac.kernels import FusedNetwork, FusedStack, momentum_product, read_architecture
from tarmac.training.engine.optimizers import FlatOptimizer
from tarmac.training.engine.replica import Replica, seed_of_replica
from tarmac.training.engine.step_runner import Steps
from tarmac.training.plan import Plan
from tarmac.workloads import SGD, Adadelta, Nadam, Scale

_DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16}

# Some 10 ms of a small network's steps, which delay a stop. Copying the weights to the replica
# after each call takes a hundredth of that.
_MAX_AT_ONCE = 256

# FlatOptimizer computes RMSprop by Adam's kernel, with Adam's name for the state.
_OTHER_NAMES = {"square_avg": "exp_avg_sq"}


# Optimizers for which FlatOptimizer does not count steps.
_UNCOUNTED = (SGD, Adadelta)


class _ResidentFeed(Protocol):
    columns: tuple[torch.Tensor, ...]


class FusedSteps:
    """A step runner that computes one replica's steps by the fused kernels; see `StepRunner`.

    After each call, weights and optimizer state are copied to the replica. So other code finds them
    there as usual, and a run can resume without the kernels. Dropout is drawn from the seed and the
    number of the step, not from PyTorch's generators.

    Args:
        plan: Training plan for which `choose_fused` allows the kernels.
        replica: The only replica, with resident samples.
        optimizer: Optimizer of the replica's parameters; its state is copied back after each call.
    """

    joins_samples = True

    def __init__(self, plan: Plan, replica: Replica, optimizer: FlatOptimizer) -> None:
        recipe, shares = plan.workload.recipe, plan.shares
        architecture = read_architecture(replica.model)
        scale = cast("Scale", recipe.preprocess)
        inputs, targets = cast("_ResidentFeed", replica.feed).columns
        decays = recipe.weight_decay
        network = FusedNetwork(
            sizes=architecture.sizes,
            activations=architecture.activations,
            dropouts=architecture.dropouts,
            optimizer=recipe.optimizer,
            seed=seed_of_replica(plan.seed, replica.rank),
            weight_decay=tuple(
                (_decay_of(weight, decays), _decay_of(bias, decays))
                for weight, bias in architecture.names
            ),
        )
        self._stack = FusedStack(
            [network],
            inputs,
            targets,
            batch_size=shares.batch_size,
            dtype=_DTYPES[plan.precision],
            factor=scale.factor / scale.std,
            shift=-scale.mean / scale.std,
            label_smoothing=recipe.label_smoothing,
            tf32=str(plan.precision) == "tf32",
        )
        self.at_once = _evenly(shares.num_samples // shares.batch_size)
        self._replica = replica
        self._state = optimizer.state()
        self._spec = recipe.optimizer
        self._pairs = self._matched(architecture.names)
        self.reload()

    def run(self, steps: Steps, batches: Sequence[Iterator[tuple[torch.Tensor, ...]]]) -> None:
        """Compute steps, and copy the changed state to the replica."""
        (index,) = next(batches[0])
        self._stack.begin(index, np.array(steps.rates), steps.first)
        self._stack.run(steps.count)
        self._replica.totals.add_(self._stack.totals()[0])
        self._stack.clear_totals()
        theirs, ours = self._pairs
        torch._foreach_copy_(theirs, ours)
        self._replica.parameters.publish()
        self._count(steps)

    def warm_up(self, kinds: Sequence[Steps]) -> None:
        """Compile the kernels and record their launches.

        Raises:
            TarmacError: The kernels cannot be compiled here.
        """
        most = max(kinds, key=lambda kind: kind.count)
        size = sum(map(sum, most.sizes))
        index = torch.zeros(most.count * size, dtype=torch.int64)
        self._stack.begin(index, np.array(most.rates), most.first)
        try:
            self._stack.warm_up()
        except Exception as error:
            raise TarmacError(
                f"the fused kernels cannot be compiled here: {type(error).__name__}: {error}",
                hint="Train without them: --fused off",
            ) from error

    def reload(self) -> None:
        """Copy weights and optimizer state from the replica."""
        theirs, ours = self._pairs
        torch._foreach_copy_(ours, theirs)
        self._stack.publish()

    def _matched(
        self, names: Sequence[tuple[str, str]]
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Return the replica's weights and state, and views of the stack's, in the same order."""
        masters = self._replica.parameters.state_dict()
        slots = self._stack.slots(0)
        theirs: list[torch.Tensor] = []
        ours: list[torch.Tensor] = []
        for layer, (pair, mine) in enumerate(zip(names, self._stack.parameters(0), strict=True)):
            for number, name in enumerate(pair):
                master = masters[name]
                theirs.append(master)
                ours.append((mine.weight, mine.bias)[number])
                for slot, by_layer in slots.items():
                    theirs.append(self._state_of(master, slot))
                    ours.append((by_layer[layer].weight, by_layer[layer].bias)[number])
        return theirs, ours

    def _state_of(self, master: torch.Tensor, slot: str) -> torch.Tensor:
        """Return the part of the optimizer's flat state that belongs to a parameter."""
        for number, group in enumerate(self._replica.parameters.groups):
            start = master.storage_offset() - group.values.storage_offset()
            if 0 <= start < group.values.numel():
                name = f"{number}.{slot}"
                flat = self._state.get(name)
                if flat is None:
                    flat = self._state[f"{number}.{_OTHER_NAMES[slot]}"]
                return flat[start : start + master.numel()].view_as(master)
        raise AssertionError("a parameter is in no group")

    def _count(self, steps: Steps) -> None:
        """Set the optimizer's counters to their values after single steps."""
        for name, value in self._state.items():
            if name.endswith(".step") and not isinstance(self._spec, _UNCOUNTED):
                value.add_(steps.count)
            elif name.endswith(".mu_product"):
                value.fill_(momentum_product(cast("Nadam", self._spec), steps.first + steps.count))


def _decay_of(name: str, patterns: Mapping[str, float]) -> float:
    return next((decay for pattern, decay in patterns.items() if fnmatchcase(name, pattern)), 0.0)


def _evenly(num_steps: int) -> int:
    """Return the steps per call that cut an epoch's full steps evenly, so that few are left."""
    return max(1, num_steps // -(-num_steps // _MAX_AT_ONCE)) if num_steps else 1
