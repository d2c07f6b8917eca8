"""Slurm's interface: plain records for requests and answers, the same for all versions."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Literal, Protocol

from tarmac.slurm.site import SlurmNode

# Hint of errors where a command cannot continue without Slurm's answer.
SILENCE_HINT = "Is this a machine that jobs are submitted from? Try: sinfo"

# The states of squeue(1), "JOB STATE CODES", that Tarmac distinguishes; all others are `other`.
UnitState = Literal[
    "pending",
    "running",
    "completing",
    "completed",
    "failed",
    "timeout",
    "out_of_memory",
    "preempted",
    "node_fail",
    "cancelled",
    "requeued",
    "suspended",
    "other",
]


@dataclasses.dataclass(frozen=True, order=True)
class Unit:
    """The identity of a unit that Slurm starts: a job, or one element of an array.

    Attributes:
        job: Job number; for an array, the number of the whole array.
        element: Index of the array's element, from 0; None for a job that is no array.
    """

    job: int
    element: int | None = None

    def __str__(self) -> str:
        """Return the unit in the form of Slurm's commands: ``80``, ``80_3``."""
        return str(self.job) if self.element is None else f"{self.job}_{self.element}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Script:
    """A job, or an array of equal jobs, ready for sbatch.

    Attributes:
        name: Job name, unique among all jobs of this user, by which the job is found.
        text: Content of the file, with its ``#SBATCH`` lines; holds no secret.
        elements: Number of elements of an array; None for a job that is no array.
        throttle: Most elements of an array that run at once; None for no limit.
    """

    name: str
    text: str
    elements: int | None = None
    throttle: int | None = None


@dataclasses.dataclass(frozen=True)
class Submitted:
    """An accepted script.

    Attributes:
        job: Job number; for an array, the number that its elements share.
        name: Name of the submitted `Script`.
    """

    job: int
    name: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Queued:
    """A unit, as squeue shows it.

    Attributes:
        unit: Job or array element that squeue shows.
        name: Name of the unit's `Script`.
        state: State of the unit, such as ``pending``; ``other`` where Tarmac knows no name for it.
        word: State as Slurm writes it: ``PENDING``.
        reason: Reason for waiting, as Slurm writes it: ``Priority``, ``ReqNodeNotAvail``.
        nodes: Nodes on which the unit runs, as Slurm lists them: ``n[1-3]``.
    """

    unit: Unit
    name: str
    state: UnitState
    word: str
    reason: str = ""
    nodes: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Accounted:
    """A unit that has left the queue, as sacct or scontrol shows it.

    Attributes:
        unit: Job or array element that has left the queue.
        state: State at its end; ``pending`` or ``running`` where it has not ended.
        word: State as Slurm writes it: ``CANCELLED by 1002``.
        exit_code: Exit code of the unit's script. Default 0.
        signal: Number of the signal that ended its script; 0 for none.
        nodes: Nodes on which the unit ran, as Slurm lists them.
        max_rss_bytes: The most memory that a step held; None where unknown.
        ended_at: Time of the unit's end; None where unknown.
        partition: Partition of the unit; empty where unknown.
        time_limit_s: Time limit of the unit; None for no limit or an unknown limit.
        ran_s: Seconds that the unit ran; None where unknown.
    """

    unit: Unit
    state: UnitState
    word: str
    exit_code: int = 0
    signal: int = 0
    nodes: str = ""
    max_rss_bytes: int | None = None
    ended_at: datetime | None = None
    partition: str = ""
    time_limit_s: float | None = None
    ran_s: float | None = None


@dataclasses.dataclass(frozen=True)
class NoAnswer:
    """No answer, or one that cannot be understood: no evidence about any job.

    Attributes:
        command: Command that did not answer: ``squeue``.
        words: Message of the command, or a note that it printed nothing.
    """

    command: str
    words: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """A site's limits, from ``scontrol show config``.

    Attributes:
        version: Version of Slurm, such as ``22.05.8``.
        max_array_size: Highest index of an array plus one. Default 1001.
        min_job_age_s: Seconds for which scontrol still shows a job that has ended.
        kill_wait_s: Seconds between SIGTERM and SIGKILL.
        has_accounting: Whether the site has slurmdbd, so that sacct works.
        requeues: Whether Slurm requeues jobs unless they opt out.
        preemption: Value of ``PreemptMode``, as Slurm writes it.
        cluster: Value of ``ClusterName``; empty where it is not shown.
        controller: Address of the first controller: ``head:6817``; empty where it is not shown.
    """

    version: str
    max_array_size: int = 1001
    min_job_age_s: int = 300
    kill_wait_s: int = 30
    has_accounting: bool = False
    requeues: bool = True
    preemption: str = "OFF"
    cluster: str = ""
    controller: str = ""


class Slurm(Protocol):
    """The commands of a cluster. No call blocks for longer than a minute.

    A call without an answer returns a `NoAnswer`, never an empty list.
    """

    def limits(self) -> Limits | NoAnswer:
        """Return the site's limits, cached after the first answer."""
        ...

    def nodes(self) -> Sequence[SlurmNode] | NoAnswer:
        """Return the site's nodes, once for each partition of a node."""
        ...

    def test(self, script: Script) -> str | NoAnswer | None:
        """Return why a script can never run, in Slurm's words; None where it may run."""
        ...

    def submit(self, script: Script, variables: Mapping[str, str]) -> Submitted | str | NoAnswer:
        """Submit a script; return a refusal in Slurm's words.

        Args:
            script: Script to submit, with its name.
            variables: Environment variables of the job.

        Returns:
            A `NoAnswer` where Slurm may or may not have the job: call `find` next.
        """
        ...

    def find(self, name: str, since: datetime) -> Submitted | NoAnswer | None:
        """Find a submitted script by its name, queued or ended; None where there is none."""
        ...

    def queue(self, names: Collection[str]) -> Sequence[Queued] | NoAnswer:
        """Return the units of some scripts that squeue shows, in one call."""
        ...

    def ended(self, units: Sequence[Unit], since: datetime) -> Sequence[Accounted] | NoAnswer:
        """Return the endings of units that have left the queue, in one call for up to 500."""
        ...

    def why_never(self, job: int) -> str:
        """Return why a limit never lets a job start, in words; empty where it may start."""
        ...

    def cancel(self, units: Sequence[Unit] = (), *, names: Sequence[str] = ()) -> NoAnswer | None:
        """Cancel units, or all units of some names; ended units stay as they are."""
        ...

    def avoid(self, job: int, nodes: Collection[str]) -> NoAnswer | None:
        """Keep a job's waiting units off some nodes."""
        ...

    def throttle(self, job: int, most: int) -> NoAnswer | None:
        """Limit how many elements of an array run at once."""
        ...
