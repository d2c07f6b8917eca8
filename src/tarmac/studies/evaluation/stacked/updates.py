"""Optimizer steps over a stack's parameters: each network with its own optimizer and rate.

`tarmac.training.FlatOptimizer` updates the parameters of networks with equal rules as it does a
single network's. On a CPU, updates run in blocks that fit the cache: each block casts its gradients
to fp32, applies them, and publishes the new values in the precision of the products. On a GPU,
launches cost the most: the values of a rule are in one flat tensor, wherever its networks are in
the stack. The gradients of all rules are gathered at once, and their values are published at once.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import torch

from tarmac.training import FlatOptimizer, Group
from tarmac.workloads import Optimizer, Schedule

if TYPE_CHECKING:
    from tarmac.studies.evaluation.stacked.layout import Segment

# Elements of a block on a CPU: its values, gradients, two averages and published values are
# 1.4 MiB, which fits the second-level cache of a current Xeon's core. For 784-768-768-768-768-10
# this takes 9 % less time than whole layers do with Adam, and a third less with Adadelta, which
# passes through memory more often.
_BLOCK = 1 << 16

# In elements: kernels load several elements at a time from the start of a tensor.
_ALIGNMENT = 32

# A slice of the flat tensors, and its weight decay.
_Piece = tuple[slice, float]


@dataclasses.dataclass(frozen=True)
class Rule:
    """The update rule of a network; networks with equal rules are updated as one.

    Attributes:
        optimizer: Optimizer with its learning rate.
        schedule: Schedule that scales the learning rate.
        epochs: Number of epochs that the schedule spans.
    """

    optimizer: Optimizer
    schedule: Schedule
    epochs: int


@dataclasses.dataclass(frozen=True)
class State:
    """The state of a stack's optimizers.

    Attributes:
        values: Parameters of all networks, in a flat tensor.
        flat: States by name, in the layout of the parameters; zero for networks without one.
        scalars: Scalar states by rule and name.
    """

    values: torch.Tensor
    flat: Mapping[str, torch.Tensor]
    scalars: Mapping[Rule, Mapping[str, torch.Tensor]]


class Updates(Protocol):
    """The optimizers of a stack."""

    def rates(self, epochs_done: Iterable[float]) -> torch.Tensor:
        """Return the learning rates of steps, ``[steps, rules]``, on the device where `step` reads.

        Args:
            epochs_done: Epochs done before each step, with the fraction of the current epoch.
        """
        ...

    def step(self, rates: torch.Tensor) -> None:
        """Update all values.

        Args:
            rates: A row of `rates`; on a GPU, a recording reads this tensor in place.
        """
        ...

    def state(self) -> State:
        """Return the values and the state of the optimizers."""
        ...

    def load_state(self, state: State) -> None:
        """Set the state of the optimizers."""
        ...


def published_of(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the parameters for the products: the values on a CPU in fp32, else a copy."""
    return values.to(dtype, copy=values.is_cuda)


def make_updates(
    rules: Sequence[Rule],
    segments: Sequence[tuple[Segment, float]],
    values: torch.Tensor,
    gradients: torch.Tensor,
    published: torch.Tensor,
) -> Updates:
    """Return the optimizers of a stack that suit its device.

    Args:
        rules: Rules of the networks; on a CPU, equal rules side by side.
        segments: Segments of the `Layout`, each with its weight decay.
        values: Parameters, fp32; on a CPU updated in place.
        gradients: Gradients in the precision of the products.
        published: Tensor from `published_of`, which receives the new values.
    """
    make = WholeUpdates if values.is_cuda else BlockedUpdates
    return make(rules, segments, values, gradients, published)


def rates_of(rules: Sequence[Rule], epochs_done: Iterable[float]) -> torch.Tensor:
    """Return learning rates, fp64 ``[steps, rules]``, on the CPU.

    Args:
        rules: Any number of rules, one column each; equal schedules are computed once.
        epochs_done: Epochs done before each step, with the fraction under way; see `Updates.rates`.
    """
    steps = [*epochs_done]
    factors = {
        (schedule, epochs): torch.tensor(
            [schedule.factor(done / epochs) for done in steps], dtype=torch.float64
        )
        for schedule, epochs in {(rule.schedule, rule.epochs) for rule in rules}
    }
    return torch.stack(
        [factors[rule.schedule, rule.epochs] * rule.optimizer.learning_rate for rule in rules],
        dim=1,
    )


