"""Report the progress of a study's cluster workers, from the study and from their job."""

from __future__ import annotations

import collections
import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

from optuna.trial import TrialState

from tarmac import jobs
from tarmac.studies.winner import BEST

if TYPE_CHECKING:
    from tarmac.jobs import Event, Grant, Task
    from tarmac.studies.reporter import Reporter
    from tarmac.studies.study.study import Study

# Workers need only seconds to leave a study that is over.
_LEAVE_WITHIN_S = 120.0

# Maximum number of retries of a worker while no worker trains an epoch.
_MAX_FUTILE = 10

# Each poll reads the journal, which may be on a network file system.
_LOOK_EVERY_S = 1.0


class Following(jobs.Silent):
    """A job's reporter that forwards the progress of the study to a search's reporter.

    Args:
        study: Study of the workers; this process only reads it.
        reporter: Reporter of the search, which receives its progress.
        leave_within_s: Seconds that workers may take to leave a finished study. Default 120.
    """

    def __init__(
        self, study: Study, reporter: Reporter, *, leave_within_s: float = _LEAVE_WITHIN_S
    ) -> None:
        self._study = study
        self._leave_within_s = leave_within_s
        self._over_since: float | None = None
        self._num_again: collections.Counter[str] = collections.Counter()
        self._why_again = ""
        self._reporter = reporter
        study.ledger.refresh()
        self._ended = {t.number for t in study.ledger.trials if t.state.is_finished()}
        self._began: set[int] = set()
        self._generation = study.ledger.last_generation
        self._looked_at = time.monotonic()
        self._reasons: dict[str, str] = {}
        self._winner_epochs = _num_epochs_below(study.path / BEST)
        self._progress = self.progress

    @property
    def progress(self) -> int:
        """A count of all epochs, including the winner's, and all finished trials."""
        epochs = sum(len(trial.intermediate_values) for trial in self._study.ledger.trials)
        return epochs + self._winner_epochs + len(self._ended)

    @property
    def is_overdue(self) -> bool:
        """Whether the remaining workers hang, because the study has been over for long."""
        since = self._over_since
        return since is not None and time.monotonic() - since >= self._leave_within_s

    @property
    def why_stuck(self) -> str:
        """Reason for a worker's repeated retries without any training; empty without retries."""
        return self._why_again if max(self._num_again.values(), default=0) > _MAX_FUTILE else ""

    def told(self, event: Event) -> None:
        """Report why a worker waits or where it runs, once per reason."""
        match event:
            case jobs.Waiting(attempt, reason):
                self._note(attempt.task, f"waits: {reason}")
            case jobs.Requeued(attempt, _, reason):
                self._note(attempt.task, f"is queued again: {reason}")
            case jobs.Began(attempt, _, host) if host:
                self._note(attempt.task, f"is running on {host}")

    def started(self, task: Task, attempt: int, grant: Grant) -> None:
        """Do nothing: the worker's trials are reported instead."""

    def retrying(self, task: Task, reason: str, delay_s: float) -> None:  # noqa: ARG002 - Reporter's signature
        """Report the retry of a worker."""
        self._num_again[task.name] += 1
        self._why_again = f"{task.name} was restarted {self._num_again[task.name]} times: {reason}"
        self._note(task, f"is restarted: {reason}")

    def ended(self, ended: jobs.Ended) -> None:
        """Report the failure of a worker."""
        if ended.outcome == "failed":
            self._note(ended.task, f"has failed: {ended.reason}")

    def waited(self) -> None:
        """Poll the study, if a poll is due."""
        if time.monotonic() - self._looked_at >= _LOOK_EVERY_S:
            self.look()

    def look(self) -> None:
        """Report the changes of trials since the last poll."""
        self._looked_at = time.monotonic()
        ledger = self._study.ledger
        ledger.refresh()
        for trial in ledger.trials:
            if trial.number in self._ended or trial.state == TrialState.WAITING:
                continue
            if trial.number not in self._began and "owner" in trial.user_attrs:
                self._began.add(trial.number)
                self._reporter.started(trial.number, self._study.settings_of(trial))
            if trial.state.is_finished():
                self._ended.add(trial.number)
                self._reporter.trial_done(self._study, trial)
        self._tell_generations()
        # Epochs after the winner's last checkpoint may be trained again, which is no progress.
        num_epochs = _num_epochs_below(self._study.path / BEST)
        self._winner_epochs = max(self._winner_epochs, num_epochs)
        if self.progress != self._progress:
            self._progress = self.progress
            self._num_again.clear()
        self._look_for_end()

    def _look_for_end(self) -> None:
        if self._over_since is None:
            self._study.reload()
            if self._study.record.status == "completed":
                self._over_since = time.monotonic()

    def _tell_generations(self) -> None:
        ledger = self._study.ledger
        while self._generation < ledger.last_generation:
            if self._generation >= 0:
                self._reporter.generation_done(self._study, self._generation)
            self._generation += 1
            members = ledger.of_generation(self._generation)
            survivors = ledger.survivors(self._generation) or ()
            self._reporter.planned(self._generation, len(members), len(survivors))

    def _note(self, task: Task, what: str) -> None:
        if self._reasons.get(task.name) != what:
            self._reasons[task.name] = what
            self._reporter.noted(f"{task.name} {what}")


def _num_epochs_below(directory: Path) -> int:
    """Return the number of epochs that the trainings below a directory have recorded."""
    count = 0
    for path in directory.glob("[!.]*/metrics.jsonl"):
        with contextlib.suppress(OSError):
            count += path.read_bytes().count(b"\n")
    return count
