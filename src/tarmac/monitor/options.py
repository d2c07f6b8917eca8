"""The options of the monitor: filters for runs, GPUs and processes, and the interval."""

from __future__ import annotations

import dataclasses
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class WatchOptions:
    """The filters and the interval of the monitor.

    Several values of one field are alternatives. Fields restrict each other.

    Attributes:
        output: Directory of the runs. None for `tarmac.runs.default_output`, and for runs in other
            directories while a process of this machine works on them.
        gpu: GPUs, by index or the beginning of a UUID; empty for all.
        run: Runs, by name or its beginning, with their parts, their parents and their GPUs.
        user: Names of users whose processes and work to show.
        mine: Whether to show only work of this user.
        pid: Pids of processes to show, with the work that they belong to.
        visible: Whether to show only the GPUs that ``CUDA_VISIBLE_DEVICES`` names.
        idle_after_s: Seconds after which a held GPU that does nothing counts as idle. Default 600.
        interval_s: Seconds between two looks. Default 1.
    """

    output: Path | None = None
    gpu: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    mine: bool = False
    pid: tuple[int, ...] = ()
    visible: bool = False
    idle_after_s: float = 600.0
    interval_s: float = 1.0
