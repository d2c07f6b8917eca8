"""Detection of hung trainings: no sign of life for five times the usual time; pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.machine import LiveGpu

_TIMES_THE_MEDIAN = 5.0

# With epochs of milliseconds, a checkpoint on a slow disk takes longer than five epochs.
_LEAST_S = 60.0

# Waiting in a collective keeps a GPU at 100 % and draws little more power than an idle GPU.
_WAITING_POWER_SHARE = 0.5
_BUSY_RATIO = 0.5

# A process that computes on the CPU keeps more than this share of a core busy.
_BUSY_CORES = 0.5


@dataclasses.dataclass(frozen=True)
class Rank:
    """One process of a training on this machine.

    Attributes:
        rank: Rank of the process; None in a training of one process.
        gpu: GPU of the process; None on a CPU.
        cpu_ratio: Number of cores that it keeps busy.
        is_stopped: Whether a signal has suspended it.
        tells_stack: Whether SIGUSR2 makes it print the stacks of its threads.
    """

    pid: int
    rank: int | None = None
    gpu: LiveGpu | None = None
    cpu_ratio: float | None = None
    is_stopped: bool = False
    tells_stack: bool = False


@dataclasses.dataclass(frozen=True)
class Hang:
    """The hang of a training.

    Attributes:
        text: Duration and place of the hang, in one line.
        command: Command that resumes it, or prints its stacks beside its log; empty if none helps.
    """

    text: str
    command: str


def find_hang(quiet_s: float | None, step_s: float | None, ranks: Sequence[Rank]) -> Hang | None:
    """Return the hang of a training; None while it seems to progress, or if that is unknown.

    Args:
        quiet_s: Seconds since the training last wrote anything.
        step_s: Median seconds between two signs of life.
        ranks: Known processes of the training on this machine.
    """
    stopped = [rank for rank in ranks if rank.is_stopped]
    if stopped:
        pids = " ".join(str(rank.pid) for rank in stopped)
        return Hang(f"{_name(stopped[0])} is suspended by a signal", f"kill -CONT {pids}")
    if quiet_s is None or step_s is None:
        return None
    if quiet_s < max(_LEAST_S, _TIMES_THE_MEDIAN * step_s) or any(map(_computes, ranks)):
        return None
    text = f"no sign of life for {_duration(quiet_s)}, usually one every {_duration(step_s)}"
    # The launcher of several processes does not train.
    ranks = [rank for rank in ranks if rank.rank is not None] or ranks
    if not ranks:
        return Hang(text, "")
    # Waiting ranks spin in a kernel; the rank that has not reached the collective does not.
    behind = min(ranks, key=_utilization)
    others = [rank for rank in ranks if rank is not behind]
    if others and _utilization(behind) < _BUSY_RATIO <= min(map(_utilization, others)):
        text += f"; {_name(behind)} is not where the others wait"
    return Hang(text, f"kill -USR2 {behind.pid}" if behind.tells_stack else "")


def _computes(rank: Rank) -> bool:
    """Return whether a process still seems to compute, on a long operation."""
    gpu = rank.gpu
    if gpu is None:
        return rank.cpu_ratio is not None and rank.cpu_ratio > _BUSY_CORES
    if gpu.utilization_ratio is None or gpu.utilization_ratio < _BUSY_RATIO:
        return False
    if gpu.power_watts is None or not gpu.power_limit_watts:
        return False
    return gpu.power_watts > _WAITING_POWER_SHARE * gpu.power_limit_watts


def _utilization(rank: Rank) -> float:
    return 0.0 if rank.gpu is None else rank.gpu.utilization_ratio or 0.0


def _name(rank: Rank) -> str:
    where = "" if rank.gpu is None else f", GPU {rank.gpu.index}"
    own = f"process {rank.pid}" if rank.rank is None else f"rank {rank.rank}, process {rank.pid}"
    return own + where


def _duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
