"""Steps computed one at a time, by a strategy's `step`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from tarmac.training.engine.recorder import NUM_CALLS_UNTIL_RECORDED
from tarmac.training.engine.step_runner import Steps
from tarmac.training.engine.strategy import Strategy


class StepByStep:
    """A step runner that computes one step per call by `Strategy.step`; see `StepRunner`.

    Args:
        strategy: Strategy whose `step` computes each step.
    """

    at_once = 1
    joins_samples = False

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy

    def run(self, steps: Steps, batches: Sequence[Iterator[tuple[torch.Tensor, ...]]]) -> None:
        """Compute a step."""
        (rate,) = steps.rates
        group_rates = (own for of_step in steps.group_rates for own in of_step)
        self._strategy.optimizer.set_learning_rate(rate, *group_rates)
        self._strategy.step(steps.scale, batches, steps.sizes)

    def warm_up(self, kinds: Sequence[Steps]) -> None:
        """Compute steps of every kind on zeros, until everything recordable is recorded."""
        for kind in kinds:
            for _ in range(NUM_CALLS_UNTIL_RECORDED):
                batches = [
                    iter([replica.feed.zeros(size) for size in sizes])
                    for replica, sizes in zip(self._strategy.replicas, kind.sizes, strict=True)
                ]
                self.run(kind, batches)

    def reload(self) -> None:
        """Do nothing: a strategy reads the replica's own tensors."""
