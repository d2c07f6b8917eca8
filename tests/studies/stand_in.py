"""An evaluator without networks, and what runs a search with it in a process of its own.

As a program: ``python stand_in.py STUDY [GATE_NUMBER GATE]`` works on a study. At the first epoch
of the trial of that number it writes to the FIFO ``GATE``, and then waits for ever.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from pathlib import Path

from tarmac.studies import Progress, Result
from tarmac.studies.evaluation.choice import Chosen
from tarmac.studies.loop import SearchLoop
from tarmac.studies.reporter import Silent
from tarmac.studies.study.writer import StudyWriter


def accuracy_of(settings):
    """Return a number in [0, 1] that a network's settings alone decide."""
    digest = hashlib.sha256(json.dumps(dict(settings), sort_keys=True).encode()).digest()
    return int.from_bytes(digest[:4], "big") / 2**32


class StandIn:
    """Gives each network its accuracy, one after another, rising from epoch to epoch."""

    def __init__(self, *, fail=lambda candidate: None, at_epoch=lambda progress: None, epochs=None):
        self.fail = fail
        self.at_epoch = at_epoch
        self.epochs = epochs
        self.seen = []

    def evaluate(self, candidates, report):
        for candidate in candidates:
            self.seen.append(candidate)
            error = self.fail(candidate)
            if error is not None:
                yield Result(number=candidate.number, error=error)
                continue
            yield self.train(candidate, report)

    def train(self, candidate, report):
        final = accuracy_of(candidate.settings)
        epochs = self.epochs or candidate.epochs
        for epoch in range(1, epochs + 1):
            accuracy = final * epoch / epochs
            metrics = {"val_accuracy": accuracy, "val_loss": 1 - accuracy}
            metrics |= {"loss": 1 - accuracy, "accuracy": accuracy}
            progress = Progress(number=candidate.number, epoch=epoch, metrics=metrics)
            self.at_epoch(progress)
            stopped = report(progress)
            if stopped or epoch == epochs:
                metrics |= {"epochs": epoch, "num_parameters": 100 * candidate.number, "seconds": 1}
                return Result(
                    number=candidate.number, metrics=metrics, stopped=stopped and epoch < epochs
                )
        raise AssertionError


def search(study, evaluator=None, *, at_once=None, stop=lambda: False, reporter=None):
    """Search in this process, without training the winner; return why it is over."""
    chosen = Chosen(
        evaluator=evaluator or StandIn(), at_once=at_once, close=lambda: None, summary=""
    )
    with study.leases.work() as owner:
        return SearchLoop(study, owner, reporter or Silent(), stop).run(chosen)


def main():
    study = StudyWriter.open(Path(sys.argv[1]))
    gate = None
    if len(sys.argv) > 2:
        number, fifo = int(sys.argv[2]), sys.argv[3]

        def gate(progress):
            if progress.number == number:
                Path(fifo).write_text("here")
                threading.Event().wait()

    evaluator = StandIn(at_epoch=gate or (lambda progress: None))
    search(study, evaluator)
    sys.stdout.write(json.dumps([candidate.number for candidate in evaluator.seen]))


if __name__ == "__main__":
    main()
