"""The training loop: data on the device, no host synchronisation per step.

A step gathers its batch by index on the device, preprocesses it there, and adds its loss and right
answers to totals there. The host reads the totals once an epoch, or a few times a second where
somebody watches.
"""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from tarmac.errors import TarmacError
from tarmac.train._checkpoint import Checkpoint
from tarmac.train._dropout import replace_dropout
from tarmac.train._graph import GraphedStep
from tarmac.train._optim import FlatOptimizer
from tarmac.train._parameters import Parameters
from tarmac.train._plan import build_model

if TYPE_CHECKING:
    from collections.abc import Callable

    from tarmac.data import Split
    from tarmac.train._plan import Plan

__all__ = ["Engine", "Score"]

_EVALUATION_BATCH = 1000

# Mixes the epoch into the seed of its order; any odd number larger than plausible epochs serves.
_EPOCH_STRIDE = 1_000_003


@dataclasses.dataclass(frozen=True)
class Score:
    """How well a model did on some samples: mean cross-entropy, and the share of right answers."""

    loss: float
    accuracy: float


@dataclasses.dataclass(frozen=True)
class _Resident:
    """Samples on the device as they are stored.

    Attributes:
        inputs: uint8 ``[num_samples, *sample_shape]``.
        targets: int64 ``[num_samples]``.
    """

    inputs: torch.Tensor
    targets: torch.Tensor

    @classmethod
    def put(cls, split: Split, start: int, stop: int, device: torch.device) -> _Resident:
        return cls(
            torch.from_numpy(split.inputs[start:stop]).to(device),
            torch.from_numpy(split.targets[start:stop]).to(device),
        )

    def __len__(self) -> int:
        return len(self.targets)


