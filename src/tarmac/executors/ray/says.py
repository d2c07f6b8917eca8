"""Explains Ray's errors for tasks that did not return, as a cause in words."""

from __future__ import annotations

import re

from tarmac.executors.events import Cause
from tarmac.executors.queueing import Ending
from tarmac.masking import without_known

# Cause and words of Ray's exceptions, by class name. The first class of an exception's MRO that
# is listed here counts (ray: python/ray/exceptions.py).
_BY_NAME: dict[str, tuple[Cause, str]] = {
    "TaskCancelledError": ("cancelled", "cancelled in Ray from outside"),
    "RuntimeEnvSetupError": ("start", "Ray could not set up its runtime environment"),
    "TaskUnschedulableError": ("node", "Ray cannot place it any more"),
    "TaskPlacementGroupRemoved": ("node", "its placement group was removed"),
    "NodeDiedError": ("node", "its node was lost"),
    "LocalRayletDiedError": ("node", "Ray ended on its node"),
    "WorkerCrashedError": ("node", "its Ray worker ended unexpectedly"),
    "RayActorError": ("node", "a process of Ray that it needs was lost"),
    "ObjectLostError": ("node", "what Ray kept for it was lost with a node"),
    "OutOfDiskError": ("node", "the disk of its node is full"),
    "RayTaskError": ("start", "its agent was not started"),
}

RUNNER_GONE = Ending("lost", "its runner ended, and Ray ended its tasks with it")

_MAX_LENGTH = 300

# The useful part of a line with ids and Ray's own advice (ray: src/ray/raylet/node_manager.cc).
_FULL = re.compile(r"was ([\d.]+ ?[KMGT]?i?B) used / ([\d.]+ ?[KMGT]?i?B)")


def ending_of(error: BaseException, host: str = "", *, is_first_time: bool = True) -> Ending:
    """Return how a task ended, from the exception that Ray has for it.

    Args:
        error: Exception that Ray has for the task.
        host: Name of the task's node; empty where unknown.
        is_first_time: Whether the task has not been ended for full memory before. Ray ends the
            newest task of a full node, not the task that filled the node. So the first time counts
            as the node's fault, and later times count as the task's own.
    """
    kinds = [kind.__name__ for kind in type(error).__mro__]
    if "OutOfMemoryError" in kinds:
        return _full_ending(str(error), host, is_first_time=is_first_time)
    name = next((kind for kind in kinds if kind in _BY_NAME), "")
    if not name:
        return Ending("lost", f"Ray says {kinds[0]}: {_said(error)}", host)
    cause, words = _BY_NAME[name]
    message = _said(error)
    if name in ("TaskCancelledError", "WorkerCrashedError"):
        # Ray's message says the same in three lines.
        return Ending(cause, words, host)
    return Ending(cause, f"{words}: {message}" if message else words, host)


def returned_ending(exit_code: int, last_line: str, host: str) -> Ending:
    """Return how an agent ended, from what its Ray task returned.

    Args:
        exit_code: Exit code of the agent, negative for a signal.
        last_line: Last line that the agent itself printed.
        host: Name of the agent's node.
    """
    if exit_code == 0:
        return Ending(None, "that it has ended", host)
    how = f"exit code {exit_code}" if exit_code > 0 else f"signal {-exit_code}"
    words = f"its agent ended with {how}"
    return Ending("start", f"{words}: {_shortened(last_line)}" if last_line else words, host)


def _full_ending(message: str, host: str, *, is_first_time: bool) -> Ending:
    match = _FULL.search(message)
    room = f" ({match[1]} of {match[2]})" if match else ""
    words = f"its node's memory was full{room}, and Ray ended"
    if is_first_time:
        return Ending("evicted", f"{words} the newest task there", host)
    again = (
        "it for the second time: request the memory that it needs, resources: {memory: ...}, "
        "or use less"
    )
    return Ending("memory", f"{words} {again}", host)


def _said(error: BaseException) -> str:
    """Return the most telling line of an exception: a traceback's last line, else the first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return ""
    # Ray puts the task's name in place of "Traceback".
    is_trace = any(line.startswith(("Traceback ", 'File "')) for line in lines)
    return _shortened(lines[-1] if is_trace else lines[0])


def _shortened(line: str) -> str:
    # Redact before truncating: redaction cannot recognize half of a secret.
    return without_known(line)[:_MAX_LENGTH]
