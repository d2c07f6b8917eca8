"""The worker process that trains stacks for a search; see `PooledEvaluator`.

Started as ``python -m tarmac.studies.evaluation.stacked.worker NUM_THREADS``. Each input line is a
stack, or the answer to an epoch. Each output line is an epoch, a result, or the end of the stack.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from tarmac.processes import Conversation
from tarmac.studies.evaluation.dataset import load_dataset
from tarmac.studies.evaluation.interface import Candidate, Progress
from tarmac.studies.evaluation.stacked.evaluator import StackedEvaluator
from tarmac.studies.evaluation.workers import serve_trainings
from tarmac.workloads import find_workload


class _Trainer:
    """A trainer of stacks with one evaluator, which keeps the samples for the next stack."""

    def __init__(self) -> None:
        self._setup: dict[str, Any] | None = None
        self._evaluator: StackedEvaluator | None = None

    def work(self, job: dict[str, Any], search: Conversation) -> None:
        """Train a stack and send the results."""
        if self._evaluator is None or job["setup"] != self._setup:
            self._setup = job["setup"]
            self._evaluator = _make_evaluator(**job["setup"])

        def report(progress: Progress) -> bool:
            search.send(**dataclasses.asdict(progress))
            return bool(search.receive()["stop"])

        candidates = [Candidate(**fields) for fields in job["candidates"]]
        for result in self._evaluator.evaluate(candidates, report):
            search.send(result=dataclasses.asdict(result))
        search.send(idle=True)


def _make_evaluator(workload: str, settings: dict[str, Any], **options: Any) -> StackedEvaluator:
    resolved = find_workload(workload)
    return StackedEvaluator(resolved, load_dataset(resolved, settings), **options)


def main() -> None:
    """Train the stacks of all jobs, until the input ends."""
    serve_trainings(_Trainer().work)


if __name__ == "__main__":
    main()