class Engine:
    """A model in training on one device.

    Args:
        plan: What to do.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._recipe = plan.workload.recipe
        self._device = torch.device(plan.device.torch_name)
        self._on_cuda = self._device.type == "cuda"
        model = build_model(plan.workload, plan.model_arguments, plan.seed).to(self._device)
        # Convolutions are faster with channels last: by a fifth on a CPU, and on tensor cores
        # they need it.
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # undeclared
        if not self._on_cuda:
            replace_dropout(model)
        bf16 = plan.precision == "bf16"
        self._parameters = Parameters(model, weight_decay=self._recipe.weight_decay, bf16=bf16)
        self._input_dtype = torch.bfloat16 if bf16 else torch.float32
        self._optimizer = FlatOptimizer(self._recipe.optimizer, self._parameters.groups)
        self._model = model
        self._forward = torch.compile(model) if plan.compile else model
        self._totals = torch.zeros(2, dtype=torch.float64, device=self._device)
        self._loss_sum, self._num_right = self._totals.unbind()
        train = plan.dataset.train
        self._train = _Resident.put(train, 0, plan.train_size, self._device)
        # A compiled model brings CUDA graphs' savings by itself, with fewer kernels.
        self._graphed = (
            GraphedStep(self._step, self._recipe.batch_size, self._device)
            if self._on_cuda and not plan.compile
            else None
        )
        self._seconds = 0.0

    @property
    def num_parameters(self) -> int:
        """The number of trained parameters."""
        return self._parameters.num_parameters

    def train_epoch(
        self, epoch: int, first_step: int, after_step: Callable[[int], bool]
    ) -> tuple[int, float]:
        """Train for one epoch, or until told to stop.

        Args:
            epoch: From 0.
            first_step: Steps of it that are done already.
            after_step: Called with the number of steps done; returns whether to stop there.

        Returns:
            The number of steps done, and the seconds spent on this epoch.
        """
        started = time.perf_counter() - self._seconds
        if first_step == 0:
            self._totals.zero_()
        num_steps = self._plan.num_steps
        batch_size = self._recipe.batch_size
        step_now = self._step if self._graphed is None else self._graphed
        order = self._order(epoch)
        self._model.train()
        done = first_step
        for step in range(first_step, num_steps):
            progress = (epoch + step / num_steps) / self._recipe.epochs
            rate = self._recipe.optimizer.learning_rate * self._recipe.schedule.factor(progress)
            self._optimizer.set_learning_rate(rate)
            step_now(order[step * batch_size : (step + 1) * batch_size])
            done = step + 1
            if after_step(done):
                break
        if self._on_cuda:
            torch.cuda.synchronize(self._device)
        seconds = time.perf_counter() - started
        self._seconds = seconds if done < num_steps else 0.0
        return done, seconds

    def score_so_far(self, num_steps: int) -> Score:
        """Return the training score over the first ``num_steps`` steps of this epoch.

        It is of the model as it was at each step, with dropout. Reading it waits for the device.
        """
        seen = min(num_steps * self._recipe.batch_size, len(self._train))
        loss, right = self._totals.tolist()
        return Score(loss / seen, right / seen)

    def evaluate_validation(self) -> Score:
        """Score the held-out part of the training set."""
        train = self._plan.dataset.train
        return self._evaluate(train, len(train) - self._plan.validation_size)

    def evaluate_test(self) -> Score:
        """Score the test set."""
        return self._evaluate(self._plan.dataset.test, 0)

    def weights(self) -> dict[str, torch.Tensor]:
        """Return parameters and buffers by name, in fp32, as they are now."""
        return self._parameters.state_dict()

    def save(self, epoch: int, step: int) -> Checkpoint:
        """Return the state after ``step`` steps of ``epoch``."""
        random = {"cpu": torch.get_rng_state()}
        if self._on_cuda:
            random["cuda"] = torch.cuda.get_rng_state(self._device)
        return Checkpoint(
            workload=self._plan.reference,
            epoch=epoch,
            step=step,
            seconds=self._seconds,
            model=self.weights(),
            optimizer=self._optimizer.state(),
            random=random,
            totals=self._totals,
        )

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go back to a state that `save` returned for the same plan."""
        self._parameters.load_state_dict(checkpoint.model)
        self._optimizer.load_state(checkpoint.optimizer)
        torch.set_rng_state(checkpoint.random["cpu"])
        if self._on_cuda:
            torch.cuda.set_rng_state(checkpoint.random["cuda"], self._device)
        self._totals.copy_(checkpoint.totals)
        self._seconds = checkpoint.seconds

    def _order(self, epoch: int) -> torch.Tensor:
        """Return this epoch's order of the samples, int64 ``[train_size]``, the same every time."""
        generator = torch.Generator(self._device)
        generator.manual_seed(self._plan.seed * _EPOCH_STRIDE + epoch)
        return torch.randperm(len(self._train), generator=generator, device=self._device)

    def _autocast(self) -> torch.autocast:
        enabled = self._plan.precision == "bf16"
        # Weights are cast once a step already; its cache would only hold on to stale ones.
        return torch.autocast(self._device.type, torch.bfloat16, enabled, cache_enabled=False)

    def _step(self, index: torch.Tensor) -> None:
        """Train on the samples at ``index``, int64 ``[batch]``."""
        inputs = self._recipe.preprocess(
            self._train.inputs.index_select(0, index), training=True, dtype=self._input_dtype
        )
        targets = self._train.targets.index_select(0, index)
        with self._autocast():
            logits = self._forward(inputs)
        loss = F.cross_entropy(
            logits.float(), targets, label_smoothing=self._recipe.label_smoothing
        )
        gradients = torch.autograd.grad(loss, self._parameters.leaves, allow_unused=True)
        self._parameters.take_gradients(gradients)
        self._optimizer.step()
        self._parameters.publish()
        self._loss_sum.add_(loss.detach(), alpha=len(index))
        self._num_right.add_((logits.detach().argmax(1) == targets).sum())

    @torch.no_grad()
    def _evaluate(self, split: Split, start: int) -> Score:
        self._model.eval()
        totals = torch.zeros(2, dtype=torch.float64, device=self._device)
        for first in range(start, len(split), _EVALUATION_BATCH):
            batch = _Resident.put(
                split, first, min(first + _EVALUATION_BATCH, len(split)), self._device
            )
            inputs = self._recipe.preprocess(batch.inputs, training=False, dtype=self._input_dtype)
            with self._autocast():
                logits = self._model(inputs)
            loss = F.cross_entropy(logits.float(), batch.targets, reduction="sum")
            totals += torch.stack([loss, (logits.argmax(1) == batch.targets).sum()])
        loss_sum, right_sum = totals.tolist()
        num_samples = len(split) - start
        return Score(loss_sum / num_samples, right_sum / num_samples)


def check_finite(score: Score, epoch: int) -> None:
    """Raise a TarmacError where a training has diverged.

    Args:
        score: Of the training set.
        epoch: From 1, for the message.
    """
    if not torch.isfinite(torch.tensor(score.loss)):
        raise TarmacError(
            f"the loss is {score.loss} in epoch {epoch}: the training has diverged",
            hint="Try a lower --lr, or --precision fp32.",
        )
