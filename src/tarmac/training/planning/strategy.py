"""Chooses how devices are used together, by rule, and says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tarmac.machine import Device
    from tarmac.training.plan import StrategyName
    from tarmac.training.processes.rendezvous import Rendezvous

__all__ = ["choose_strategy"]


def choose_strategy(
    request: str, devices: Sequence[Device], rendezvous: Rendezvous | None
) -> tuple[StrategyName, str]:
    """Choose how devices are used together.

    Args:
        request: ``"auto"``, ``"single"``, ``"ddp"`` or ``"towers"``.
        devices: Those of this machine.
        rendezvous: Which of several processes this one is, where a launcher has started them.

    Returns:
        The strategy, and the reason in words.

    Raises:
        RequestError: Another request, or one that the devices or the launcher contradict.
    """
    match request:
        case "single" | "towers" if rendezvous is not None and rendezvous.world_size > 1:
            raise RequestError(
                f"strategy is {request!r}, but {rendezvous.world_size} processes were started",
                hint="Leave --strategy out, or start one process.",
            )
        case "auto" | "ddp" if rendezvous is not None:
            return "ddp", "a launcher has set RANK and WORLD_SIZE"
        case "single" if len(devices) > 1:
            raise RequestError(
                f"strategy is 'single', but {len(devices)} devices are asked for",
                hint="Use --devices 1, or --strategy ddp.",
            )
        case "single" | "ddp" | "towers":
            return request, "as asked"
        case "auto" if len(devices) == 1:
            return "single", "one device"
        case "auto":
            return "ddp", "a process for each device"
        case _:
            raise RequestError(f"strategy is {request!r}, expected auto, single, ddp or towers")
