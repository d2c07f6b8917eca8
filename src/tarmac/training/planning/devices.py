"""Chooses devices, by rule, and says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac.errors import RequestError
from tarmac.machine import Device, find_devices, name_left_out, why_on_cpu
from tarmac.training.planning.sharing import weigh_sharing
from tarmac.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tarmac.training.processes.rendezvous import Rendezvous

# How the reason begins where `auto` leaves GPUs idle.
ONE_OF_SEVERAL = "one GPU of"


def find_training_devices(request: str, rendezvous: Rendezvous | None) -> Sequence[Device]:
    """Find the devices of this machine that are asked for.

    Args:
        request: Devices to use, in the syntax of `find_devices`.
        rendezvous: Rank and world size of this process from its launcher; None without a launcher.

    Raises:
        RequestError: They are not here.
    """
    if rendezvous is None:
        return find_devices(request)
    return devices_of_machine(request, rendezvous)


def devices_of_machine(request: str, rendezvous: Rendezvous) -> tuple[Device, ...]:
    """Find the devices of the processes that a launcher has started on this machine.

    Args:
        request: As for `find_devices`; ``auto`` gives each process the GPU of its local rank.
        rendezvous: Rank and world size of this process from its launcher.

    Returns:
        One for each local rank. Where each process sees one GPU only, as Slurm and Ray arrange it,
        that one stands for all.

    Raises:
        RequestError: There are fewer devices than processes, or another number was asked for.
    """
    count = rendezvous.local_world_size
    started = counted(count, "process was started", "processes were started")
    if request in ("auto", "all", "cpu"):
        devices = find_devices(request, shared=True)
        if devices[0].type == "cpu":
            return find_devices(f"cpu:{count}")
        if len(devices) == 1 < count:
            return devices * count
        if len(devices) < count:
            raise RequestError(
                f"{started} here, but {counted(len(devices), 'GPU is', 'GPUs are')} visible",
                hint="Start one process per GPU: torchrun --nproc-per-node gpu",
            )
        return devices[:count]
    devices = find_devices(request, shared=True)
    if len(devices) != count:
        raise RequestError(
            f"devices is {request!r}, but {started} here",
            hint="Leave --devices out: each process takes the GPU of its LOCAL_RANK.",
        )
    return devices


def devices_again(recorded: str, rendezvous: Rendezvous | None) -> str:
    """Return what to ask for to go on with a run.

    Args:
        recorded: What the run's record says of its first machine.
        rendezvous: Rank and world size of this process from its launcher; None without a launcher.
            If the number of processes on this machine has changed, the result is ``auto``.
    """
    if rendezvous is None:
        return recorded
    if recorded.startswith("cpu"):
        return "cpu"
    num_recorded = recorded.count(",") + 1
    return recorded if num_recorded == rendezvous.local_world_size else "auto"


def why_not_all(request: str, found: Sequence[Device], rendezvous: Rendezvous | None) -> str:
    """Return why a request for GPUs in general found the CPU, or not all of the GPUs here.

    Args:
        request: Devices that the user requested, in the syntax of `find_devices`.
        found: Devices that `find_training_devices` returned for the request.
        rendezvous: Rank and world size of this process from its launcher; None without a launcher.

    Returns:
        Empty where nothing was left out, or devices were named.
    """
    if request not in ("auto", "all") and not request.isdecimal():
        return ""
    if found[0].type == "cpu":
        return why_on_cpu()
    return name_left_out(shared=rendezvous is not None)


def choose_devices(
    request: str,
    strategy: str,
    found: Sequence[Device],
    flops_per_device: float,
    num_parameters: int,
    *,
    rendezvous: Rendezvous | None = None,
    why_not_all: str = "",
) -> tuple[Sequence[Device], str]:
    """Choose among several GPUs that ``auto`` found: all where that makes a step shorter, else one.

    Args:
        request: Devices that the user requested, in the syntax of `find_devices`.
        strategy: Strategy that the user requested, or ``auto``.
        found: Devices that `find_training_devices` returned for the request.
        flops_per_device: A step's matrix work on each, were all of them used.
        num_parameters: How many gradients they would add up.
        rendezvous: Rank and world size of this process from its launcher; None without a launcher.
        why_not_all: Reason from `why_not_all`; empty for none.

    Returns:
        The devices, and the reason in words.
    """
    if rendezvous is not None:
        return found, "one for each process here"
    aside = f", {why_not_all}" if why_not_all else ""
    if request != "auto":
        return found, f"as asked{aside}"
    if found[0].type == "cpu":
        return found, why_not_all
    if len(found) == 1:
        return found, f"the one GPU{aside}"
    sharing = weigh_sharing(found, flops_per_device, num_parameters)
    figures = (
        f"to share a step saves {sharing.saved_s * 1e3:.2g} ms, "
        f"its all-reduce takes {sharing.cost_s * 1e3:.2g}"
    )
    if strategy in ("auto", "single") and not sharing.pays:
        shares = "; --devices all shares it" if strategy == "auto" else ""
        return found[:1], f"{ONE_OF_SEVERAL} {len(found)}: {figures}{shares}{aside}"
    return found, f"{len(found)} GPUs: {figures}{aside}"
