"""Trackers of a training, which receive the progress beside its reporter."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping

from tarmac.runs import Run
from tarmac.trackers import TRACKERS, InThread, TrackedRun, open_tracker
from tarmac.training.engine.scoring import Score
from tarmac.training.plan import Plan
from tarmac.training.session.reporter import Reporter
from tarmac.training.session.sampling import Sampler


class Tracking:
    """A reporter that forwards all calls, and sends each epoch to the open trackers.

    Args:
        reporter: Reporter that receives every call as well.
        sampler: Sampler that receives the number of steps, to store beside its samples.
    """

    def __init__(self, reporter: Reporter, sampler: Sampler) -> None:
        self._reporter = reporter
        self._sampler = sampler
        self._num_steps = 0
        self._trackers: dict[str, InThread] = {}

    def open(self, run: Run, plan: Plan) -> None:
        """Open the requested trackers, and note the run's places there in its record.

        Raises:
            TarmacError: A tracker cannot be reached, or refuses this user.
        """
        tracked = TrackedRun(
            id=run.record.id,
            name=run.name,
            directory=run.path,
            configuration=plan.to_record(),
            tags={
                "kind": "training",
                "workload": run.record.workload,
                "dataset": plan.dataset.name,
                "device": plan.devices[0].name,
            },
        )
        for name in plan.log_to:
            self._trackers[name] = open_tracker(name, tracked)
        if self._trackers:
            run.update(tracked={name: own.place for name, own in self._trackers.items()})

    def end(self, status: str, metrics: Mapping[str, float]) -> None:
        """Send the result to the trackers, and warn of data that they did not accept.

        Args:
            status: ``completed``, ``interrupted`` or ``failed``.
            metrics: Final metrics of the run, by name.
        """
        trackers, self._trackers = self._trackers, {}
        for name, tracker in trackers.items():
            tracker.end(status, metrics)
            if tracker.problem:
                text = f"{TRACKERS[name]} has only part of the run: {tracker.problem}"
                warnings.warn(text, stacklevel=2)

    def downloading(self, done: int, total: int | None, file: str) -> None:
        """Forward the call."""
        self._reporter.downloading(done, total, file)

    def started(self, plan: Plan, run: Run, num_parameters: int) -> None:
        """Forward the call."""
        self._num_steps = plan.num_steps
        self._reporter.started(plan, run, num_parameters)

    def stepped(self, epoch: int, step: int, score: Callable[[], Score]) -> None:
        """Forward the call, and update the sampler's steps."""
        self._sampler.steps = (epoch - 1) * self._num_steps + step
        self._reporter.stepped(epoch, step, score)

    def epoch_done(self, row: Mapping[str, float]) -> None:
        """Forward the call, and send the epoch to the trackers."""
        values = {name: value for name, value in row.items() if name != "epoch"}
        for tracker in self._trackers.values():
            tracker.log(int(row["epoch"]), values)
        self._reporter.epoch_done(row)

    def restarting(self, reason: str) -> None:
        """Forward the call."""
        self._reporter.restarting(reason)
