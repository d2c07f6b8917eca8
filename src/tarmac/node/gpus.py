"""The GPUs of an attempt: the engine's assignment checked against the request and the driver.

A number means different GPUs to different libraries, so programs get UUIDs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

# A desktop or a daemon uses less memory; leftovers of a job use more.
_HELD_BYTES = 2**30


class GpuError(Exception):
    """An attempt lacks the GPUs that it asks for; the message says why."""


class BrokenGpu(GpuError):  # noqa: N818 - named after the condition
    """An assigned GPU does not answer; the message says why."""


class Gpu(NamedTuple):
    """A GPU of this node that this process may use, or a MIG instance.

    Attributes:
        uuid: UUID of the GPU, ``GPU-...``, or of a MIG instance, ``MIG-...``.
        memory_bytes: Total memory in bytes.
        used_bytes: Bytes in use, without those that the driver keeps for itself.
        pids: Process ids, as the driver knows them, of the processes that compute on it.
        utilization: Percent of the last sampling interval with computation. 0 if not reported.
        problem: Driver's error if the GPU does not answer; the other fields are unknown then.
    """

    uuid: str
    memory_bytes: int
    used_bytes: int = 0
    pids: tuple[int, ...] = ()
    utilization: int = 0
    problem: str = ""


def choose_gpus(
    assigned: Sequence[str],
    present: Sequence[Gpu] | None,
    *,
    num_gpus: int,
    memory_bytes: int | None,
    giver: str,
    host: str,
    is_pretending: bool,
) -> list[str]:
    """Return the UUIDs of an attempt's GPUs, as many as the attempt asks for.

    Args:
        assigned: GPUs that the engine assigned: numbers, or UUIDs of GPUs or MIG instances.
        present: GPUs that the driver shows, from `tarmac.node.nvml.read_gpus`; None without a
            driver.
        num_gpus: Number of GPUs that the attempt needs on this node.
        memory_bytes: Least memory of each GPU in bytes. None: no bound.
        giver: Name of the engine, for errors; may be empty.
        host: Name of this node, for errors.
        is_pretending: Whether to accept the assigned GPUs if the driver shows none.

    Raises:
        BrokenGpu: An assigned GPU does not answer.
        GpuError: The assigned GPUs are too few or do not match the request.
    """
    if not num_gpus:
        return []
    giver = giver or "the engine"
    if len(assigned) < num_gpus:
        words = f"{giver} gave {len(assigned)} of {num_gpus} GPUs on {host}"
        raise GpuError(f"{words}; is its gres.conf right?" if giver == "Slurm" else words)
    # An exclusive node may have more GPUs than the attempt asks for.
    wanted = assigned[:num_gpus]
    if is_pretending and not present:
        return [*wanted]
    if present is None:
        raise GpuError(f"{giver} gave {_gpus(num_gpus)} on {host}, but no NVIDIA driver is there")
    return [
        _named(name, present, memory_bytes, f"{giver} gave GPU {name} on {host}") for name in wanted
    ]


def held_by_others(gpus: Sequence[Gpu], host: str) -> list[str]:
    """Return a line for each GPU with 1 GiB or more in use before the program starts.

    Args:
        gpus: The attempt's own GPUs, as the driver reports their use.
        host: Name of this node, for the lines.
    """
    lines = []
    for gpu in gpus:
        if gpu.used_bytes < _HELD_BYTES:
            continue
        have, held = gpu.memory_bytes / 2**30, gpu.used_bytes / 2**30
        numbers = ", ".join(map(str, gpu.pids))
        who = f"process {numbers}" if numbers else "no process that is shown here"
        lines.append(
            f"{held:.1f} of {have:.1f} GiB of {gpu.uuid} on {host} were in use before the program "
            f"began, by {who}"
        )
    return lines


def _named(name: str, present: Sequence[Gpu], memory_bytes: int | None, words: str) -> str:
    if name.startswith("MIG-"):
        return name
    if name.isdigit():
        match = present[int(name)] if int(name) < len(present) else None
    else:
        # CUDA accepts a prefix of a UUID.
        match = next((gpu for gpu in present if gpu.uuid.startswith(name)), None)
    lost = [gpu.problem for gpu in present if gpu.problem]
    if match is not None and match.problem:
        raise BrokenGpu(f"{words}, which does not answer: {match.problem}")
    if match is None and lost and not name.isdigit():
        raise BrokenGpu(f"{words}, and one there does not answer: {lost[0]}")
    if match is None:
        raise GpuError(f"{words}, but its driver shows {_gpus(len(present))}, not that one")
    if memory_bytes is not None and match.memory_bytes < memory_bytes:
        have, need = match.memory_bytes / 2**30, memory_bytes / 2**30
        raise GpuError(f"{words}, which has {have:.1f} GiB of memory; {need:.1f} GiB were asked")
    return match.uuid


def _gpus(count: int) -> str:
    # `tarmac.wording` is not in the agent's file.
    return "1 GPU" if count == 1 else f"{count} GPUs"
