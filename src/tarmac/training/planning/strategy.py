"""Choose by rule the strategy for the devices, and give the reason."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.errors import RequestError
from tarmac.machine import Device
from tarmac.training.engine.strategies import find_strategy
from tarmac.training.engine.strategy import StrategySpec
from tarmac.training.processes.rendezvous import Rendezvous

_LAUNCHED = "a launcher has set RANK and WORLD_SIZE"


def choose_strategy(
    request: str, devices: Sequence[Device], rendezvous: Rendezvous | None
) -> tuple[StrategySpec, str]:
    """Choose the strategy that distributes the training over the devices.

    Args:
        request: ``"auto"``, or one of `strategy_names`.
        devices: Devices of this machine that the training may use.
        rendezvous: Rank and world size of this process from its launcher; None without a launcher.

    Returns:
        The strategy, and the reason in words.

    Raises:
        RequestError: The strategy is unknown, or the devices or the launcher rule it out.
    """
    if request == "auto":
        if rendezvous is not None:
            return find_strategy("ddp"), _LAUNCHED
        if len(devices) == 1:
            return find_strategy("single"), "one device"
        return find_strategy("ddp"), "a process for each device"
    spec = find_strategy(request)
    if spec.process_per_device and rendezvous is not None:
        return spec, _LAUNCHED
    if rendezvous is not None and rendezvous.world_size > 1:
        raise RequestError(
            f"strategy is {request!r}, but {rendezvous.world_size} processes were started",
            hint="Leave --strategy out, or start one process.",
        )
    if spec.max_devices is not None and len(devices) > spec.max_devices:
        raise RequestError(
            f"strategy is {request!r}, but {len(devices)} devices are requested",
            hint=f"Use --devices {spec.max_devices}, or --strategy ddp.",
        )
    return spec, "as requested"
