"""The interface between a study, which proposes networks, and the evaluators that train them.

A study hands over a batch of candidates and takes their results as they come, in any order. It does
not know whether they were trained one by one, in processes of their own, or as one stacked model.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tarmac.training import Setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class Candidate:
    """A network to train.

    Attributes:
        number: The trial's, unique in its study.
        settings: What it sets, by the names that ``tarmac train --set`` takes;
            ``learning_rate`` and ``batch_size`` too.
        seed: Seed of the initial weights, the order of samples and all random draws.
        epochs: Maximum number of epochs to train.
        patience: It stops once ``monitor`` has not got better for so many epochs; None for never.
        monitor: A metric on held-out data, ``NAME:max`` or ``NAME:min``.
    """

    number: int
    settings: Mapping[str, Setting]
    seed: int
    epochs: int
    patience: int | None = None
    monitor: str = "loss:min"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Progress:
    """A candidate at the end of one of its epochs.

    Attributes:
        number: Number of the candidate, unique in its study.
        epoch: Number of the finished epoch, from 1.
        metrics: At least ``loss``, ``val_loss`` and each metric that the workload is scored by,
            alone and with ``val_``: ``accuracy``, ``val_accuracy``.
    """

    number: int
    epoch: int
    metrics: Mapping[str, float]


class EpochReporter(Protocol):
    """Receives every epoch of every candidate, and decides whether the candidate goes on."""

    def __call__(self, progress: Progress) -> bool:
        """Return whether the candidate is to stop here, as a loser."""
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """How a candidate's training ended.

    Attributes:
        number: Number of the candidate, unique in its study.
        metrics: Metrics of the last epoch, with ``epochs`` (trained), ``num_parameters`` and
            ``seconds`` (its share of the time, where several were trained as one). Empty if it
            failed.
        stopped: Whether the `EpochReporter` stopped it, or something else that was not its fault.
        error: Why it failed: NaN, out of memory, an exception's message. None if it did not.
        num_companions: How many other networks were trained in the same stack.
    """

    number: int
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    stopped: bool = False
    error: str | None = None
    num_companions: int = 0


class Evaluator(Protocol):
    """Trains candidates."""

    def evaluate(self, candidates: Sequence[Candidate], report: EpochReporter) -> Iterator[Result]:
        """Train all candidates and yield each one's result as soon as it is there.

        One candidate's failure is its result, never an exception. Closing the iterator stops what
        is still being trained.

        Args:
            candidates: Candidates to train, all with different numbers.
            report: Called after every epoch of each candidate.

        Raises:
            RequestError: The candidates cannot be trained here at all; nothing was started.
        """
        ...
