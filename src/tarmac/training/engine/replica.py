"""A copy of the model on one device: forward, backward and scores, without an optimizer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

import torch
from torch import nn

from tarmac.data import Loaded, Subset
from tarmac.training.engine.augmented_feed import AugmentedFeed
from tarmac.training.engine.blocks import checkpoint_activations
from tarmac.training.engine.columns import num_samples_of
from tarmac.training.engine.dropout import replace_dropout
from tarmac.training.engine.evaluation import Evaluation
from tarmac.training.engine.feeds import Feed, open_feed
from tarmac.training.engine.linear import mkl_is_held_back, replace_linears
from tarmac.training.engine.loader_feed import LoaderFeed, LoaderFeeds
from tarmac.training.engine.parameters import Parameters
from tarmac.training.engine.pointwise import replace_strided
from tarmac.training.engine.prediction import call_model
from tarmac.training.engine.scoring import Scoring, detached, in_precision
from tarmac.training.engine.shared_state import SharedState
from tarmac.training.plan import Plan

# Mixes a replica's index into its seed. Any large odd number works.
_REPLICA_STRIDE = 0x9E3779B97F4A7C15


def seed_of_replica(seed: int, replica: int) -> int:
    """Return the seed of a replica's own draws, such as dropout's; all share the weights' seed."""
    return (seed + replica * _REPLICA_STRIDE) % 2**63


class Replica:
    """A copy of the model, with gradients and totals of its own.

    Args:
        plan: Training plan, with the recipe, the data, the feed and the precision.
        model: Model that is moved to the device.
        device: Device on which the replica computes.
        rank: Index of this replica among all replicas, from 0.
        source: Parameters of a copy on the same device, whose values this replica shares.
        shard: Function that shards a model and returns its parameters; None without shards. Nothing
            is recorded as CUDA graphs for a sharded model.

    Attributes:
        rank: Index of this replica among all replicas, from 0.
        device: Device on which the replica computes.
        feed: Feed that yields the replica's training samples.
        loader: The feed of a user's dataset or loader; None for other data.
        model: Model in training, on the replica's device.
        parameters: The model's parameters, with their gradients.
        shared: State that replicas share beside the parameters.
        evaluation: Scores the model on held-out samples.
        totals: float64 ``[1 + number of metrics]``: losses and metrics, added up over this
            replica's samples. For weighted samples, the sum of weights follows.
    """

    def __init__(
        self,
        plan: Plan,
        model: nn.Module,
        device: torch.device,
        rank: int,
        source: Parameters | None = None,
        *,
        shard: Callable[[nn.Module], Parameters] | None = None,
    ) -> None:
        self.rank = rank
        self.device = device
        self._recipe = plan.workload.recipe
        train, feeds = plan.held.train, LoaderFeeds(plan.dataset, device, plan.seed)
        self.loader: LoaderFeed | None = None
        if isinstance(train.split, Loaded):
            self.loader = feeds.open(train, self._recipe.batch_size, keeps_workers=True)
        self.feed: Feed = self.loader or open_feed(plan.feed, train, plan.shares.largest, device)
        if self._recipe.augment is not None:
            self.feed = AugmentedFeed(
                self.feed,
                self._recipe.augment,
                num_samples=plan.train_size,
                seed=plan.seed,
                device=device,
            )
        dtype = torch.float64 if plan.precision == "fp64" else torch.float32
        # Convolutions are faster with channels last: by a fifth on a CPU, and tensor cores need it.
        # Sharding moves a model to its device block by block, so the device never holds the whole.
        model.to(device=device if shard is None else None, dtype=dtype)
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # undeclared
        if device.type == "cpu":
            replace_dropout(model)
            replace_strided(model)
            # The compiler chooses its own kernels for products.
            if plan.precision == "fp32" and not plan.compile and mkl_is_held_back():
                replace_linears(model)
        if plan.activation_checkpointing:
            checkpoint_activations(model)
        self._half = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(plan.precision)
        self.parameters = (
            shard(model)
            if shard is not None
            else Parameters(
                model,
                weight_decay=self._recipe.weight_decay,
                owners=tuple(self._recipe.parameter_groups),
                default_decays=self._recipe.default_decays,
                bf16=plan.precision == "bf16",
                fp16=plan.precision == "fp16",
                dtype=dtype,
                num_extra=SharedState.size_of(model),
                source=source,
            )
        )
        self.shared = SharedState(model, self.parameters.extra)
        self._loss_dtype = dtype
        self._input_dtype = self._half or dtype
        self.model = model
        self._forward = torch.compile(model) if plan.compile else model
        objective = plan.workload.objective
        self._scoring = Scoring(objective, label_smoothing=self._recipe.label_smoothing)
        num_totals = 1 + len(self._scoring.names) + (plan.dataset.train.weights is not None)
        self.totals = torch.zeros(num_totals, dtype=torch.float64, device=device)
        self._loss_sum, *self._metric_sums = self.totals.unbind()
        self.evaluation = Evaluation(
            model,
            self._recipe,
            Scoring(objective),
            device,
            dtype=dtype,
            half=self._half,
            keeps=plan.feed == "resident",
            largest=plan.shares.largest,
            loaders=feeds,
            records=shard is None,
        )

    def compute(self, scale: float, *handed: torch.Tensor, add: bool = False) -> None:
        """Compute the gradients of a micro-batch and add its score to the totals.

        Args:
            scale: Factor of each sample's loss: one over the size of the global batch.
            *handed: Tensors of the micro-batch from the feed.
            add: Whether to add to the present gradients instead of replacing them.
        """
        raw, targets = self.feed.samples(*handed)
        inputs = self._recipe.preprocess(raw, training=True, dtype=self._input_dtype)
        with self._autocast():
            output = call_model(self._forward, inputs)
        output = in_precision(output, self._loss_dtype)
        wanted = inputs if targets is None else targets
        weights, num_samples = self.feed.weights(*handed), num_samples_of(raw)
        loss = self._scoring.loss(output, wanted, weights, num_samples)
        scaled = loss * scale
        if self.parameters.loss_scale is not None:
            scaled = scaled * self.parameters.loss_scale.value
        self.parameters.differentiate(scaled, add=add)
        self._loss_sum.add_(loss.detach())
        sums = self._scoring.metrics(detached(output), wanted, weights, num_samples)
        if weights is not None:
            sums.append(weights.sum(dtype=torch.float64))
        for total, value in zip(self._metric_sums, sums, strict=True):
            total.add_(value)

    def evaluate(
        self,
        samples: Subset,
        start: int,
        stop: int,
        after_batch: Callable[[], None],
        *,
        least: int = 0,
    ) -> torch.Tensor:
        """Score a range of samples; see `Evaluation.run`.

        Returns:
            A float64 tensor on the device; see `Evaluation.run`.
        """
        return self.evaluation.run(samples, start, stop, after_batch, least=least)

    def seed(self, seed: int) -> None:
        """Seed this replica's generators; replica 0 continues the generator of the weights."""
        if not self.rank:
            return
        own = seed_of_replica(seed, self.rank)
        # `torch.manual_seed` would also seed the generators of all other GPUs.
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
        """Restore a state that `random_state` returned."""
        torch.set_rng_state(state["cpu"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(state["cuda"], self.device)

    def _autocast(self) -> contextlib.AbstractContextManager[object]:
        # Weights are already cast once a step, so autocast's cache would only hold stale copies.
        half = self._half
        return torch.autocast(self.device.type, half, half is not None, cache_enabled=False)