class BlockedUpdates:
    """The optimizers of a stack, in blocks of the cache's size; see `make_updates`."""

    def __init__(
        self,
        rules: Sequence[Rule],
        segments: Sequence[tuple[Segment, float]],
        values: torch.Tensor,
        gradients: torch.Tensor,
        published: torch.Tensor,
    ) -> None:
        self._values = values
        cuts = {
            rule: [*_blocks([*_pieces(segments, start, stop)], _BLOCK)]
            for rule, start, stop in _runs(rules)
        }
        scratch = None
        if published is not values:
            largest = max(_size(block) for blocks in cuts.values() for block in blocks)
            scratch = torch.empty(largest, device=values.device)
        tensors = _Tensors(values, gradients, published, scratch)
        self._blocks = [
            (rule, [_Block(rule, block, tensors) for block in blocks])
            for rule, blocks in cuts.items()
        ]

    def rates(self, epochs_done: Iterable[float]) -> torch.Tensor:
        """See `Updates`; fp64, on the CPU."""
        return rates_of([rule for rule, _ in self._blocks], epochs_done)

    def step(self, rates: torch.Tensor) -> None:
        """See `Updates`."""
        for (_, blocks), rate in zip(self._blocks, rates.tolist(), strict=True):
            for block in blocks:
                block.step(rate)

    def state(self) -> State:
        """See `Updates`."""
        flat: dict[str, torch.Tensor] = {}
        scalars: dict[Rule, dict[str, torch.Tensor]] = {}
        for rule, blocks in self._blocks:
            for block in blocks:
                for name, span, value in block.state():
                    if value.dim():
                        whole = flat.setdefault(name, torch.zeros_like(self._values))
                        whole[span] = value
                    else:
                        scalars.setdefault(rule, {})[name] = value
        return State(self._values, flat, scalars)

    def load_state(self, state: State) -> None:
        """See `Updates`."""
        for rule, blocks in self._blocks:
            for block in blocks:
                for name, span, value in block.state():
                    source = state.flat[name][span] if value.dim() else state.scalars[rule][name]
                    value.copy_(source)


class WholeUpdates:
    """The optimizers of a stack, in as few launches as possible; see `make_updates`.

    The values are stored here, rule by rule; only the published tensor has the networks' layout.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        segments: Sequence[tuple[Segment, float]],
        values: torch.Tensor,
        gradients: torch.Tensor,
        published: torch.Tensor,
    ) -> None:
        spans: dict[tuple[Rule, float], list[slice]] = {}
        for rule, start, stop in _runs(rules):
            for span, decay in _pieces(segments, start, stop):
                spans.setdefault((rule, decay), []).append(span)
        self._num_elements = values.numel()
        self._gatherings = [*itertools.starmap(_Gathering, _placed([*spans.values()]))]
        size = max(gathering.whole.stop for gathering in self._gatherings)
        self._values = torch.zeros(size, device=values.device)
        self._gradients = torch.zeros_like(self._values)
        groups: dict[Rule, list[Group]] = {}
        for (rule, decay), gathering in zip(spans, self._gatherings, strict=True):
            whole = gathering.whole
            group = Group(decay, self._values[whole], self._gradients[whole])
            groups.setdefault(rule, []).append(group)
        self._optimizers = {
            rule: FlatOptimizer(rule.optimizer, own) for rule, own in groups.items()
        }
        self._own_values = self._gathered(self._values)
        self._own_gradients = self._gathered(self._gradients)
        self._sources = self._scattered(gradients)
        self._published = self._scattered(published)
        torch._foreach_copy_(self._own_values, self._scattered(values))

    def rates(self, epochs_done: Iterable[float]) -> torch.Tensor:
        """See `Updates`; fp32, on the device."""
        rates = rates_of([*self._optimizers], epochs_done)
        return rates.to(device=self._values.device, dtype=torch.float32)

    def step(self, rates: torch.Tensor) -> None:
        """See `Updates`."""
        torch._foreach_copy_(self._own_gradients, self._sources)
        for optimizer, rate in zip(self._optimizers.values(), rates, strict=True):
            optimizer.step(rate)
        torch._foreach_copy_(self._published, self._own_values)

    def state(self) -> State:
        """See `Updates`."""
        flat: dict[str, torch.Tensor] = {}
        scalars: dict[Rule, dict[str, torch.Tensor]] = {}
        for rule, gathering, name, value in self._states():
            if value.dim():
                whole = flat.setdefault(name, self._empty())
                torch._foreach_copy_(gathering.scattered(whole), gathering.split(value))
            else:
                scalars.setdefault(rule, {})[name] = value
        values = self._empty()
        torch._foreach_copy_(self._scattered(values), self._own_values)
        return State(values, flat, scalars)

    def load_state(self, state: State) -> None:
        """See `Updates`."""
        for rule, gathering, name, value in self._states():
            if value.dim():
                torch._foreach_copy_(gathering.split(value), gathering.scattered(state.flat[name]))
            else:
                value.copy_(state.scalars[rule][name])

    def _states(self) -> Iterator[tuple[Rule, _Gathering, str, torch.Tensor]]:
        gatherings = iter(self._gatherings)
        for rule, optimizer in self._optimizers.items():
            of_groups: dict[int, _Gathering] = {}
            for key, value in optimizer.state().items():
                index, _, name = key.partition(".")
                if int(index) not in of_groups:
                    of_groups[int(index)] = next(gatherings)
                yield rule, of_groups[int(index)], name, value

    def _empty(self) -> torch.Tensor:
        return torch.zeros(self._num_elements, device=self._values.device)

    def _gathered(self, whole: torch.Tensor) -> list[torch.Tensor]:
        return [
            part
            for gathering in self._gatherings
            for part in gathering.split(whole[gathering.whole])
        ]

    def _scattered(self, whole: torch.Tensor) -> list[torch.Tensor]:
        return [part for gathering in self._gatherings for part in gathering.scattered(whole)]


@dataclasses.dataclass(frozen=True)
class _Gathering:
    """Slices of the parameters, gathered into one.

    Attributes:
        whole: Slice of the gathered tensor.
        spans: Slices of the stack's flat tensor.
    """

    whole: slice
    spans: Sequence[slice]

    def split(self, gathered: torch.Tensor) -> list[torch.Tensor]:
        """View the gathered slices, one by one."""
        return [*torch.split(gathered, [span.stop - span.start for span in self.spans])]

    def scattered(self, whole: torch.Tensor) -> list[torch.Tensor]:
        """View the slices in the stack's flat tensor."""
        return [whole[span] for span in self.spans]


