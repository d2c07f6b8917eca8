"""What is watched: which runs, GPUs and processes, and how often."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclasses.dataclass(frozen=True)
class WatchOptions:
    """What to look at; several texts of one field are alternatives, and fields restrict each other.

    Attributes:
        output: Where runs lie. Where it is None that is `tarmac.runs.default_output`, and runs of
            other directories are seen too while a process of this machine works on them.
        gpu: GPUs, by index or the beginning of a UUID; empty for all.
        run: Runs, by name or its beginning, with their parts, what they are part of, and their
            GPUs.
        user: Users, by name: their processes and work.
        mine: Only what this user runs.
        pid: Processes, and the work that they belong to.
        visible: Only the GPUs that ``CUDA_VISIBLE_DEVICES`` names.
        idle_after_s: A GPU that is held and does nothing counts as idle after so many seconds.
        interval_s: From one look to the next.
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
