"""The events of attempts: queued, waiting, begun, requeued, finished."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

from tarmac.executors.attempt import Attempt, Outcome
from tarmac.tasks.machine import Grant

# Why an attempt did not succeed. `exit`, `signal`, `timeout`, `memory` and `start` (the program
# never started) are its own failures; `cancelled` was requested by a person; `stop` by Tarmac.
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

# The scheduler repeats an attempt after one of these without spending one of the task's retries.
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
    """An attempt still waits; emitted when the reason changes.

    Attributes:
        attempt: Attempt that waits in the queue, or is suspended after its start.
        reason: Reason for people: ``waits for its turn (Priority)``.
        is_at_work: Whether the attempt has begun, and its engine suspends it or does not answer.
            The reason is empty once that is over.
    """

    attempt: Attempt
    reason: str
    is_at_work: bool = False


@dataclasses.dataclass(frozen=True)
class Began:
    """An attempt has begun.

    Attributes:
        attempt: Attempt whose program starts now.
        grant: CPUs, memory and GPUs that the attempt holds.
        host: Name of the attempt's node; empty for this machine.
    """

    attempt: Attempt
    grant: Grant
    host: str = ""


@dataclasses.dataclass(frozen=True)
class Requeued:
    """An attempt had begun, and the engine has put it back into the queue.

    Attributes:
        attempt: Attempt that waits again, under its old number.
        cause: Disturbance that ended the earlier try: a member of `DISTURBANCES`.
        reason: Reason for the requeue, for people.
    """

    attempt: Attempt
    cause: Cause
    reason: str


@dataclasses.dataclass(frozen=True)
class Finished:
    """The result of an attempt.

    Attributes:
        attempt: Attempt that has ended.
        outcome: Outcome of the attempt; ``interrupted`` only after `Executor.stop` or
            `Executor.end`.
        reason: Reason for people; empty where the attempt succeeded.
        exit_code: Exit code of the program, negative for a signal; None where it was not started.
        seconds: Seconds that the program ran, without staging of its inputs and outputs.
        problems: Errors of its outputs, a line each.
        cause: Kind of failure; None where the attempt succeeded.
        host: Name of the attempt's node; empty for this machine.
        bad_host: Node whose GPUs failed the check and which the run avoids from now on; empty for
            none.
        notes: Observations about the attempt, a line each.
        goes_on: Whether another attempt follows at once without spending a retry: the engine's time
            limit ended this one, and the task asks to continue.
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
