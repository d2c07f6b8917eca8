"""Compute a stack with PyTorch's batched matrix products, on any device."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from tarmac.studies.evaluation.stacked.arithmetic import Arithmetic, Workspace
from tarmac.studies.evaluation.stacked.layout import Layout, decays
from tarmac.studies.evaluation.stacked.masks import Masks
from tarmac.studies.evaluation.stacked.updates import make_updates, published_of
from tarmac.training import GraphRecorder

if TYPE_CHECKING:
    from tarmac.studies.evaluation.stacked.draws import EpochDraws
    from tarmac.studies.evaluation.stacked.network import Network
    from tarmac.studies.evaluation.stacked.samples import Samples

_EVALUATION_BATCH = 1000

# Steps of one CUDA graph: enough to make the launches beside the graph cheap. Recording takes some
# milliseconds per step, so recording whole epochs would not pay.
_STEPS_AT_ONCE = 16


class Products:
    """A `Computation` with batched matrix products.

    On a GPU, a CUDA graph records several steps. Before each replay, the indices of samples, the
    draws and the rates are copied to the buffers that the graph reads.

    Args:
        networks: Networks of the stack, in the order of `arranged`.
        samples: Training and validation samples, on ``device``.
        device: Device that computes the products.
        dtype: Type of the matrix products: ``torch.float32`` or ``torch.bfloat16``.
    """

    def __init__(
        self,
        networks: Sequence[Network],
        samples: Samples,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self._networks = [*networks]
        self._samples = samples
        self._device = device
        self._dtype = dtype
        self._shape = networks[0].shape
        self.masks = Masks(
            [network.candidate.seed for network in networks],
            [network.dropouts for network in networks],
            self._shape.batch_size * max(self._shape.sizes[1:-1], default=0),
            device,
            dtype,
        )

    def start(self) -> None:
        """See `Computation`."""
        layout = Layout(self._shape.sizes, len(self._networks))
        built = (network.build() for network in self._networks)
        self._hold(layout, layout.gather(built, self._device))

    def _hold(self, layout: Layout, values: torch.Tensor) -> None:
        """Set up all buffers that depend on the parameters."""
        self._layout = layout
        self._published = published_of(values, self._dtype)
        gradients = torch.zeros_like(self._published)
        self._arithmetic = Arithmetic(
            layout,
            self._published,
            gradients,
            [network.activations for network in self._networks],
            self._shape.label_smoothing,
        )
        self._updates = make_updates(
            [network.rule for network in self._networks],
            [*zip(layout.segments, self._decays(), strict=True)],
            values,
            gradients,
            self._published,
        )
        self._work: dict[int, Workspace] = {}
        self._totals = torch.zeros(2, len(self._networks), dtype=torch.float64, device=self._device)
        # Buffers that recordings read, by key.
        self._inputs: dict[tuple[int, int], _Steps] = {}
        self._recorder = GraphRecorder(self._device) if self._device.type == "cuda" else None

    def keep(self, kept: Sequence[int]) -> None:
        """See `Computation`."""
        state = self._updates.state()
        self._networks = [self._networks[index] for index in kept]
        there = torch.tensor(kept, device=self._device)
        before, layout = self._layout, Layout(self._shape.sizes, len(kept))

        def reduced(flat: torch.Tensor) -> torch.Tensor:
            into = torch.zeros(layout.num_elements, device=self._device)
            for rows, all_rows in zip(layout.rows(into), before.rows(flat), strict=True):
                torch.index_select(all_rows, 0, there, out=rows)
            return into

        self._hold(layout, reduced(state.values))
        flat = {name: reduced(value) for name, value in state.flat.items()}
        self._updates.load_state(dataclasses.replace(state, flat=flat))

    def _decays(self) -> list[float]:
        shape = self._shape
        return decays(shape.names, dict(shape.weight_decay), len(self._layout.segments))

    def train_epoch(self, epoch: int, draws: EpochDraws) -> torch.Tensor:
        """See `Computation`."""
        self._totals.zero_()
        num_samples, size = draws.orders.shape[1], self._shape.batch_size
        num_steps = -(-num_samples // size)
        rates = self._updates.rates(epoch + step / num_steps for step in range(num_steps))
        whole = _Steps(_by_step(draws.orders, size), draws.coefficients, rates)
        width = len(draws.orders)
        at_once = num_steps if self._recorder is None else _STEPS_AT_ONCE
        for first in range(0, num_steps, at_once):
            stop = min(first + at_once, num_steps)
            # The last batch may be smaller.
            samples = min(stop * size, num_samples) - first * size
            steps = whole.part(first * size * width, samples * width, first, stop)
            if self._recorder is None:
                self._do(steps, width)
            else:
                self._play(self._recorder, (width, samples), steps)
        return self._totals.clone()

    def _play(self, recorder: GraphRecorder, key: tuple[int, int], steps: _Steps) -> None:
        """Run steps: the first of a key directly, the second while recording, later by replay."""
        is_first = key not in self._inputs
        if is_first:
            self._inputs[key] = steps.copy()
        inputs = self._inputs[key]
        inputs.load(steps)
        do = functools.partial(self._do, inputs, key[0])
        if is_first:
            recorder.call(do)
            return
        recorder.record(key, do)
        if not recorder.replay(key):
            do()

    def _do(self, steps: _Steps, width: int) -> None:
        """Run steps whose batches ``[width, batch]`` are stored one after another."""
        sizes = torch.split(steps.index, width * self._shape.batch_size)
        for index, coefficients, rates in zip(sizes, steps.coefficients, steps.rates, strict=True):
            loss, right = self._step(index.view(width, -1), coefficients)
            self._totals[0] += loss
            self._totals[1] += right
            self._updates.step(rates)

    def _step(
        self, index: torch.Tensor, coefficients: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        count, batch_size = len(self._networks), index.shape[1]
        if batch_size not in self._work:
            self._work[batch_size] = Workspace(
                count, batch_size, self._shape.sizes, self._published
            )
        inputs, targets = self._samples.take(index)
        return self._arithmetic.compute(
            self._prepared(inputs, training=True).expand(count, -1, -1),
            targets.expand(count, -1),
            self._work[batch_size],
            self.masks,
            coefficients,
        )

    def validate(self) -> torch.Tensor:
        """See `Computation`."""
        count = len(self._networks)
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


@dataclasses.dataclass(frozen=True)
class _Steps:
    """The inputs of steps that change from step to step.

    Attributes:
        index: Indices of the training samples, int32, flat.
        coefficients: One row per step; see `Masks.draw_epoch`.
        rates: One row per step; see `Updates.rates`.
    """

    index: torch.Tensor
    coefficients: torch.Tensor
    rates: torch.Tensor

    def part(self, start: int, length: int, first: int, stop: int) -> _Steps:
        """Return the inputs of some of the steps."""
        index = self.index[start : start + length]
        return _Steps(index, self.coefficients[first:stop], self.rates[first:stop])

    def copy(self) -> _Steps:
        """Return a copy, as buffers for a recording."""
        return _Steps(self.index.clone(), self.coefficients.clone(), self.rates.clone())

    def load(self, steps: _Steps) -> None:
        """Copy the values of other steps into these tensors."""
        self.index.copy_(steps.index)
        self.coefficients.copy_(steps.coefficients)
        self.rates.copy_(steps.rates)


def _by_step(orders: torch.Tensor, batch_size: int) -> torch.Tensor:
    """Reorder by batch: each ``[networks, batch_size]``, the last one may be smaller."""
    whole = orders.shape[1] // batch_size * batch_size
    batches = orders[:, :whole].view(len(orders), -1, batch_size).transpose(0, 1)
    return torch.cat([batches.reshape(-1), orders[:, whole:].reshape(-1)])
