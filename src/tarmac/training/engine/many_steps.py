"""Many steps in one CUDA graph, which reads their batches and learning rates from tables.

One launch then runs all of these steps. Beside the launch, the host copies the samples' indices
and, if the schedule has changed them, the rates. Draws such as dropout's equal those of single
steps, as PyTorch's generators advance within a graph.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import partial

import torch

from tarmac.training.engine.optimizers import FlatOptimizer
from tarmac.training.engine.parts import Parts
from tarmac.training.engine.recorder import Recorder
from tarmac.training.engine.replica import Replica
from tarmac.training.engine.step_runner import Steps
from tarmac.training.engine.team import Team
from tarmac.training.engine.update import Update
from tarmac.training.plan import Plan

# A launch then costs the host a sixteenth per step, so that the device is the limit. Recording
# costs some 2 ms a step, and stopping waits for the whole graph.
_AT_ONCE = 16


class ManySteps:
    """A step runner that computes one replica's steps from indices into resident samples.

    See `StepRunner`.

    Args:
        plan: Training plan, with the shares and the accumulation.
        replica: The only replica of this process.
        optimizer: Optimizer of the replica's parameters, with one learning rate, which it reads
            from a tensor if steps are recorded.
        team: All processes, whose all-reduces can be recorded.
        recorder: Recorder of the steps as CUDA graphs, which it replays.
    """

    at_once = _AT_ONCE
    joins_samples = True

    def __init__(
        self,
        plan: Plan,
        replica: Replica,
        optimizer: FlatOptimizer | Update,
        team: Team,
        recorder: Recorder,
    ) -> None:
        self._replica = replica
        self._optimizer = optimizer
        self._team = team
        self._recorder = recorder
        self._parts = Parts(replica, team.world_size if team.world_size > 1 else 0)
        largest = plan.shares.largest * plan.accumulate
        self._index = torch.zeros(_AT_ONCE * largest, dtype=torch.int64, device=replica.device)
        # Without rate tensors the rate is a Python number, which a graph records as a constant.
        self._rates: torch.Tensor | None = None
        if optimizer.takes_rate_tensors:
            self._rates = torch.zeros(_AT_ONCE, device=replica.device)
        self._loaded_rates: tuple[float, ...] = ()

    def run(self, steps: Steps, batches: Sequence[Iterator[tuple[torch.Tensor, ...]]]) -> None:
        """Compute steps, by a CUDA graph if one was recorded for their number and sizes."""
        (index,) = next(batches[0])
        self._index[: len(index)].copy_(index)
        self._load_rates(steps.rates)
        if not self._recorder.replay(self._key(steps)):
            self._compute(steps)

    def warm_up(self, kinds: Sequence[Steps]) -> None:
        """Run single steps on the first sample, then record all kinds, or none on any rank.

        If only some ranks had recorded an all-reduce, the ranks would deadlock.
        """
        self._index.zero_()
        for kind in kinds:
            if kind.count == 1:
                self._load_rates(kind.rates)
                self._recorder.warm_up(partial(self._compute, kind))
        if all(self._team.all_gather(self._recorder.can_record)):
            for kind in kinds:
                self._recorder.record(self._key(kind), partial(self._compute, kind))
        if not all(self._team.all_gather(self._recorder.can_record)):
            self._recorder.forget()

    def reload(self) -> None:
        """Do nothing: the steps read the replica's own tensors."""

    def _key(self, steps: Steps) -> Hashable:
        return steps.count, steps.scale, steps.sizes

    def _load_rates(self, rates: tuple[float, ...]) -> None:
        """Copy the rates to the tensor that graphs read, unless they are there already."""
        if self._rates is None or rates == self._loaded_rates[: len(rates)]:
            return
        # A copy this small from unpinned memory is taken before the call returns.
        self._rates[: len(rates)].copy_(torch.tensor(rates), non_blocking=True)
        self._loaded_rates = rates + self._loaded_rates[len(rates) :]

    def _compute(self, steps: Steps) -> None:
        (sizes,) = steps.sizes
        size = sum(sizes)
        for number, rate in enumerate(steps.rates):
            rows = self._index[number * size : (number + 1) * size]
            self._compute_step(steps.scale, torch.split(rows, list(sizes)))
            self._optimizer.step(rate if self._rates is None else self._rates[number])
            self._replica.parameters.publish()

    def _compute_step(self, scale: float, parts: Sequence[torch.Tensor]) -> None:
        """Compute the sum of all ranks' gradients of one step."""
        self._parts.compute(scale, iter([(part,) for part in parts]), [len(p) for p in parts])
        if self._team.world_size > 1:
            self._team.all_reduce(self._replica.parameters.reduced)
            self._replica.shared.unpack()
