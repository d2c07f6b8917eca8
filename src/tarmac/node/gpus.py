"""The GPUs of an attempt: what the engine gave, compared with what was asked and what is there.

Numbers mean different GPUs to different libraries, so programs get UUIDs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

# A desktop or a daemon has less; what a job leaves behind has more.
_HELD_BYTES = 2**30


class GpuError(Exception):
    """An attempt has not the GPUs that it asked for; says so in words."""


class BrokenGpu(GpuError):  # noqa: N818 - says what is so
    """A GPU that an attempt was given does not answer; says so in words."""


class Gpu(NamedTuple):
    """A GPU of this node that this process may use.

    Attributes:
        uuid: UUID of the GPU, such as ``GPU-...``.
        memory_bytes: All that it has.
        problem: What its driver says where it does not answer; the rest is not known then.
    """

    uuid: str
    memory_bytes: int
    problem: str = ""


class GpuUse(NamedTuple):
    """What is in use of a GPU, or of a part of one.

    Attributes:
        uuid: UUID of the GPU, ``GPU-...``, or of a part of it, ``MIG-...``.
        memory_bytes: All that it has.
        used_bytes: Bytes in use, without those that the driver keeps for itself.
        pids: Processes that compute on it, by the numbers that the driver knows them by.
        utilization: Percent of the last moment in which it computed; 0 where that is not told.
    """

    uuid: str
    memory_bytes: int
    used_bytes: int
    pids: tuple[int, ...] = ()
    utilization: int = 0


def choose_gpus(
    given: Sequence[str],
    present: Sequence[Gpu] | None,
    *,
    asked: int,
    memory_bytes: int | None,
    giver: str,
    host: str,
    is_pretending: bool,
) -> list[str]:
    """Return what names the GPUs of an attempt, as many as were asked.

    Args:
        given: By the engine: numbers, or UUIDs, which may be of parts of a GPU (MIG).
        present: GPUs that the driver shows, from `tarmac.node.nvml.read_gpus`; None without a
            driver.
        asked: Number of GPUs that the attempt needs on this node.
        memory_bytes: That each must have.
        giver: Name of the engine, for errors; may be empty.
        host: Name of this node, for errors.
        is_pretending: Whether those that the driver does not show are taken for given.

    Raises:
        BrokenGpu: One does not answer.
        GpuError: There are fewer, or others, than were asked.
    """
    if not asked:
        return []
    giver = giver or "the engine"
    if len(given) < asked:
        words = f"{giver} gave {len(given)} of {asked} GPUs on {host}"
        raise GpuError(f"{words}; is its gres.conf right?" if giver == "Slurm" else words)
    # A node that is given whole may have more than were asked.
    wanted = given[:asked]
    if is_pretending and not present:
        return [*wanted]
    if present is None:
        raise GpuError(f"{giver} gave {_gpus(asked)} on {host}, but no NVIDIA driver is there")
    return [
        _named(name, present, memory_bytes, f"{giver} gave GPU {name} on {host}") for name in wanted
    ]


def held_by_others(uses: Sequence[GpuUse], host: str) -> list[str]:
    """Return a line for each GPU of whose memory others have much, before a program begins.

    Args:
        uses: Memory use of the attempt's own GPUs.
        host: Name of this node, for the lines.
    """
    lines = []
    for use in uses:
        if use.used_bytes < _HELD_BYTES:
            continue
        have, held = use.memory_bytes / 2**30, use.used_bytes / 2**30
        numbers = ", ".join(map(str, use.pids))
        who = f"process {numbers}" if numbers else "no process that is shown here"
        lines.append(
            f"{held:.1f} of {have:.1f} GiB of {use.uuid} on {host} were in use before the program "
            f"began, by {who}"
        )
    return lines


def _named(name: str, present: Sequence[Gpu], memory_bytes: int | None, words: str) -> str:
    if name.startswith("MIG-"):
        return name
    if name.isdigit():
        match = present[int(name)] if int(name) < len(present) else None
    else:
        # CUDA takes the beginning of a UUID for all of it.
        match = next((gpu for gpu in present if gpu.uuid.startswith(name)), None)
    lost = [gpu.problem for gpu in present if gpu.problem]
    if match is not None and match.problem:
        raise BrokenGpu(f"{words}, which does not answer: {match.problem}")
    if match is None and lost and not name.isdigit():
        raise BrokenGpu(f"{words}, and one there does not answer: {lost[0]}")
    if match is None:
        raise GpuError(f"{words}, but its driver shows {_gpus(len(present))}, not that")
    if memory_bytes is not None and match.memory_bytes < memory_bytes:
        have, need = match.memory_bytes / 2**30, memory_bytes / 2**30
        raise GpuError(f"{words}, which has {have:.1f} GiB of memory; {need:.1f} GiB were asked")
    return match.uuid


def _gpus(count: int) -> str:
    # `tarmac.wording` is not in the agent's file.
    return "1 GPU" if count == 1 else f"{count} GPUs"
