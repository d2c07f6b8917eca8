"""Runners as Slurm jobs of one core, found by name; each starts after the one before."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tarmac.errors import TarmacError
from tarmac.executors.queueing import (
    ChunkFiles,
    ChunkRecord,
    job_label,
    note_runner_cluster,
    refuse_other_cluster,
    run_code,
    runner_elsewhere,
)
from tarmac.executors.runners import RunnerJob, RunnerState, runner_memory
from tarmac.executors.slurm.engine import cluster_of
from tarmac.executors.slurm.options import RunnerOptions, SlurmOptions
from tarmac.executors.spool import Spool
from tarmac.files import parse_json
from tarmac.slurm import (
    Accounted,
    NoAnswer,
    Request,
    Script,
    Shape,
    SlurmCommands,
    Submitted,
    Unit,
    explain_reason,
    explain_refusal,
    job_variables,
    write_script,
)

# File of the secrets in the run's spool.
_SECRETS = "runner.json"

# Seconds from Slurm's warning to a runner's time limit, enough to queue a successor.
_WARNED_S = 120

# Timeout of status queries, so that a list of runs stays fast.
_ANSWERS_WITHIN_S = 10.0

# The end of a runner's job in words, by its state.
_ENDS = {
    "completed": "has ended",
    "timeout": "was ended at its time limit",
    "out_of_memory": "was ended, because it used more memory than it had",
    "preempted": "was preempted",
    "node_fail": "was lost with its node",
    "cancelled": "was cancelled",
}
_LEFT = "has left Slurm's queue"

# Pauses before each search for a job after no answer from sbatch.
_LOOK_AFTER_S = (1.0, 10.0, 30.0)


class SlurmRunners:
    """Runs runners as Slurm jobs."""

    def submit(self, job: RunnerJob) -> str:
        """Submit a runner's job exactly once; see `RunnerEngine`."""
        slurm = SlurmCommands(os.environ)
        here, left = cluster_of(slurm.limits()), ChunkFiles(job.run).left()
        refuse_other_cluster(job.run, "Slurm", left, here, lambda chunk: _has(slurm, chunk))
        note_runner_cluster(job.run, here)
        script, variables = _script(job), {**job_variables(os.environ), **job.variables}
        if job.secrets:
            Spool(job.run).put(_SECRETS, json.dumps(dict(job.secrets)).encode())
        since = datetime.now(UTC)
        answer = slurm.submit(script, variables)
        for pause_s in _LOOK_AFTER_S:
            if not isinstance(answer, NoAnswer):
                break
            time.sleep(pause_s)
            existing = slurm.find(script.name, since)
            if not isinstance(existing, NoAnswer):
                answer = existing or slurm.submit(script, variables)
        if isinstance(answer, Submitted):
            return str(answer.job)
        if isinstance(answer, NoAnswer):
            raise TarmacError(
                f"Slurm does not say whether it has the runner: {answer.command}: {answer.words}",
                hint=f"Look for it: squeue --name={script.name}",
            )
        if not job.after:
            Spool(job.run).forget(_SECRETS)
        raise TarmacError(
            f"Slurm refuses the runner: {explain_refusal(answer)}",
            hint="Start it on this machine: --runner here\n"
            "Or give it other options: --set options.slurm.runner.partition=NAME",
        )

    def secrets(self, run: Path) -> Mapping[str, str]:
        """Return the secrets of a run's runners; see `RunnerEngine`."""
        text = Spool(run).read(_SECRETS)
        return {} if text is None else parse_json(text)

    def look(self, run: Path, number: int, place: str, since: datetime) -> RunnerState:
        """Return the present state of a runner's job; see `RunnerEngine`."""
        slurm = SlurmCommands(os.environ, timeout_s=_ANSWERS_WITHIN_S)
        queued = slurm.queue(_names(run, number))
        if isinstance(queued, NoAnswer):
            return _unknown(queued)
        for unit in queued:
            if unit.state in ("pending", "requeued", "suspended"):
                is_suspended = unit.state == "suspended"
                words = "is suspended by Slurm" if is_suspended else explain_reason(unit.reason)
                return RunnerState("waits", f"job {place} {words}")
            return RunnerState("runs", f"job {place} runs on {unit.nodes}")
        # Another cluster may have given the job's number to another job.
        elsewhere = runner_elsewhere(run, place, "Slurm", cluster_of(slurm.limits()))
        return elsewhere or _ended(slurm, place, since)

    def cancel(self, run: Path, numbers: Sequence[int]) -> None:
        """Cancel runner jobs of a run; see `RunnerEngine`."""
        Spool(run).forget(_SECRETS)
        SlurmCommands(os.environ).cancel(
            names=[name for number in numbers for name in _names(run, number)]
        )


