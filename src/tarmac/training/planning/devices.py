"""Choose devices by rule, and give the reason."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.errors import RequestError
from tarmac.machine import Device, find_devices, name_left_out, why_on_cpu
from tarmac.training.planning.sharing import weigh_sharing
from tarmac.training.processes.rendezvous import Rendezvous
from tarmac.wording import counted

# Prefix of the reason for which `auto` leaves GPUs idle.
ONE_OF_SEVERAL = "one GPU of"


def find_training_devices(request: str, rendezvous: Rendezvous | None) -> Sequence[Device]:
    """Find the requested devices of this machine.

    Args:
        request: Devices to use, in the syntax of `find_devices`.
        rendezvous: Rank and world size of this process from its launcher; None without a launcher.

    Raises:
        RequestError: The requested devices do not exist here.
    """
    if rendezvous is None:
        return find_devices(request)
    return devices_of_machine(request, rendezvous)


def devices_of_machine(request: str, rendezvous: Rendezvous) -> tuple[Device, ...]:
    """Find the devices of the processes that a launcher has started on this machine.

    Args:
        request: Same as for `find_devices`; ``auto`` gives each process the GPU of its local rank.
        rendezvous: Rank and world size of this process from its launcher.

    Returns:
        Devices by local rank. If each process sees only one GPU, as under Slurm and Ray, that GPU
        is repeated for all local ranks.

    Raises:
        RequestError: There are fewer devices than processes, or another number was requested.
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
    """Return the request for devices with which a run resumes.

    Args:
        recorded: Devices of the first machine, from the run's record.
        rendezvous: Rank and world size of this process from its launcher; None without a launcher.
            If the number of processes on this machine has changed, the result is ``auto``.
    """
    if rendezvous is None:
        return recorded
    if recorded.startswith("cpu"):
        return "cpu"
    num_recorded = recorded.count(",") + 1
    return recorded if num_recorded == rendezvous.local_world_size else "auto"


def why_not_all(request: str, devices: Sequence[Device], rendezvous: Rendezvous | None) -> str:
    """Return why a general request for GPUs found the CPU or only some of the GPUs.

    Args:
        request: Devices that the user requested, in the syntax of `find_devices`.
        devices: Devices that `find_training_devices` returned for the request.
        rendezvous: Rank and world size of this process from its launcher; None without a launcher.

    Returns:
        The reason in words; empty if no GPU was left out or the request named devices.
    """
    if request not in ("auto", "all") and not request.isdecimal():
        return ""
    if devices[0].type == "cpu":
        return why_on_cpu()
    return name_left_out(shared=rendezvous is not None)


def choose_devices(
    request: str,
    strategy: str,
    devices: Sequence[Device],
    flops_per_device: float,
    num_parameters: int,
    *,
    rendezvous: Rendezvous | None = None,
    why_not_all: str = "",
) -> tuple[Sequence[Device], str]:
    """Choose among the GPUs that ``auto`` found: all if that shortens a step, else one.

    Args:
        request: Devices that the user requested, in the syntax of `find_devices`.
        strategy: Strategy that the user requested, or ``auto``.
        devices: Devices that `find_training_devices` returned for the request.
        flops_per_device: Matrix work per step and device if all devices share the step, in FLOP.
        num_parameters: Number of gradients to all-reduce.
        rendezvous: Rank and world size of this process from its launcher; None without a launcher.
        why_not_all: Reason from `why_not_all`; empty for none.

    Returns:
        The devices, and the reason in words.
    """
    if rendezvous is not None:
        return devices, "one for each process here"
    aside = f", {why_not_all}" if why_not_all else ""
    if request != "auto":
        return devices, f"as requested{aside}"
    if devices[0].type == "cpu":
        return devices, why_not_all
    if len(devices) == 1:
        return devices, f"the one GPU{aside}"
    sharing = weigh_sharing(devices, flops_per_device, num_parameters)
    figures = (
        f"sharing a step saves {sharing.saved_s * 1e3:.2g} ms, but its all-reduce takes "
        f"{sharing.cost_s * 1e3:.2g}"
    )
    if strategy in ("auto", "single") and not sharing.pays:
        shares = "; --devices all shares it" if strategy == "auto" else ""
        return devices[:1], f"{ONE_OF_SEVERAL} {len(devices)}: {figures}{shares}{aside}"
    return devices, f"{len(devices)} GPUs: {figures}{aside}"
