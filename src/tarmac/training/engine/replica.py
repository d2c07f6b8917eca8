"""A copy of the model on one device: forward, backward and scores, without an optimizer."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from tarmac.training.engine.augmented_feed import AugmentedFeed
from tarmac.training.engine.dropout import replace_dropout
from tarmac.training.engine.evaluation import Evaluation
from tarmac.training.engine.feeds import open_feed
from tarmac.training.engine.linear import mkl_is_held_back, replace_linears
from tarmac.training.engine.parameters import Parameters
from tarmac.training.engine.shared_state import SharedState

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Callable, Mapping

    from torch import nn

    from tarmac.data import Split
    from tarmac.training.engine.feeds import Feed
    from tarmac.training.plan import Plan

__all__ = ["Replica", "Score", "seed_of_replica"]

# Mixes a replica's number into its seed; any large odd number serves.
_REPLICA_STRIDE = 0x9E3779B97F4A7C15


@dataclasses.dataclass(frozen=True)
class Score:
    """How well a model did on some samples: mean cross-entropy, and the share of right answers."""

    loss: float
    accuracy: float


def seed_of_replica(seed: int, replica: int) -> int:
    """Return the seed of a replica's own draws, such as dropout's; all share their weights'."""
    return (seed + replica * _REPLICA_STRIDE) % 2**63


class Replica:
    """A copy of the model, with gradients and totals of its own.

    Args:
        plan: What to do.
        model: Goes to the device.
        device: Where it computes.
        rank: Which replica of all it is, from 0.
        source: The parameters of a copy on the same device, to be shown here as they are.

    Attributes:
        rank: Which replica of all it is, from 0.
        device: Where it computes.
        feed: Where its samples come from.
        model: As it is trained.
        parameters: The model's.
        shared: What replicas have in common beside the parameters.
        evaluation: Its model's scores on other samples.
        totals: float64 ``[2]``: losses and right answers, added up over this replica's samples.
    """

    def __init__(
        self,
        plan: Plan,
        model: nn.Module,
        device: torch.device,
        rank: int,
        source: Parameters | None = None,
    ) -> None:
        self.rank = rank
        self.device = device
        self._recipe = plan.workload.recipe
        self.feed: Feed = open_feed(
            plan.feed, plan.dataset.train, plan.train_size, plan.shares.largest, device
        )
        if self._recipe.augment is not None:
            self.feed = AugmentedFeed(
                self.feed,
                self._recipe.augment,
                num_samples=plan.train_size,
                seed=plan.seed,
                device=device,
            )
        dtype = torch.float64 if plan.precision == "fp64" else torch.float32
        # Convolutions are faster with channels last: by a fifth on a CPU, and on tensor cores
        # they need it.
        model.to(device=device, dtype=dtype)
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # undeclared
        if device.type == "cpu":
            replace_dropout(model)
            # The compiler chooses products itself.
            if plan.precision == "fp32" and not plan.compile and mkl_is_held_back():
                replace_linears(model)
        self._bf16 = plan.precision == "bf16"
        self.parameters = Parameters(
            model,
            weight_decay=self._recipe.weight_decay,
            owners=tuple(self._recipe.parameter_groups),
            bf16=self._bf16,
            dtype=dtype,
            num_extra=SharedState.size_of(model),
            source=source,
        )
        self.shared = SharedState(model, self.parameters.extra)
        self._loss_dtype = dtype
        self._input_dtype = torch.bfloat16 if self._bf16 else dtype
        self.model = model
        self._forward = torch.compile(model) if plan.compile else model
        self.totals = torch.zeros(2, dtype=torch.float64, device=device)
        self._loss_sum, self._num_right = self.totals.unbind()
        self.evaluation = Evaluation(
            model,
            self._recipe,
            device,
            dtype=dtype,
            bf16=self._bf16,
            keeps=plan.feed == "resident",
        )

    def compute(self, scale: float, *handed: torch.Tensor, add: bool = False) -> None:
        """Compute the gradients of a micro-batch and add its score to the totals.

        Args:
            scale: Factor of each sample's loss: one over the size of the global batch.
            *handed: What the feed handed over.
            add: Whether to add to the gradients that are there.
        """
        raw, targets = self.feed.samples(*handed)
        inputs = self._recipe.preprocess(raw, training=True, dtype=self._input_dtype)
        with self._autocast():
            logits = self._forward(inputs)
        loss = F.cross_entropy(
            logits.to(self._loss_dtype),
            targets,
            reduction="sum",
            label_smoothing=self._recipe.label_smoothing,
        )
        leaves = self.parameters.leaves
        gradients = torch.autograd.grad(loss * scale, leaves, allow_unused=True)
        self.parameters.take_gradients(gradients, add=add)
        self._loss_sum.add_(loss.detach())
        self._num_right.add_((logits.detach().argmax(1) == targets).sum())

    def evaluate(
        self, split: Split, start: int, stop: int, after_batch: Callable[[], None]
    ) -> torch.Tensor:
        """Score a range of samples.

        Returns:
            float64 ``[2]`` on the device: the sum of losses and of right answers.
        """
        return self.evaluation.run(split, start, stop, after_batch)

    def seed(self, seed: int) -> None:
        """Start this replica's draws; those of replica 0 go on from the weights'."""
        if not self.rank:
            return
        own = seed_of_replica(seed, self.rank)
        # `torch.manual_seed` would start the generators of all other GPUs with it too.
        torch.default_generator.manual_seed(own)
        if self.device.type == "cuda":
            torch.cuda.default_generators[self.device.index].manual_seed(own)

    def random_state(self) -> dict[str, torch.Tensor]:
        """Return the state of the generators that this replica draws from, by device type."""
        state = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            state["cuda"] = torch.cuda.get_rng_state(self.device)
        return state

    def set_random_state(self, state: Mapping[str, torch.Tensor]) -> None:
        """Go back to a state that `random_state` returned."""
        torch.set_rng_state(state["cpu"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(state["cuda"], self.device)

    def _autocast(self) -> contextlib.AbstractContextManager[object]:
        # Weights are cast once a step already; its cache would only hold on to stale ones.
        return torch.autocast(self.device.type, torch.bfloat16, self._bf16, cache_enabled=False)
