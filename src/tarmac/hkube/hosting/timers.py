"""The timeouts of a host."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Timers:
    """The timeouts of a host in seconds, equal to HKube's own where it has one.

    Attributes:
        start_s: Seconds for an algorithm's first connection, unless its ``workerEnv`` sets
            ``ALGORITHM_DISCONNECTED_TIMEOUT_MS``. Default 300, as in HKube's chart 2.0.20.
        stop_s: Seconds from ``stop`` to ``stopped`` before the instance is killed. Default 10.
        exit_s: Seconds from ``exit`` to the end of the process before SIGTERM. Default 2.
        kill_s: Seconds from SIGTERM to SIGKILL. Default 5.
        stalled_s: Seconds of a deadlock between algorithms until a waiting task is refused. Default
            300.
    """

    start_s: float = 300.0
    stop_s: float = 10.0
    exit_s: float = 2.0
    kill_s: float = 5.0
    stalled_s: float = 300.0
