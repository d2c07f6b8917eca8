"""A search without networks: an evaluator whose results depend only on a network's settings.

Example:
    >>> study = make_study(tmp_path, Space({"neurons": Choices((16, 32, 64))}), method="random")
    >>> search_without_networks(study)
    'all 3 networks of the space were tried'
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tarmac.studies import (
    Candidate,
    EpochReporter,
    Evaluator,
    Progress,
    Reporter,
    Result,
    Silent,
    Space,
)
from tarmac.studies.evaluation.choice import Chosen
from tarmac.studies.loop import SearchLoop
from tarmac.studies.request import make_request
from tarmac.studies.study.writer import StudyWriter
from tarmac.training import Setting


def accuracy_of(settings: Mapping[str, Setting]) -> float:
    """Return a number in [0, 1) that depends only on a network's settings."""
    digest = hashlib.sha256(json.dumps(dict(settings), sort_keys=True).encode()).digest()
    return int.from_bytes(digest[:4], "big") / 2**32


class StandIn:
    """An evaluator without training, whose accuracies rise linearly from epoch to epoch.

    Args:
        fail: Function that returns the error of a failing candidate, or None. Default: no failures.
        at_epoch: Callback at the end of every epoch, before the report to the search.
        epochs: Epochs of every network. Default: those of the candidate.

    Attributes:
        seen: Candidates that were evaluated, in order.
    """

    def __init__(
        self,
        *,
        fail: Callable[[Candidate], str | None] | None = None,
        at_epoch: Callable[[Progress], None] | None = None,
        epochs: int | None = None,
    ) -> None:
        self.fail = fail
        self.at_epoch = at_epoch
        self.epochs = epochs
        self.seen: list[Candidate] = []

    def evaluate(self, candidates: Iterable[Candidate], report: EpochReporter) -> Iterator[Result]:
        """Yield the result of each candidate; see `tarmac.studies.Evaluator`."""
        for candidate in candidates:
            self.seen.append(candidate)
            error = None if self.fail is None else self.fail(candidate)
            if error is None:
                yield self.train(candidate, report)
            else:
                yield Result(number=candidate.number, error=error)

    def train(self, candidate: Candidate, report: EpochReporter) -> Result:
        """Return the result of a candidate, and report each of its epochs."""
        final = accuracy_of(candidate.settings)
        epochs = self.epochs or candidate.epochs
        epoch, is_stopped, metrics = 0, False, dict[str, float]()
        while epoch < epochs and not is_stopped:
            epoch += 1
            accuracy = final * epoch / epochs
            metrics = {"val_accuracy": accuracy, "val_loss": 1 - accuracy}
            metrics |= {"loss": 1 - accuracy, "accuracy": accuracy}
            progress = Progress(number=candidate.number, epoch=epoch, metrics=metrics)
            if self.at_epoch is not None:
                self.at_epoch(progress)
            is_stopped = report(progress)
        counts = {"epochs": epoch, "num_parameters": 100 * candidate.number, "seconds": 1}
        return Result(
            number=candidate.number,
            metrics=metrics | counts,
            stopped=is_stopped and epoch < epochs,
        )


def make_study(directory: Path, space: Space, **fields: Any) -> StudyWriter:
    """Make a study of the workload ``mlp``.

    Args:
        directory: Directory in which the study's own directory is created.
        space: Search space of the study.
        **fields: Fields of `tarmac.studies.Request`. Default: workload ``mlp`` and 2 epochs.
    """
    request = make_request({"workload": "mlp", "epochs": 2, **fields})
    return StudyWriter.create(
        directory, "study", request, space, {"dropout": 0.2}, train_size=100, validation_size=20
    )


def search_without_networks(
    study: StudyWriter,
    evaluator: Evaluator | None = None,
    *,
    at_once: int | None = None,
    stop: Callable[[], bool] = lambda: False,
    reporter: Reporter | None = None,
) -> str | None:
    """Search in this process, without training the winner.

    Args:
        study: Study to search, as `make_study` returns it.
        evaluator: Evaluator of the candidates. Default: a `StandIn`.
        at_once: Candidates per call of the evaluator. None: one at a time.
        stop: Function that returns whether to stop the search. Default: never.
        reporter: Receiver of the search's progress. Default: `Silent`.

    Returns:
        The reason why the search ended. None: it was stopped.
    """
    chosen = Chosen(
        evaluator=evaluator or StandIn(), at_once=at_once, close=lambda: None, summary=""
    )
    with study.leases.work() as owner:
        return SearchLoop(study, owner, reporter or Silent(), stop).run(chosen)
