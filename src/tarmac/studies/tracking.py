"""Log a search to trackers: one run for the study, one step for each network."""

from __future__ import annotations

import contextlib
import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tarmac.studies.evaluation.interface import Progress
from tarmac.trackers import TRACKERS, InThread, TrackedRun, check_tracker, open_tracker

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from tarmac.studies.reporter import Reporter
    from tarmac.studies.study.study import Study


def check_trackers(names: Sequence[str]) -> None:
    """Check that all trackers can be opened; see `tarmac.trackers.check_tracker`."""
    for name in names:
        check_tracker(name)


@contextlib.contextmanager
def tracked(study: Study, reporter: Reporter, names: Sequence[str]) -> Iterator[Reporter]:
    """Log the progress of a study to trackers, and its status at the end.

    Args:
        study: Study whose search is tracked.
        reporter: Reporter that receives the same progress.
        names: Names of the trackers; without any, the reporter is yielded unchanged.

    Yields:
        Reporter that also logs to the trackers.

    Raises:
        TarmacError: A tracker cannot be opened.
    """
    if not names:
        yield reporter
        return
    run = _tracked(study)
    trackers = {name: open_tracker(name, run) for name in names}
    try:
        yield _Tracking(reporter, list(trackers.values()))
    finally:
        best = study.record.best
        status = study.record.status
        if status == "running":
            # Workers of a cluster go on without this process, which logs none of their results.
            status = "interrupted"
        judged = study.record.judged_by
        metrics = {} if best is None else {**best.values, judged.of("test"): best.tested(judged)}
        for name, tracker in trackers.items():
            tracker.end(status, _numbers({f"best.{k}": v for k, v in metrics.items()}))
            if tracker.problem:
                text = f"{TRACKERS[name]} has only part of the search: {tracker.problem}"
                warnings.warn(text, stacklevel=2)


def _tracked(study: Study) -> TrackedRun:
    record = study.record
    # Studies in different directories may have the same name.
    made = f"{record.id} {record.created_at.isoformat()}"
    return TrackedRun(
        id=hashlib.sha256(made.encode()).hexdigest()[:16],
        name=study.path.name,
        directory=study.path,
        configuration={**record.request, "settings": record.settings},
        tags={"kind": "search", "workload": record.name},
        is_ordered=False,
    )


class _Tracking:
    """A reporter that forwards all events, and logs each network to trackers."""

    def __init__(self, reporter: Reporter, trackers: Sequence[InThread]) -> None:
        self._reporter = reporter
        self._trackers = trackers

    def began(self, study: Study, where: str) -> None:
        self._reporter.began(study, where)

    def noted(self, text: str) -> None:
        self._reporter.noted(text)

    def planned(self, generation: int, num_children: int, num_survivors: int) -> None:
        self._reporter.planned(generation, num_children, num_survivors)

    def started(self, number: int, settings: Mapping[str, object]) -> None:
        self._reporter.started(number, settings)

    def epoch_done(self, progress: Progress) -> None:
        self._reporter.epoch_done(progress)

    def trial_done(self, study: Study, trial: FrozenTrial) -> None:
        if trial.state.name == "COMPLETE":
            values = dict(zip(study.request.objective, trial.values, strict=True))
            row = {**trial.user_attrs, **trial.params, **values}
            for tracker in self._trackers:
                tracker.log(trial.number, _numbers(row))
        self._reporter.trial_done(study, trial)

    def generation_done(self, study: Study, generation: int) -> None:
        self._reporter.generation_done(study, generation)

    def retraining(self, study: Study, epoch: int, metrics: Mapping[str, float]) -> None:
        self._reporter.retraining(study, epoch, metrics)

    def ended(self, study: Study) -> None:
        self._reporter.ended(study)


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
