"""How long a host waits for what."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Timers:
    """Times in seconds; HKube's own where it has one.

    Attributes:
        start_s: For an algorithm to connect first, unless its ``workerEnv`` says otherwise by
            ``ALGORITHM_DISCONNECTED_TIMEOUT_MS``. HKube's chart 2.0.20 has 300.
        stop_s: From ``stop`` to ``stopped``, after which an instance is killed.
        exit_s: From ``exit`` to the end of the process, which is asked by SIGTERM then.
        kill_s: From SIGTERM to SIGKILL.
        stalled_s: How long nothing may go on because algorithms that wait for each other hold all
            there is, until one of them is told so.
    """

    start_s: float = 300.0
    stop_s: float = 10.0
    exit_s: float = 2.0
    kill_s: float = 5.0
    stalled_s: float = 300.0
