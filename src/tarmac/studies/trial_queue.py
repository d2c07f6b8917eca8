"""The queue of a study's trials: one process claims a trial, and another if that process dies."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from optuna.trial import FrozenTrial, TrialState

from tarmac.studies.evaluation.interface import Candidate
from tarmac.studies.proposals import make_proposals

if TYPE_CHECKING:
    from tarmac.studies.reporter import Reporter
    from tarmac.studies.study.study import Study
    from tarmac.studies.study.writer import StudyWriter

# Maximum number of attempts of a trial whose process dies each time.
_MAX_ATTEMPTS = 5


class TrialQueue:
    """A queue that gives each network of a study to one process.

    A planned trial is ``WAITING``. A claimed trial is ``RUNNING`` under its owner's name, and is
    ``WAITING`` again once the owner dies or releases it. All changes hold the study's lock, so
    several processes may share a study.

    Args:
        study: The study, which this process may write.
        owner: Name of this process's lease.
        reporter: Reporter that receives the start and end of each generation.
    """

    def __init__(self, study: StudyWriter, owner: str, reporter: Reporter) -> None:
        self._study = study
        self._owner = owner
        self._proposals = make_proposals(study, reporter)

    @property
    def is_spent(self) -> bool:
        """Whether no network will follow the running ones, and their owners' state is certain.

        A process that has just died seems alive for a while; later its trials wait again.
        """
        if not self._proposals.is_spent:
            return False
        leases = self._study.leases
        with self._study.lock:
            self._study.ledger.refresh()
            if self._study.ledger.in_state(TrialState.WAITING):
                return False
            running = self._study.ledger.in_state(TrialState.RUNNING)
        return all(leases.is_certain(trial.user_attrs.get("owner")) for trial in running)

    def share(self, workers: int) -> int:
        """Return how many networks a worker may claim at once, including one just claimed."""
        left = self._proposals.num_left
        return 1 if left is None else max(1, math.ceil((left + 1) / workers))

    def is_mine(self, number: int) -> bool:
        """Return whether this process still owns a trial; others take it if its lease expires."""
        self._study.ledger.refresh()
        trial = self._study.ledger.trials[number]
        owner = trial.user_attrs.get("owner")
        return trial.state == TrialState.RUNNING and owner == self._owner

    def next(self) -> Candidate | None:
        """Claim the next network.

        Returns:
            Candidate of the network; None if there is none now. `why_over` then says whether more
            may come.
        """
        with self._study.lock:
            ledger = self._study.ledger
            ledger.refresh()
            self._free_dead()
            waiting = ledger.in_state(TrialState.WAITING)
            if not waiting:
                number = self._proposals.propose()
                if number is not None:
                    ledger.refresh()
                    return self._claim(number)
                waiting = ledger.in_state(TrialState.WAITING)
            if not waiting:
                return None
            self._proposals.why_over = None
            self._study.set_state(waiting[0].number, TrialState.RUNNING)
            return self._claim(waiting[0].number)

    @property
    def why_over(self) -> str | None:
        """Reason why no more networks will come; None while more may come."""
        return self._proposals.why_over

    @property
    def is_idle(self) -> bool:
        """Whether no trial is running or waiting."""
        with self._study.lock:
            self._study.ledger.refresh()
            return not self._study.ledger.in_state(TrialState.RUNNING, TrialState.WAITING)

    def give_up(self, number: int) -> None:
        """Release a claimed trial for another attempt; this attempt does not count."""
        with self._study.lock:
            ledger = self._study.ledger
            if self.is_mine(number):
                attempts = int(ledger.trials[number].user_attrs.get("attempts", 1)) - 1
                self._study.mark(number, "attempts", attempts)
                self._study.set_state(number, TrialState.WAITING)

    def give_up_all(self) -> list[int]:
        """Release all trials that this process has claimed; return their numbers."""
        self._study.ledger.refresh()
        mine = [
            trial.number
            for trial in self._study.ledger.in_state(TrialState.RUNNING)
            if trial.user_attrs.get("owner") == self._owner
        ]
        for number in mine:
            self.give_up(number)
        return mine

    def _free_dead(self) -> None:
        """Release the trials of dead processes, or fail them after the last attempt."""
        ledger = self._study.ledger
        alive = {self._owner, *self._study.leases.remove_dead()}
        for trial in ledger.in_state(TrialState.RUNNING):
            if trial.user_attrs.get("owner") in alive:
                continue
            attempts = int(trial.user_attrs.get("attempts", 0))
            if self._study.space.problems(trial.params):
                error = "the search ended while it proposed this network"
            elif attempts >= _MAX_ATTEMPTS:
                error = f"the process that trained it died, {attempts} times in a row"
            else:
                self._study.set_state(trial.number, TrialState.WAITING)
                continue
            self._study.tell(trial.number, TrialState.FAIL, attributes={"error": error})
        ledger.refresh()

    def _claim(self, number: int) -> Candidate:
        """Mark a running trial as this process's."""
        ledger = self._study.ledger
        attempts = int(ledger.trials[number].user_attrs.get("attempts", 0))
        self._study.mark(number, "attempts", attempts + 1)
        self._study.mark(number, "owner", self._owner)
        ledger.refresh()
        return candidate_of(self._study, ledger.trials[number])


def candidate_of(study: Study, trial: FrozenTrial) -> Candidate:
    """Return the candidate to train for a trial."""
    request = study.request
    assert request.epochs is not None
    return Candidate(
        number=trial.number,
        settings=study.settings_of(trial),
        seed=request.seed,
        epochs=request.epochs,
        patience=request.patience,
        # Studies of earlier versions have no monitor, and watch the loss.
        monitor=request.monitor or "loss:min",
    )
