"""The loop of a search, which passes candidates to the evaluator and stores their results."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import TrialState

from tarmac.studies.errors import AllTrialsFailedError
from tarmac.studies.evaluation.interface import Candidate, Progress, Result
from tarmac.studies.ledger import GENERATION
from tarmac.studies.methods.pruning import find_rule
from tarmac.studies.objectives import values_of
from tarmac.studies.terms import ALONE, Leave, Terms
from tarmac.studies.trial_queue import TrialQueue
from tarmac.wording import counted

if TYPE_CHECKING:
    from tarmac.studies.evaluation.choice import Chosen
    from tarmac.studies.reporter import Reporter
    from tarmac.studies.study.writer import StudyWriter

_LOOK_EVERY_S = 0.3
# Maximum pause while other workers train: many workers poll the same file system.
_LOOK_AT_LEAST_EVERY_S = 2.0
_MARGIN = 1.5
_STORE_TIME_EVERY_S = 5.0
# Metrics stored as whole numbers with a trial, where optuna-dashboard shows them.
_COUNTS = ("epochs", "num_parameters")


class SearchLoop:
    """The work of one process on a study.

    Args:
        study: The study, which this process may write.
        owner: Name of this process's lease.
        reporter: Reporter that receives the search's progress.
        stop: Returns whether the user requests a stop; called several times a second.
        terms: Share of the trials to take, and time limit.
        when_all_claimed: Called, maybe repeatedly, once no network is left to claim, while the last
            ones may still train. Default: nothing.

    Attributes:
        leave: Reason for leaving the study, once `run` has returned None.
        num_trained: Number of trials that this process has finished.
        num_epochs: Number of epochs that this process has trained, over all trials.
        has_waited: Whether the process has waited because others held all networks.
    """

    def __init__(
        self,
        study: StudyWriter,
        owner: str,
        reporter: Reporter,
        stop: Callable[[], bool],
        terms: Terms = ALONE,
        *,
        when_all_claimed: Callable[[], object] | None = None,
    ) -> None:
        self._study = study
        self._terms = terms
        self._reporter = reporter
        self._stop = stop
        self._queue = TrialQueue(study, owner, reporter)
        self._before_s = study.record.elapsed_s
        self._started = time.monotonic()
        self._stored_time_at = self._started
        first, judged = study.objectives[0], study.record.judged_by
        # Costs such as ``seconds`` have no learning curve; the workload's own metric has.
        is_scored = first.metric.startswith("val_")
        self._metric = first.metric if is_scored else judged.of("val")
        is_maximized = first.maximize if is_scored else judged.more_is_better
        rule = find_rule(study.request.prune)
        self._pruner = None if rule is None else rule.make_pruner(1.0 if is_maximized else -1.0)
        scores = (*judged.scores, *(f"val_{name}" for name in judged.scores))
        self._stored = (*_COUNTS, "seconds", *scores)
        self.leave: Leave = "stopped"
        self.num_trained = self.num_epochs = 0
        self.has_waited = self._goes_on = False
        self._when_all_claimed = when_all_claimed
        self._losers: set[int] = set()
        self._curves: dict[int, dict[int, float]] = {}

    @property
    def elapsed_s(self) -> float:
        """Seconds of work on the study, in all sessions."""
        return self._before_s + time.monotonic() - self._started

    def halted(self) -> bool:
        """Return whether to stop running trainings: on a user's stop, or when time is over."""
        budget = self._study.request.budget
        return self._stop() or (budget is not None and self.elapsed_s >= budget)

    def run(self, chosen: Chosen) -> str | None:
        """Train networks until the search is over.

        Args:
            chosen: Evaluator to train with, from `choose_evaluator`.

        Returns:
            Reason why the search is over; None if it is not, and `leave` says why this process
            leaves.

        Raises:
            AllTrialsFailedError: Every network of the first batch failed.
        """
        self._goes_on = chosen.goes_on
        try:
            pause_s = _LOOK_EVERY_S
            while not self.halted():
                claims = self._claims()
                first = next(claims, None)
                if first is not None:
                    self._train(chosen, itertools.chain([first], claims))
                    pause_s = _LOOK_EVERY_S
                    continue
                if self._queue.why_over is not None and self._queue.is_idle:
                    return self._queue.why_over
                if not self.fits_another:
                    self.leave = "time"
                    return None
                if self._terms.leaves_the_rest and self._queue.is_spent:
                    self.leave = "others"
                    return None
                # Other processes train the rest of this generation.
                self.has_waited = True
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _LOOK_AT_LEAST_EVERY_S)
        finally:
            self._queue.give_up_all()
            self._store_time()
        if self._stop():
            return None
        return f"its time of {self._study.request.budget:g} s is over"

    @property
    def fits_another(self) -> bool:
        """Whether the time left suffices for another network like the trained ones.

        If trainings resume on other workers, the first network starts in any case. Otherwise a
        network that takes longer than a worker's time would never be trained.
        """
        left_s = self._terms.time_left_s()
        if self._goes_on and not self.num_epochs:
            return left_s > 0
        return left_s == math.inf or left_s > self.needed_s

    @property
    def needed_s(self) -> float:
        """Estimated seconds per network: 1.5 times the median so far; 0 before the first."""
        took = [
            (trial.datetime_complete - trial.datetime_start).total_seconds()
            for trial in self._study.ledger.trained
            if trial.state == TrialState.COMPLETE
            and trial.datetime_complete
            and trial.datetime_start
        ]
        return _MARGIN * statistics.median(took) if took else 0.0

    def _claims(self) -> Iterator[Candidate]:
        while not self.halted() and self.fits_another:
            candidate = self._queue.next()
            if candidate is None:
                return
            if self._when_all_claimed is not None and self._queue.is_spent:
                self._when_all_claimed()
            # A training that resumes from a checkpoint has reported its first epochs already.
            trial = self._study.ledger.trials[candidate.number]
            self._curves[candidate.number] = dict(trial.intermediate_values)
            self._reporter.started(candidate.number, candidate.settings)
            yield candidate

    def _train(self, chosen: Chosen, claims: Iterator[Candidate]) -> None:
        """Train as many of the candidates as the evaluator takes, and store their results."""
        candidates: Iterable[Candidate] = claims
        if chosen.at_once is not None:
            most = chosen.at_once
            if self._terms.workers is not None:
                most = min(most, self._queue.share(self._terms.workers))
            candidates = [*itertools.islice(claims, most)]
        results = chosen.evaluator.evaluate(candidates, self._report)  # type: ignore[arg-type]
        for result in results:
            if result.stopped and result.number not in self._losers:
                self._queue.give_up(result.number)
            else:
                self._finish(result)
            if time.monotonic() - self._stored_time_at > _STORE_TIME_EVERY_S:
                self._store_time()

    def _report(self, progress: Progress) -> bool:
        self.num_epochs += 1
        number = progress.number
        value = float(progress.metrics[self._metric])
        try:
            self._study.add_value(number, progress.epoch, value)
        except UpdateFinishedTrialError:
            # This process's lease had expired, and another process has trained the network since.
            return True
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
        """Finish a trial, unless this process's lease expired and another process owns it."""
        error = result.error
        values: list[float] | None = None
        if error is None and not result.stopped:
            try:
                values = values_of(self._study.objectives, result.metrics)
            except ValueError as divergence:
                error = str(divergence)
        attributes: dict[str, object] = {
            name: int(result.metrics[name]) if name in _COUNTS else result.metrics[name]
            for name in self._stored
            if name in result.metrics
        }
        if result.num_companions:
            attributes["together"] = result.num_companions
        state = TrialState.PRUNED if result.stopped else TrialState.COMPLETE
        if error is not None:
            attributes["error"] = error
            state = TrialState.FAIL
        with self._study.lock:
            if not self._queue.is_mine(result.number):
                return
            self._study.tell(result.number, state, values, attributes)
        self.num_trained += 1
        self._reporter.trial_done(self._study, self._study.ledger.trials[result.number])
        self._refuse_hopeless()

    def _refuse_hopeless(self) -> None:
        """Raise an error if all first networks failed: the request is wrong, not the networks."""
        ledger = self._study.ledger
        trained = ledger.trained
        enough = min(self._study.request.population, 10)
        failed = [trial for trial in trained if trial.state == TrialState.FAIL]
        if len(trained) < enough or len(failed) < len(trained):
            return
        if ledger.trials[-1].system_attrs.get(GENERATION, 0) > 0:
            return
        raise AllTrialsFailedError(
            f"none of the first {counted(len(failed), 'network')} could be trained; most often: "
            f"{ledger.usual_error}",
            hint="Try one alone: tarmac train",
        )

    def _store_time(self) -> None:
        self._stored_time_at = time.monotonic()
        self._study.update(elapsed_s=max(self.elapsed_s, self._study.record.elapsed_s))
