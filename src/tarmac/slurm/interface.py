"""What is said to a Slurm, and what it answers: plain records, the same for all of its versions."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from tarmac.slurm.site import SlurmNode

# Where a command cannot go on without Slurm's answer.
SILENCE_HINT = "Is this a machine that jobs are submitted from? Try: sinfo"

# squeue(1), "JOB STATE CODES", as far as they differ for who waits; others are read as `other`.
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
    """What Slurm starts, and tells apart: a job, or one element of an array.

    Attributes:
        job: Job number; for an array, the number of the whole array.
        element: Index of the array's element, from 0; None for a job that is no array.
    """

    job: int
    element: int | None = None

    def __str__(self) -> str:
        """Return it as Slurm's commands take it: ``80``, ``80_3``."""
        return str(self.job) if self.element is None else f"{self.job}_{self.element}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Script:
    """A job, or an array of equal ones, ready for sbatch.

    Attributes:
        name: Job name, unique among all of this user's, by which the job is looked up.
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
    """What was accepted.

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
        word: The state in Slurm's own word.
        reason: Reason for waiting, in Slurm's own word: ``Priority``, ``ReqNodeNotAvail``.
        nodes: Nodes where it runs, as Slurm lists them: ``n[1-3]``.
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
        word: The state in Slurm's own words: ``CANCELLED by 1002``.
        exit_code: Exit code of the unit's script. Default 0.
        signal: Number of the signal that ended its script; 0 for none.
        nodes: Nodes where it ran, as Slurm lists them.
        max_rss_bytes: The most memory that a step held; None where unknown.
        ended_at: Time of its end; None where unknown.
        partition: Partition of the unit; empty where unknown.
        time_limit_s: Time limit of the unit; None for no limit or an unknown limit.
        ran_s: Time that the unit ran; None where unknown.
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
class Silence:
    """No answer that can be understood: says nothing about any job.

    Attributes:
        command: Command that did not answer: ``squeue``.
        words: Message of the command, or a note that it printed nothing.
    """

    command: str
    words: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """What a site allows, from ``scontrol show config``.

    Attributes:
        version: Version of Slurm, such as ``22.05.8``.
        max_array_size: The highest index of an array is one less.
        min_job_age_s: Seconds for which scontrol still shows a job that has ended.
        kill_wait_s: Seconds between SIGTERM and SIGKILL.
        has_accounting: Whether sacct knows anything.
        requeues: Whether jobs are begun again unless they say otherwise.
        preemption: ``PreemptMode``, in Slurm's words.
        cluster: ``ClusterName``; empty where it is not shown.
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
    """A cluster's commands. None blocks for longer than a minute.

    Whatever is not an answer is a `Silence`, never an empty list.
    """

    def limits(self) -> Limits | Silence:
        """Return what the site allows; asked once."""
        ...

    def nodes(self) -> Sequence[SlurmNode] | Silence:
        """Return the site's nodes, each once for every partition that it is in."""
        ...

    def test(self, script: Script) -> str | Silence | None:
        """Return why a script can never run, in Slurm's words; None where it may."""
        ...

    def submit(self, script: Script, variables: Mapping[str, str]) -> Submitted | str | Silence:
        """Submit a script; a refusal comes back in Slurm's words.

        Args:
            script: Script to submit, with its name.
            variables: All that the job's environment starts from.

        Returns:
            A `Silence` where it is not known whether it was accepted: look by its name first.
        """
        ...

    def find(self, name: str, since: datetime) -> Submitted | Silence | None:
        """Return what was submitted under a name, queued or ended; None where nothing was."""
        ...

    def queue(self, names: Collection[str]) -> Sequence[Queued] | Silence:
        """Return the units of some scripts that squeue knows, in one call."""
        ...

    def ended(self, units: Sequence[Unit], since: datetime) -> Sequence[Accounted] | Silence:
        """Return what is known of units that have left the queue, in one call for up to 500."""
        ...

    def why_never(self, job: int) -> str:
        """Return why a limit of its QOS or account never lets a job start; empty where it may."""
        ...

    def cancel(self, units: Sequence[Unit] = (), *, names: Sequence[str] = ()) -> Silence | None:
        """Cancel units, or all of some names; what has ended is left as it is."""
        ...

    def avoid(self, job: int, nodes: Collection[str]) -> Silence | None:
        """Let what waits of a job run on other nodes than these alone."""
        ...

    def throttle(self, job: int, most: int) -> Silence | None:
        """Let at most so many elements of an array run at once."""
        ...
