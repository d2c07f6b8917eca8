"""Scoring of held-out samples: kept on the device if they fit, and by CUDA graphs on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import nn

from tarmac.data import Loaded, Split, Subset, columns_of
from tarmac.training.engine.columns import Arrangement, num_samples_of, put_on, view
from tarmac.training.engine.loader_feed import LoaderFeed, LoaderFeeds
from tarmac.training.engine.prediction import predict
from tarmac.training.engine.recorder import NUM_CALLS_UNTIL_RECORDED, Graphed
from tarmac.training.engine.scoring import Scoring, in_precision
from tarmac.training.engine.set_scores import SetScores
from tarmac.workloads import Recipe

_SMALLEST_BATCH = 1000

# Input values per batch where the outputs may be many times the inputs, as the logits of every
# token are. A batch of a training step's size is known to fit too.
_FEW_VALUES = 2**13

# Input values per batch of a classification on a GPU. All 10,000 samples of MNIST's test set fit.
_MAX_VALUES = 2**23

# Share of the free memory for evaluation samples, after the training samples have been placed.
_RESIDENT_SHARE = 0.25

# Number of ranges that stay on the device: validation and test.
_MAX_RESIDENT = 2


class Evaluation:
    """A model's score on ranges of samples.

    Args:
        model: Model to evaluate, already on ``device``.
        recipe: Recipe of the training; it preprocesses the inputs and sets the test views.
        scoring: Computes the loss and the metrics from the model's output.
        device: Device on which the model computes.
        dtype: Floating-point type of the losses, and of the inputs unless ``half`` is set.
        half: 16-bit type of the inputs and the matrix products; None for ``dtype``.
        keeps: Whether samples may stay on the device.
        largest: Samples in the largest micro-batch of a training step.
        loaders: Opener of feeds for data from a user's dataset or loader.
        records: Whether CUDA graphs may record the evaluation.

    Attributes:
        set_scores: Metrics over all samples of the latest range together.
    """

    def __init__(
        self,
        model: nn.Module,
        recipe: Recipe,
        scoring: Scoring,
        device: torch.device,
        *,
        dtype: torch.dtype,
        half: torch.dtype | None,
        keeps: bool,
        largest: int,
        loaders: LoaderFeeds,
        records: bool = True,
    ) -> None:
        self._model = model
        self._device = device
        self._keeps = keeps and device.type == "cuda"
        self._largest = largest
        self.set_scores = SetScores(scoring.set_metrics, device)
        # A metric over all samples keeps a growing state, which a graph cannot hold.
        self._records = records and device.type == "cuda" and not self.set_scores
        self._scoring = scoring
        self._resident: dict[tuple[int, int, int], tuple[torch.Tensor, ...]] = {}
        num_totals = 2 + len(scoring.names)
        self._totals = torch.zeros(num_totals, dtype=torch.float64, device=device)
        self._compute = partial(
            _add_score,
            model,
            recipe,
            scoring,
            self._totals,
            set_scores=self.set_scores,
            dtype=dtype,
            half=half,
        )
        self._by_split: dict[int, Callable[..., None]] = {}
        self._loaders = loaders
        self._feeds: dict[int, LoaderFeed] = {}

    @torch.no_grad()
    def run(
        self,
        samples: Subset,
        start: int,
        stop: int,
        after_batch: Callable[[], None],
        *,
        least: int = 0,
    ) -> torch.Tensor:
        """Score a range of samples.

        Args:
            samples: Samples to score; the object must live as long as this evaluation.
            start: Index of the first sample in the range, from 0.
            stop: Index after the last sample in the range.
            after_batch: Called after each batch.
            least: Call the model as often as for this number of samples, with empty batches at the
                end. Needed if other ranks wait for this rank's calls.

        Returns:
            float64 ``[2 + number of metrics]`` on the device: the sums of losses, of each metric,
            and of weights. The last stays 0 if the samples have no weights.
        """
        self._model.eval()
        self._totals.zero_()
        self.set_scores.reset()
        add_score = self._adding(samples.split)
        for batch in self._batches(samples, start, stop):
            add_score(*batch)
            after_batch()
        size = self._batch_size(samples.split)
        for _ in range(-(-least // size) - -(-(stop - start) // size)):
            add_score(*self._none_of(samples))
        return self._totals.clone()

    @torch.no_grad()
    def warm_up(self, samples: Subset, start: int, stop: int) -> None:
        """Put a range on the device if it fits, and record batches of every size it has."""
        self._model.eval()
        split = samples.split
        add_score = self._adding(split)
        if isinstance(split, Loaded):
            # Only the sizes matter, and reading loaded samples takes time.
            largest, count = self._batch_size(split), stop - start
            sizes = {min(largest, count), count % largest} - {0}
            by_size = {size: self._feed(samples).zeros(size) for size in sizes}
        else:
            by_size = {len(batch[0]): batch for batch in self._batches(samples, start, stop)}
        for batch in by_size.values():
            for _ in range(NUM_CALLS_UNTIL_RECORDED):
                add_score(*batch)

    def _adding(self, split: Split) -> Callable[..., None]:
        """Return a function that adds a batch's score to the totals, given each column's tensor."""
        if id(split) not in self._by_split:
            add_score: Callable[..., None] = partial(self._compute, Arrangement(split))
            if self._records:
                add_score = Graphed(add_score, self._device)
            self._by_split[id(split)] = add_score
        return self._by_split[id(split)]

    def _batches(
        self, samples: Subset, start: int, stop: int
    ) -> Iterator[tuple[torch.Tensor, ...]]:
        batch_size = self._batch_size(samples.split)
        if isinstance(samples.split, Loaded):
            spans = [(at, min(at + batch_size, stop)) for at in range(start, stop, batch_size)]
            yield from self._feed(samples).batches(torch.arange(stop), spans)
            return
        resident = self._bring(samples, start, stop)
        for first in range(start, stop, batch_size):
            last = min(first + batch_size, stop)
            if resident is not None:
                yield tuple(column[first - start : last - start] for column in resident)
            else:
                yield self._send(samples, first, last)

    def _feed(self, samples: Subset) -> LoaderFeed:
        key = id(samples)
        if key not in self._feeds:
            self._feeds[key] = self._loaders.open(samples, self._largest, keeps_workers=False)
        return self._feeds[key]

    def _batch_size(self, split: Split) -> int:
        num_values: int = sum(column[0].size for column in columns_of(split.inputs).values())
        if not self._scoring.is_classification:
            return min(_SMALLEST_BATCH, max(self._largest, _FEW_VALUES // num_values))
        if self._device.type == "cuda":
            return max(_SMALLEST_BATCH, _MAX_VALUES // num_values)
        return _SMALLEST_BATCH

    def _bring(self, samples: Subset, start: int, stop: int) -> tuple[torch.Tensor, ...] | None:
        """Return a range that stays on the device; None if it does not fit."""
        key = (id(samples), start, stop)
        if key not in self._resident:
            size = samples.nbytes(start, stop)
            if not self._keeps or len(self._resident) == _MAX_RESIDENT:
                return None
            if size > _RESIDENT_SHARE * torch.cuda.mem_get_info(self._device)[0]:
                return None
            self._resident[key] = put_on(self._device, samples, start, stop)
        return self._resident[key]

    def _none_of(self, samples: Subset) -> tuple[torch.Tensor, ...]:
        """Return a batch without samples."""
        if isinstance(samples.split, Loaded):
            return self._feed(samples).zeros(0)
        return self._send(samples, 0, 0)

    def _send(self, samples: Subset, start: int, stop: int) -> tuple[torch.Tensor, ...]:
        return tuple(
            view(samples.of(column, start, stop)).to(self._device, copy=True)
            for column in samples.split.columns.values()
        )


def _add_score(
    model: nn.Module,
    recipe: Recipe,
    scoring: Scoring,
    totals: torch.Tensor,
    arrangement: Arrangement,
    *columns: torch.Tensor,
    set_scores: SetScores,
    dtype: torch.dtype,
    half: torch.dtype | None,
) -> None:
    """Add a batch's losses, metrics and weights to ``totals``, the rest to ``set_scores``."""
    inputs, targets = arrangement.batch(columns)
    weights, num_samples = arrangement.weights(columns), num_samples_of(inputs)
    device = columns[0].device.type
    taken = recipe.preprocess(inputs, training=False, dtype=half or dtype)
    with torch.autocast(device, half, half is not None, cache_enabled=False):
        output = predict(model, taken, recipe.test_views)
    output, wanted = in_precision(output, dtype), taken if targets is None else targets
    sums = [scoring.loss(output, wanted, weights, num_samples)]
    sums += scoring.metrics(output, wanted, weights, num_samples)
    if weights is not None:
        sums.append(weights.sum(dtype=torch.float64))
    totals[: len(sums)].add_(torch.stack(sums))
    if num_samples:
        set_scores.update(output, wanted)
