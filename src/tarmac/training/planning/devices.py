"""Choose devices by rule, and give the reason."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.errors import RequestError
from tarmac.machine import Device, find_devices, name_left_out, why_on_cpu
from tarmac.training.planning.options import Options
from tarmac.training.planning.sharing import weigh_sharing
from tarmac.training.processes.rendezvous import Rendezvous
from tarmac.wording import counted

# Prefix of the reason for which `auto` leaves GPUs idle.
ONE_OF_SEVERAL = "one GPU of"


def find_training_devices(
    request: str, rendezvous: Rendezvous | None
) -> tuple[Sequence[Device], str]:
    """Find the requested devices of this machine.

    Args:
        request: Devices to use, in the syntax of `find_devices`.
        rendezvous: Rank and world size of this process from its launcher; None without a launcher.

    Returns:
        The devices, and the reason why a general request left out GPUs; empty if it left out none.

    Raises:
        RequestError: The requested devices do not exist here.
    """
    devices: Sequence[Device] = (
        find_devices(request) if rendezvous is None else devices_of_machine(request, rendezvous)
    )
    if request not in ("auto", "all") and not request.isdecimal():
        return devices, ""
    if devices[0].type == "cpu":
        return devices, why_on_cpu()
    return devices, name_left_out(shared=rendezvous is not None)


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


def choose_devices(
    options: Options,
    candidates: Sequence[Device],
    flops_per_device: float,
    num_parameters: int,
    *,
    rendezvous: Rendezvous | None = None,
    left_out: str = "",
) -> tuple[Sequence[Device], str]:
    """Choose among the GPUs that ``auto`` found: all if that shortens a step, else one.

    Args:
        options: Options that the user set.
        candidates: Devices that `find_training_devices` returned for the request.
        flops_per_device: Matrix work per step and device if all devices share the step, in FLOP.
        num_parameters: Number of gradients to all-reduce.
        rendezvous: Rank and world size of this process from its launcher; None without a launcher.
        left_out: Reason from `find_training_devices`; empty for none.

    Returns:
        The devices, and the reason in words.
    """
    if rendezvous is not None:
        return candidates, "one for each process here"
    aside = f", {left_out}" if left_out else ""
    if options.devices != "auto":
        return candidates, f"as requested{aside}"
    if candidates[0].type == "cpu":
        return candidates, left_out
    if len(candidates) == 1:
        return candidates, f"the one GPU{aside}"
    sharing = weigh_sharing(candidates, flops_per_device, num_parameters)
    figures = (
        f"sharing a step saves {sharing.saved_s * 1e3:.2g} ms, but its all-reduce takes "
        f"{sharing.cost_s * 1e3:.2g}"
    )
    if options.strategy in ("auto", "single") and not sharing.pays:
        shares = "; --devices all shares it" if options.strategy == "auto" else ""
        return candidates[:1], f"{ONE_OF_SEVERAL} {len(candidates)}: {figures}{shares}{aside}"
    return candidates, f"{len(candidates)} GPUs: {figures}{aside}"
