"""What an executor says of attempts: queued, waiting, begun, queued again, finished."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tarmac.jobs.executors.attempt import Attempt, Outcome
    from tarmac.jobs.machine import Grant

# Why an attempt did not succeed. `exit`, `signal`, `timeout`, `memory` and `start`, which is that
# it never began, are its own; `cancelled` is somebody else's will; `stop` is Tarmac's.
Cause = Literal[
    "exit",
    "signal",
    "timeout",
    "memory",
    "start",
    "cancelled",
    "stop",
    "preempted",
    "node",
    "evicted",
    "lost",
]

# What befalls an attempt: it is made again without spending one of the task's retries.
DISTURBANCES: frozenset[Cause] = frozenset({"preempted", "node", "evicted", "lost"})


@dataclasses.dataclass(frozen=True)
class Queued:
    """An attempt is in a cluster's queue.

    Attributes:
        attempt: Attempt that the engine has queued.
        place: The engine's name for it: ``80_3``. Empty until the engine has answered; a second
            event then brings the name.
    """

    attempt: Attempt
    place: str = ""


@dataclasses.dataclass(frozen=True)
class Waiting:
    """An attempt still waits, and why; told when the reason changes.

    Attributes:
        attempt: Attempt that waits in the queue or at its work.
        reason: Reason for people: ``waits for its turn (Priority)``.
        is_at_work: Whether it has begun all the same, and its engine keeps it waiting or nobody
            can ask how it is; the reason is empty once that is over.
    """

    attempt: Attempt
    reason: str
    is_at_work: bool = False


@dataclasses.dataclass(frozen=True)
class Began:
    """An attempt is at work.

    Attributes:
        attempt: Attempt whose program starts now.
        grant: CPUs, memory and GPUs that the attempt holds.
        host: Name of its node; empty for this machine.
    """

    attempt: Attempt
    grant: Grant
    host: str = ""


@dataclasses.dataclass(frozen=True)
class Requeued:
    """An attempt was at work, and is in the queue again by the engine's own doing.

    Attributes:
        attempt: Attempt that waits again, under its old number.
        cause: Disturbance that ended the try: a member of `DISTURBANCES`.
        reason: The cause in words, for people.
    """

    attempt: Attempt
    cause: Cause
    reason: str


@dataclasses.dataclass(frozen=True)
class Finished:
    """How an attempt ended.

    Attributes:
        attempt: The attempt that has ended.
        outcome: ``interrupted`` only after `Executor.stop` and `Executor.end`.
        reason: Reason for people; empty where the attempt succeeded.
        exit_code: Exit code of the program, negative for a signal; None where it was not started.
        seconds: Time that the program ran, without staging of its inputs and outputs.
        problems: Errors of its outputs, a line each.
        cause: Kind of failure; None where the attempt succeeded.
        host: Name of its node; empty for this machine.
        bad_host: The node whose GPUs were found unfit, which is to be avoided from then on; empty
            where none was.
        notes: Observations beside its work, a line each.
        goes_on: Whether another attempt is to follow at once that spends nothing: this one's turn
            was over, and the task asks for more of them.
    """

    attempt: Attempt
    outcome: Outcome
    reason: str = ""
    exit_code: int | None = None
    seconds: float = 0.0
    problems: Sequence[str] = ()
    cause: Cause | None = None
    host: str = ""
    bad_host: str = ""
    notes: Sequence[str] = ()
    goes_on: bool = False


Event = Queued | Waiting | Began | Requeued | Finished
