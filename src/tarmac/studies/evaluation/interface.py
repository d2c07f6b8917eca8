"""The interface between a study, which proposes networks, and the evaluators that train them.

A study passes a batch of candidates and receives their results in any order. The study does not
know whether the candidates train one by one, in separate processes, or as one stacked model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tarmac.training import Setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class Candidate:
    """A network to train.

    Attributes:
        number: Number of the trial, unique in its study.
        settings: Settings of the network, by the names of ``tarmac train --set``;
            ``learning_rate`` and ``batch_size`` too.
        seed: Seed of the initial weights, the order of samples and all random draws.
        epochs: Maximum number of epochs to train.
        patience: Epochs without a better ``monitor`` after which the training stops; None: never.
        monitor: Metric on held-out data, ``NAME:max`` or ``NAME:min``. Default ``loss:min``.
    """

    number: int
    settings: Mapping[str, Setting]
    seed: int
    epochs: int
    patience: int | None = None
    monitor: str = "loss:min"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Progress:
    """The metrics of a candidate after an epoch.

    Attributes:
        number: Number of the candidate, unique in its study.
        epoch: Number of the finished epoch, from 1.
        metrics: At least ``loss``, ``val_loss`` and each score of the workload, alone and with
            ``val_``: ``accuracy``, ``val_accuracy``.
    """

    number: int
    epoch: int
    metrics: Mapping[str, float]


class EpochReporter(Protocol):
    """A callback after every epoch, which decides whether the candidate goes on."""

    def __call__(self, progress: Progress) -> bool:
        """Return whether to stop the candidate now, as a loser."""
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """The result of a candidate's training.

    Attributes:
        number: Number of the candidate, unique in its study.
        metrics: Metrics of the last epoch, with ``epochs`` (trained), ``num_parameters`` and
            ``seconds`` (in a stack, its share of the time). Empty if it failed.
        stopped: Whether the `EpochReporter`, or an event such as SIGTERM, stopped the training.
        error: Reason for the failure: NaN, out of memory, an exception's message. Default None.
        num_companions: Number of other networks in the same stack.
    """

    number: int
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    stopped: bool = False
    error: str | None = None
    num_companions: int = 0


class Evaluator(Protocol):
    """The interface of evaluators, which train candidates."""

    def evaluate(self, candidates: Sequence[Candidate], report: EpochReporter) -> Iterator[Result]:
        """Train all candidates and yield each result as soon as it is known.

        A failed candidate yields a result, never an exception. Closing the iterator stops the
        running trainings.

        Args:
            candidates: Candidates to train, all with different numbers.
            report: Called after every epoch of each candidate.

        Raises:
            RequestError: The candidates cannot be trained here at all; nothing was started.
        """
        ...
