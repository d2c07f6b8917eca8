"""Trains the networks of one stack, which they leave when they are done."""

from __future__ import annotations

import dataclasses
import math
import time
from typing import TYPE_CHECKING

import torch

from tarmac.studies.evaluation.interface import Progress, Result
from tarmac.studies.evaluation.stacked.arithmetic import Arithmetic, Workspace
from tarmac.studies.evaluation.stacked.layout import Layout, decays
from tarmac.studies.evaluation.stacked.masks import Masks
from tarmac.studies.evaluation.stacked.updates import State, Updates
from tarmac.training import Patience

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tarmac.studies.evaluation.interface import EpochReporter
    from tarmac.studies.evaluation.stacked.architecture import Architecture
    from tarmac.studies.evaluation.stacked.network import Network
    from tarmac.studies.evaluation.stacked.samples import Samples

__all__ = ["arranged", "train_stack"]

_EVALUATION_BATCH = 1000


def arranged(networks: Sequence[Network]) -> list[Network]:
    """Order networks so that equal activations and equal rules lie side by side."""
    rules: dict[object, int] = {}
    for network in networks:
        rules.setdefault(network.rule, len(rules))
    return sorted(networks, key=lambda n: (rules[n.rule], n.activations, n.candidate.number))


def train_stack(
    networks: Sequence[Network],
    built: Sequence[Architecture],
    samples: Samples,
    report: EpochReporter,
    *,
    device: torch.device,
    dtype: torch.dtype,
) -> Iterator[Result]:
    """Train networks of one shape and yield each one's result when it leaves.

    Args:
        networks: As `arranged`.
        built: The same, with their initial weights.
        samples: On the device.
        report: Called after every epoch of each.
        device: The device that the samples are on.
        dtype: Of the matrix products: ``torch.float32`` or ``torch.bfloat16``.
    """
    num_companions = len(networks) - 1
    stack = _Stack(networks, built, samples, device, dtype)
    for epoch in range(max(network.candidate.epochs for network in networks)):
        with torch.no_grad():
            rows = stack.train_epoch(epoch)
        leaving: list[Result] = []
        kept: list[int] = []
        for index, (member, row) in enumerate(zip(stack.members, rows, strict=True)):
            result = member.judge(epoch + 1, row, report)
            if result is None:
                kept.append(index)
            else:
                leaving.append(dataclasses.replace(result, num_companions=num_companions))
        if leaving and kept:
            stack.keep(kept)
        yield from leaving
        if not kept:
            return


