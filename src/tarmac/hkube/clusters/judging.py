"""What the end of an attempt on a cluster means for its task.

The node's own word goes first: it hosts the algorithm as a host here does. Where it has said
nothing, something befell it, and the engine's word says what.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac.hkube.hosting import Ending, last_line
from tarmac.jobs import DISTURBANCES

if TYPE_CHECKING:
    from pathlib import Path

    from tarmac.hkube.hosting import Why, Work
    from tarmac.jobs import Cause, Finished

# What the end of a host means for the task that it had. What nobody can begin, and what somebody
# has ended in the engine, is not tried again, as with jobs.
_WHY: dict[Cause | None, Why] = {
    "exit": "crash",
    "signal": "crash",
    "timeout": "ttl",
    "memory": "memory",
    "start": "refused",
    "cancelled": "refused",
    "stop": "stopped",
}


def is_disturbed(finished: Finished, said: Ending | None) -> bool:
    """Whether an attempt is made again that has spent nothing.

    Args:
        finished: How the engine says that it ended.
        said: What its node has said; None where it has said nothing.
    """
    return said is None and (finished.goes_on or finished.cause in DISTURBANCES)


def ending_without_word(finished: Finished, work: Work, directory: Path) -> Ending:
    """Return how a task ended whose node has said nothing.

    Args:
        finished: Report of the engine on the attempt's end.
        work: Task of the attempt, which the returned ending carries.
        directory: Directory of the attempt, with its ``stderr``.
    """
    why: Why = "crash"
    message = finished.reason
    if finished.outcome == "interrupted":
        why = "stopped"
    elif finished.outcome == "succeeded":
        message = "its node says that it has succeeded, and its result has not come"
    else:
        why = _WHY.get(finished.cause, "crash")
    if why == "crash":
        line = last_line(directory / "stderr")
        message += f"; it said: {line}" if line else ""
    return Ending(
        work=work,
        why=why,
        message=message,
        exit_code=finished.exit_code,
        seconds=finished.seconds,
    )