def _placed(groups: Sequence[Sequence[slice]]) -> Iterator[tuple[slice, Sequence[slice]]]:
    """Yield each group of slices with its position in the gathered tensor."""
    start = 0
    for spans in groups:
        length = sum(span.stop - span.start for span in spans)
        yield slice(start, start + length), spans
        start += -(-length // _ALIGNMENT) * _ALIGNMENT


@dataclasses.dataclass(frozen=True)
class _Tensors:
    """The flat tensors of a stack's blocks; ``scratch`` takes a block's gradients in fp32."""

    values: torch.Tensor
    gradients: torch.Tensor
    published: torch.Tensor
    scratch: torch.Tensor | None


class _Block:
    """Slices of the parameters that one optimizer updates at once."""

    def __init__(self, rule: Rule, pieces: Sequence[_Piece], tensors: _Tensors) -> None:
        self._spans = [span for span, _ in pieces]
        self._values = [tensors.values[span] for span in self._spans]
        self._sources = [tensors.gradients[span] for span in self._spans]
        self._published = None
        self._applied = self._sources
        if tensors.scratch is not None:
            self._published = [tensors.published[span] for span in self._spans]
            sizes = [value.numel() for value in self._values]
            self._applied = [*torch.split(tensors.scratch[: sum(sizes)], sizes)]
        groups = [
            Group(decay, value, gradient)
            for (_, decay), value, gradient in zip(pieces, self._values, self._applied, strict=True)
        ]
        self._optimizer = FlatOptimizer(rule.optimizer, groups)

    def step(self, rate: float) -> None:
        if self._published is None:
            self._optimizer.step(rate)
            return
        torch._foreach_copy_(self._applied, self._sources)
        self._optimizer.step(rate)
        torch._foreach_copy_(self._published, self._values)

    def state(self) -> Iterator[tuple[str, slice, torch.Tensor]]:
        """Yield the name, the slice and the tensor of each state."""
        for key, value in self._optimizer.state().items():
            index, _, name = key.partition(".")
            yield name, self._spans[int(index)], value


def _runs(rules: Sequence[Rule]) -> Iterator[tuple[Rule, int, int]]:
    start = 0
    for rule, equal in itertools.groupby(rules):
        stop = start + len([*equal])
        yield rule, start, stop
        start = stop


def _pieces(segments: Sequence[tuple[Segment, float]], start: int, stop: int) -> Iterator[_Piece]:
    """Yield the slices of networks ``start`` to ``stop``, one for each parameter."""
    for segment, decay in segments:
        first, last = (segment.start + index * segment.length for index in (start, stop))
        yield slice(first, last), decay


def _blocks(pieces: Sequence[_Piece], size: int) -> Iterator[list[_Piece]]:
    """Split large pieces and join small ones, to blocks of up to ``size`` elements."""
    block: list[_Piece] = []
    for span, decay in pieces:
        length = span.stop - span.start
        num_parts = -(-length // size)
        edges = [span.start + length * part // num_parts for part in range(num_parts + 1)]
        for first, last in itertools.pairwise(edges):
            if block and _size(block) + last - first > size:
                yield block
                block = []
            block.append((slice(first, last), decay))
    yield block


def _size(block: Sequence[_Piece]) -> int:
    return sum(span.stop - span.start for span, _ in block)
