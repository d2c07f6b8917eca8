"""Runners as Ray jobs, through Ray's REST interface, so that this machine needs no Ray.

Ray starts a job once, on the head, and the job ends with the head. Everyone with access to the
cluster can read a job's settings, so secrets are in the run's spool, as on Slurm.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tarmac.errors import RequestError, TarmacError
from tarmac.executors.queueing import job_label, run_code
from tarmac.executors.ray.options import RayOptions
from tarmac.executors.runners import RunnerJob, RunnerState
from tarmac.executors.spool import Spool
from tarmac.files import parse_json
from tarmac.ray import (
    NoAnswer,
    RayJob,
    RayJobs,
    Refused,
    Submission,
    dashboard_address,
    read_token,
)
from tarmac.tasks.runner_notes import runner_place

# File of the secrets in the run's spool.
_SECRETS = "runner.json"

# Timeout of status queries, so that a list of runs stays fast.
_ANSWERS_WITHIN_S = 10.0

# Ray itself ends a job that waits for 15 minutes (RAY_JOB_START_TIMEOUT_SECONDS), without saying
# why it waited. A runner requests no resources, so a runner that waits this long never begins.
_MAX_WAIT_S = 600.0
# A reason for waiting would only be noise before this time.
_WAITS_QUIETLY_S = 60.0

# Pauses before each repeat of a submission without an answer; a repeat finds an existing job.
_AGAIN_AFTER_S = (1.0, 5.0, 15.0)

_WHERE = (
    "Name it: --set options.ray.dashboard=http://HOST:8265, or RAY_API_SERVER_ADDRESS\n"
    "Or start the runner on this machine: --runner here"
)

_ENDS = {"succeeded": "has ended", "failed": "has failed", "stopped": "was stopped"}


class RayRunners:
    """Runs runners as Ray jobs."""

    def submit(self, job: RunnerJob) -> str:
        """Submit a runner's job exactly once; see `RunnerEngine`."""
        options = RayOptions.model_validate(job.options)
        address = dashboard_address(os.environ, options.dashboard)
        jobs = RayJobs(address, read_token(os.environ))
        known = jobs.version()
        if isinstance(known, NoAnswer):
            raise TarmacError(f"Ray's dashboard does not answer: {known.words}", hint=_WHERE)
        if isinstance(known, Refused):
            raise TarmacError(f"Ray refuses the runner: {known.words}", hint=known.hint or _WHERE)
        submission = _submission(job)
        if job.secrets:
            Spool(job.run).put(_SECRETS, json.dumps(dict(job.secrets)).encode())
        answer = jobs.submit(submission)
        for pause_s in _AGAIN_AFTER_S:
            if not isinstance(answer, NoAnswer):
                break
            time.sleep(pause_s)
            answer = jobs.submit(submission)
        if isinstance(answer, str):
            return f"{answer} at {address}"
        if isinstance(answer, NoAnswer):
            raise TarmacError(
                f"Ray does not say whether it has the runner: {answer.words}",
                hint=f"Look for it: ray job status {submission.name}",
            )
        Spool(job.run).forget(_SECRETS)
        raise TarmacError(
            f"Ray refuses the runner: {answer.words}",
            hint=answer.hint or "Start it on this machine: --runner here",
        )

    def secrets(self, run: Path) -> Mapping[str, str]:
        """Return the secrets of a run's runners; see `RunnerEngine`."""
        text = Spool(run).read(_SECRETS)
        return {} if text is None else parse_json(text)

    def look(self, run: Path, number: int, place: str, since: datetime) -> RunnerState:
        """Return the present state of a runner's job; see `RunnerEngine`."""
        del run, number
        name, _, address = place.partition(" at ")
        try:
            jobs = RayJobs(address, read_token(os.environ), timeout_s=_ANSWERS_WITHIN_S)
        except RequestError as error:
            return RunnerState("unknown", f"job cannot be queried: {error.message}")
        answer = jobs.look(name)
        if isinstance(answer, RayJob):
            waits_s = (datetime.now(UTC) - since).total_seconds()
            return _waiting(jobs, answer, waits_s) if answer.state == "pending" else _begun(answer)
        if answer is not None:
            # No job name: the same message stands for runners of other runs, without another query.
            return RunnerState("unknown", f"job cannot be queried: {answer.words}")
        return RunnerState("ended", f"job {name} is no longer known to Ray: its head was restarted")

    def cancel(self, run: Path, numbers: Sequence[int]) -> None:
        """Cancel runner jobs of a run; see `RunnerEngine`."""
        Spool(run).forget(_SECRETS)
        for number in numbers:
            place = runner_place(run, number)
            # Without Ray's answer the job's place is unknown. The run's directory tells its runner
            # to end.
            if not place:
                continue
            name, _, address = place.partition(" at ")
            with contextlib.suppress(RequestError):
                jobs = RayJobs(address, read_token(os.environ))
                answer = jobs.look(name)
                # Ray kills a stopped job after 3 seconds, so a runner that has begun ends by itself
                # instead.
                if isinstance(answer, RayJob) and answer.state == "pending":
                    jobs.stop(name)


def _waiting(jobs: RayJobs, job: RayJob, waits_s: float) -> RunnerState:
    if waits_s <= _WAITS_QUIETLY_S:
        return RunnerState("waits", f"job {job.name} waits for its turn")
    if waits_s <= _MAX_WAIT_S:
        return RunnerState("waits", f"job {job.name} waits: {job.message}")
    jobs.stop(job.name)
    words = f"was stopped, because it had not started within {_MAX_WAIT_S / 60:g} minutes"
    return RunnerState("ended", f"job {job.name} {words}: {job.message}")


def _begun(job: RayJob) -> RunnerState:
    if job.state == "running":
        return RunnerState("runs", f"job {job.name} runs on the head")
    code = "" if job.exit_code in (None, 0) else f", exit code {job.exit_code}"
    why = f": {job.message}" if job.state == "failed" and not code else ""
    return RunnerState("ended", f"job {job.name} {_ENDS[job.state]}{code}{why}")


def _submission(job: RunnerJob) -> Submission:
    run = shlex.quote(str(job.run))
    # The head may be another machine. This error goes to Ray's own log.
    seen = f"cd {run} || {{ echo 'the head does not see the directory' {run}; exit 1; }}"
    return Submission(
        name=f"{job_label(job.run)}-{run_code(job.run)}-{job.number}",
        entrypoint=f"{seen}; exec {shlex.join(job.command)} >> runner.log 2>&1",
        variables=job.variables,
        metadata={"tarmac_run": str(job.run), "tarmac_job": job_label(job.run)},
    )
