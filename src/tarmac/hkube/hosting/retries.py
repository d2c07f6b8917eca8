"""The endings that are retried.

As in kube-HPC/hkube at 261d3d06, core/worker/lib/worker.js: the algorithm itself reports an error;
a crash is the end of its container or its socket. A task out of time is not retried.
"""

from __future__ import annotations

from collections.abc import Mapping

from tarmac.hkube.hosting.interface import Ending, RetryPolicy, Why

_CRASHES: frozenset[Why] = frozenset(("crash", "memory"))
_ERRORS: frozenset[Why] = frozenset(("error",))
_TRIED_AGAIN: Mapping[RetryPolicy, frozenset[Why]] = {
    "Never": frozenset(),
    "Always": _CRASHES | _ERRORS,
    "OnError": _ERRORS,
    "OnCrash": _CRASHES,
}


def is_tried_again(ending: Ending) -> bool:
    """Whether a task is retried after an ending."""
    work = ending.work
    return ending.why in _TRIED_AGAIN[work.retry] and ending.attempts < work.limit
