"""Training in workers of its own, one per device, with their reports passed on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tarmac.runs import Replica, Run
from tarmac.training.engine.scoring import Score
from tarmac.training.plan import Plan
from tarmac.training.processes.launcher import launch
from tarmac.training.session.record import Outcome
from tarmac.training.session.reporter import Reporter
from tarmac.training.session.sampling import Sampler

WORKER = "tarmac.training.session.worker"


def train_in_workers(
    plan: Plan,
    run: Run,
    reporter: Reporter,
    sampler: Sampler,
    interrupted: Callable[[], bool] | None = None,
) -> Outcome:
    """Train by one worker per device, until the end or a request to stop.

    Args:
        plan: Training plan; the workers read it from the run's record.
        run: Run to train, which the caller holds.
        reporter: Receiver of the first rank's reports, in a thread of its own.
        sampler: Sampler that records lost workers.
        interrupted: Polled several times a second in another thread; if true, stop.

    Raises:
        TarmacError: A worker failed, or too many were lost.
    """
    relay = _Relay(plan, run, reporter)

    def restarting(reason: str) -> None:
        sampler.workers_lost(reason)
        reporter.restarting(reason)

    launch(
        WORKER,
        run.path,
        plan.world_size,
        max_restarts=plan.max_restarts,
        receive=relay.receive,
        interrupted=interrupted,
        restarting=restarting,
    )
    return relay.outcome


class _Relay:
    """A relay of the first rank's events to a reporter."""

    def __init__(self, plan: Plan, run: Run, reporter: Reporter) -> None:
        self._plan = plan
        self._run = run
        self._reporter = reporter
        self._has_started = False
        self.outcome = Outcome()

    def receive(self, event: str, values: dict[str, Any]) -> None:
        match event:
            case "started" if not self._has_started:
                self._has_started = True
                self._reporter.started(self._plan, self._run, values["num_parameters"])
            case "stepped":
                score = Score(values["loss"], values["metrics"])
                self._reporter.stepped(values["epoch"], values["step"], lambda: score)
            case "epoch_done":
                self._reporter.epoch_done(values["row"])
            case "ended":
                replicas = tuple(Replica.model_validate(r) for r in values["replicas"])
                self.outcome = Outcome(
                    metrics=values["metrics"],
                    stopped_early=values["stopped_early"],
                    replicas=replicas,
                )
