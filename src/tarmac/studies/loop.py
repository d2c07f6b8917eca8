"""The loop of a search: hands candidates to the evaluator and writes their results."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

from optuna.trial import TrialState

from tarmac.errors import TarmacError
from tarmac.studies.ledger import GENERATION
from tarmac.studies.methods.pruning import find_rule
from tarmac.studies.objectives import OBJECTIVES, values_of
from tarmac.studies.trial_queue import TrialQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tarmac.studies.evaluation.choice import Chosen
    from tarmac.studies.evaluation.interface import Candidate, Progress, Result
    from tarmac.studies.reporter import Reporter
    from tarmac.studies.study.writer import StudyWriter

__all__ = ["SearchLoop"]

_LOOK_EVERY_S = 0.3
_STORE_TIME_EVERY_S = 5.0
# What of a result is stored with its trial, where optuna-dashboard shows it.
_COUNTS = ("epochs", "num_parameters")
_STORED = (*_COUNTS, "seconds", "loss", "accuracy", "val_loss", "val_accuracy")


class SearchLoop:
    """One process's work on a study.

    Args:
        study: The study, which this process may write.
        owner: The process's name among the study's leases.
        reporter: Receives progress.
        stop: Whether the user wants it to stop; asked several times a second.
    """

    def __init__(
        self, study: StudyWriter, owner: str, reporter: Reporter, stop: Callable[[], bool]
    ) -> None:
        self._study = study
        self._reporter = reporter
        self._stop = stop
        self._queue = TrialQueue(study, owner, reporter)
        self._before_s = study.record.elapsed_s
        self._started = time.monotonic()
        self._stored_time_at = self._started
        first = OBJECTIVES[study.request.objective[0]]
        # Objectives that only the end of a training shows have no curve; accuracy has.
        self._metric = first.metric if first.metric.startswith("val_") else "val_accuracy"
        rule = find_rule(study.request.prune)
        sign = -1.0 if self._metric == "val_loss" else 1.0
        self._pruner = None if rule is None else rule.make_pruner(sign)
        self._losers: set[int] = set()
        self._curves: dict[int, dict[int, float]] = {}

    @property
    def elapsed_s(self) -> float:
        """Seconds of work on the study, in all sessions."""
        return self._before_s + time.monotonic() - self._started

    def halted(self) -> bool:
        """Whether what is under way is to be given up: the user stops, or the time is over."""
        budget = self._study.request.budget
        return self._stop() or (budget is not None and self.elapsed_s >= budget)

    def run(self, chosen: Chosen) -> str | None:
        """Train networks until the search is over.

        Args:
            chosen: What trains them.

        Returns:
            Why it is over; None where the user stopped it.

        Raises:
            TarmacError: Every network of the first batch failed.
        """
        try:
            while not self.halted():
                claims = self._claims()
                batch = claims
                if chosen.at_once is not None:
                    batch = iter([*itertools.islice(claims, chosen.at_once)])
                first = next(batch, None)
                if first is not None:
                    self._train(chosen, itertools.chain([first], batch))
                elif self._queue.why_over is not None and self._queue.is_idle:
                    return self._queue.why_over
                else:
                    # Other processes have the rest of this generation.
                    time.sleep(_LOOK_EVERY_S)
        finally:
            self._queue.give_up_all()
            self._store_time()
        if self._stop():
            return None
        return f"its time of {self._study.request.budget:g} s is over"

    def _claims(self) -> Iterator[Candidate]:
        while not self.halted():
            candidate = self._queue.next()
            if candidate is None:
                return
            self._curves[candidate.number] = {}
            self._reporter.started(candidate.number, candidate.settings)
            yield candidate

    def _train(self, chosen: Chosen, candidates: Iterator[Candidate]) -> None:
        batch = candidates if chosen.at_once is None else [*candidates]
        results = chosen.evaluator.evaluate(batch, self._report)  # type: ignore[arg-type]
        for result in results:
            if result.stopped and result.number not in self._losers:
                self._queue.give_up(result.number)
            else:
                self._finish(result)
            if time.monotonic() - self._stored_time_at > _STORE_TIME_EVERY_S:
                self._store_time()

    def _report(self, progress: Progress) -> bool:
        number = progress.number
        value = float(progress.metrics[self._metric])
        self._study.add_value(number, progress.epoch, value)
        self._reporter.epoch_done(progress)
        if self.halted():
            return True
        if self._pruner is None:
            return False
        self._study.ledger.refresh()
        curve = self._curves[number]
        curve[progress.epoch] = value
        if self._pruner.is_loser(self._study.ledger, number, curve):
            self._losers.add(number)
            return True
        return False

    def _finish(self, result: Result) -> None:
        """Finish a trial."""
        error = result.error
        values: list[float] | None = None
        if error is None and not result.stopped:
            try:
                values = values_of(self._study.request.objective, result.metrics)
            except ValueError as divergence:
                error = str(divergence)
        for name in _STORED:
            if name in result.metrics:
                value = result.metrics[name]
                self._study.mark(result.number, name, int(value) if name in _COUNTS else value)
        if result.num_companions:
            self._study.mark(result.number, "together", result.num_companions)
        if error is not None:
            self._study.mark(result.number, "error", error)
        state = TrialState.PRUNED if result.stopped else TrialState.COMPLETE
        state = TrialState.FAIL if error is not None else state
        self._study.tell(result.number, values, state)
        self._reporter.trial_done(self._study, self._study.ledger.trials[result.number])
        self._refuse_hopeless()

    def _refuse_hopeless(self) -> None:
        """End a search in which nothing has worked: it is the request, not the networks."""
        ledger = self._study.ledger
        trained = ledger.trained
        enough = min(self._study.request.population, 10)
        failed = [trial for trial in trained if trial.state == TrialState.FAIL]
        if len(trained) < enough or len(failed) < len(trained):
            return
        if ledger.trials[-1].system_attrs.get(GENERATION, 0) > 0:
            return
        errors = [str(trial.user_attrs.get("error")) for trial in failed]
        often = max(errors, key=errors.count)
        raise TarmacError(
            f"none of the first {len(failed)} networks could be trained; most often: {often}",
            hint="Try one alone: tarmac train",
        )

    def _store_time(self) -> None:
        self._stored_time_at = time.monotonic()
        self._study.update(elapsed_s=max(self.elapsed_s, self._study.record.elapsed_s))