class _Member:
    """A network in its stack, and what decides when it leaves."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.seconds = 0.0
        self._patience = Patience(network.candidate.patience)

    def judge(self, epoch: int, row: dict[str, float], report: EpochReporter) -> Result | None:
        """Return its result where it leaves after this epoch, else None."""
        candidate = self.network.candidate
        for name, split in (("loss", "training"), ("val_loss", "validation")):
            if not math.isfinite(row[name]):
                error = f"the {split} loss is {row[name]} in epoch {epoch}: the training diverged"
                return Result(number=candidate.number, error=error)
        self._patience.see(row["val_loss"])
        is_beaten = report(Progress(number=candidate.number, epoch=epoch, metrics=row))
        if epoch < candidate.epochs and not self._patience.is_over and not is_beaten:
            return None
        metrics = row | {
            "epochs": float(epoch),
            "num_parameters": float(self.network.num_parameters),
            "seconds": self.seconds,
        }
        return Result(number=candidate.number, metrics=metrics, stopped=is_beaten)


class _Stack:
    """The tensors of a stack; one row of each is one network."""

    def __init__(
        self,
        networks: Sequence[Network],
        built: Sequence[Architecture],
        samples: Samples,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.members = [_Member(network) for network in networks]
        self._samples = samples
        self._device = device
        self._dtype = dtype
        self._shape = networks[0].shape
        layout = Layout(self._shape.sizes, len(networks))
        self._masks = Masks(
            [network.candidate.seed for network in networks],
            [each.dropouts for each in built],
            self._shape.batch_size * max(self._shape.sizes[1:-1], default=0),
            device,
            dtype,
        )
        self._hold(layout, layout.gather(built).to(device))

    def _hold(self, layout: Layout, values: torch.Tensor) -> None:
        """Set up all that follows from the parameters."""
        networks = [member.network for member in self.members]
        self._layout, self._values = layout, values
        self._published = values if self._dtype == torch.float32 else values.to(self._dtype)
        gradients = torch.zeros_like(self._published)
        self._arithmetic = Arithmetic(
            layout,
            self._published,
            gradients,
            [network.activations for network in networks],
            self._shape.label_smoothing,
        )
        self._updates = Updates(
            [network.rule for network in networks],
            [*zip(layout.segments, self._decays(), strict=True)],
            values,
            gradients,
            None if self._published is values else self._published,
        )
        self._work: dict[int, Workspace] = {}

    def keep(self, kept: Sequence[int]) -> None:
        """Go on with some of the networks."""
        state = self._updates.state()
        self.members = [self.members[index] for index in kept]
        there = torch.tensor(kept, device=self._device)
        before, layout = self._layout, Layout(self._shape.sizes, len(kept))

        def reduced(flat: torch.Tensor) -> torch.Tensor:
            into = torch.zeros(layout.num_elements, device=self._device)
            for rows, all_rows in zip(layout.rows(into), before.rows(flat), strict=True):
                torch.index_select(all_rows, 0, there, out=rows)
            return into

        self._masks.keep(kept)
        self._hold(layout, reduced(self._values))
        flat = {name: reduced(value) for name, value in state.flat.items()}
        self._updates.load_state(State(flat, state.scalars))

    def _decays(self) -> list[float]:
        shape = self._shape
        return decays(shape.names, dict(shape.weight_decay), len(self._layout.segments))

    def train_epoch(self, epoch: int) -> list[dict[str, float]]:
        """Train for an epoch, from 0, and return each network's metrics."""
        started = time.perf_counter()
        count = len(self.members)
        seeds = [member.network.candidate.seed for member in self.members]
        size, num_train = self._shape.batch_size, self._samples.num_train
        num_steps = -(-num_train // size)
        orders = self._samples.orders(seeds, epoch)
        coefficients = self._masks.draw_epoch(num_steps)
        totals = torch.zeros(2, count, dtype=torch.float64, device=self._device)
        for step in range(num_steps):
            index = orders[:, step * size : (step + 1) * size]
            loss, right = self._step(index, coefficients[step])
            totals[0] += loss
            totals[1] += right
            self._updates.step(epoch + step / num_steps)
        scores = torch.cat([totals / num_train, self._validate()]).T.tolist()
        seconds = (time.perf_counter() - started) / count
        for member in self.members:
            member.seconds += seconds
        names = ("loss", "accuracy", "val_loss", "val_accuracy")
        return [dict(zip(names, row, strict=True)) for row in scores]

    def _step(
        self, index: torch.Tensor, coefficients: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        count, batch_size = len(self.members), index.shape[1]
        if batch_size not in self._work:
            self._work[batch_size] = Workspace(
                count, batch_size, self._shape.sizes, self._published
            )
        inputs, targets = self._samples.take(index)
        return self._arithmetic.compute(
            self._prepared(inputs, training=True).expand(count, -1, -1),
            targets.expand(count, -1),
            self._work[batch_size],
            self._masks,
            coefficients,
        )

    def _validate(self) -> torch.Tensor:
        """Return validation losses and accuracies, float64 ``[2, networks]``."""
        count = len(self.members)
        inputs, targets = self._samples.validation
        totals = torch.zeros(2, count, dtype=torch.float64, device=self._device)
        for raw, wanted in zip(
            torch.split(inputs, _EVALUATION_BATCH),
            torch.split(targets, _EVALUATION_BATCH),
            strict=True,
        ):
            batch = self._prepared(raw[None], training=False).expand(count, -1, -1)
            logits = self._arithmetic.evaluate(batch)
            loss, right = self._arithmetic.score(logits, wanted.expand(count, -1))
            totals[0] += loss
            totals[1] += right
        return totals / len(targets)

    def _prepared(self, raw: torch.Tensor, *, training: bool) -> torch.Tensor:
        return self._shape.preprocess(raw, training=training, dtype=self._dtype)
