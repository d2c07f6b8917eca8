"""The meaning of an attempt's end on a cluster for its task.

The ending that the node wrote has priority, because the node hosts the algorithm as a local host
does. Without it, something disturbed the node, and the engine's report gives the cause.
"""

from __future__ import annotations

from pathlib import Path

from tarmac.hkube.hosting import Ending, Why, Work, last_line
from tarmac.jobs import DISTURBANCES, Cause, Finished

# The meaning of the host's end for its task. As for jobs, there is no retry if the host cannot
# start or if a user cancelled it in the engine.
_WHY: dict[Cause | None, Why] = {
    "exit": "crash",
    "signal": "crash",
    "timeout": "ttl",
    "memory": "memory",
    "start": "refused",
    "cancelled": "refused",
    "stop": "stopped",
}


def ending_without_word(finished: Finished, work: Work, directory: Path) -> Ending:
    """Return the ending of a task whose node wrote none.

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
        message = "its node reports success, but its result is missing"
    else:
        why = _WHY.get(finished.cause, "crash")
    if why == "crash" and finished.cause not in DISTURBANCES:
        line = last_line(directory / "stderr")
        message += f"; its last line: {line}" if line else ""
    return Ending(
        work=work,
        why=why,
        message=message,
        exit_code=finished.exit_code,
        seconds=finished.seconds,
    )