def _ended(slurm: SlurmCommands, place: str, since: datetime) -> RunnerState:
    ended = slurm.ended([Unit(int(place))], since)
    if isinstance(ended, NoAnswer):
        return _unknown(ended)
    for job in ended:
        return RunnerState("ended", f"job {place} {_said_of(job)}")
    return RunnerState("ended", f"job {place} is no longer known to Slurm")


def _has(slurm: SlurmCommands, chunk: ChunkRecord) -> bool:
    return isinstance(slurm.find(chunk.name, chunk.made_at), Submitted)


def _unknown(silence: NoAnswer) -> RunnerState:
    # No job number: the same message stands for runners of other runs, without another query.
    message = f"{silence.command}: {silence.words}"
    return RunnerState("unknown", f"job cannot be queried, Slurm does not answer: {message}")


def _said_of(job: Accounted) -> str:
    end = f"ended by signal {job.signal}" if job.signal else f"exit code {job.exit_code}"
    where = f" on {job.nodes}" if job.nodes else ""
    how = f"has failed, {end}" if job.state == "failed" else _ENDS.get(job.state, _LEFT)
    return f"{how}{where} ({job.word})"


def _names(run: Path, number: int) -> tuple[str, str]:
    """Return the name of a runner's job, and its former name."""
    suffix = f"{run_code(run)}-runner-{number}"
    return f"{job_label(run)}-{suffix}", f"tarmac-{suffix}"


def _script(job: RunnerJob) -> Script:
    options = _options(job)
    extra = [*options.sbatch, f"--signal=B:USR1@{_WARNED_S}"]
    if job.after:
        extra.append(f"--dependency=afterany:{job.after}")
    shape = Shape(
        memory_bytes=runner_memory(job.num_tasks) if options.memory is None else options.memory,
        time_limit_s=options.time,
        partition=options.partition,
        account=options.account,
        qos=options.qos,
        constraint=options.constraint,
        reservation=options.reservation,
        extra=tuple(extra),
    )
    request = Request(
        name=_names(job.run, job.number)[0],
        shape=shape,
        command=_command(job, options),
        directory=job.run,
        output="runner.log",
        comment=str(job.run),
    )
    return write_script(request)


def _command(job: RunnerJob, options: RunnerOptions) -> str:
    """Return the shell text that starts a runner and records Slurm's warning signal.

    Slurm signals only the job's first process, so that process stays a shell. The runner itself
    could miss the signal during its setup and Python's start.
    """
    program = f"exec {shlex.join(job.command)}"
    if options.setup:
        # Only a login shell has `module` and the site's setup.
        lines = "\n".join((*options.setup, program))
        program = f"exec bash -l -c {shlex.quote(lines)}"
    hold = shlex.quote(f"touch {shlex.quote(str(job.warned))}")
    return f"""\
# Begun anew, it has all of its time again.
rm -f {shlex.quote(str(job.warned))}
trap {hold} USR1
(trap '' USR1; {program}) &
trap "kill -TERM $!" TERM
# A signal ends a wait, but not what is waited for, which may end while the trap runs: then its
# code is still to be had; 127 is that it was had already.
while wait $!; code=$?; kill -0 $! 2>/dev/null; do :; done
[ $code -le 128 ] || {{ wait $!; last=$?; [ $last = 127 ] || code=$last; }}
exit $code"""


def _options(job: RunnerJob) -> RunnerOptions:
    """Return the options of a runner's job: some of the tasks', overridden by `runner`."""
    theirs = SlurmOptions.model_validate(job.options)
    # A runner does not need the tasks' nodes and time limit.
    common = theirs.model_dump(include={"partition", "account", "qos", "setup"})
    return RunnerOptions(**{**common, **theirs.runner.model_dump(exclude_unset=True)})
