"""Chooses devices, strategy and batch size, by rule, and says why."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Literal

from tarmac.errors import RequestError
from tarmac.machine import Device, find_devices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tarmac.training.processes.rendezvous import Rendezvous
    from tarmac.workloads import Recipe

__all__ = [
    "BatchSize",
    "StrategyName",
    "choose_batch_size",
    "choose_devices",
    "choose_strategy",
    "devices_again",
    "devices_of_machine",
]

StrategyName = Literal["single", "ddp", "towers"]

# A step on one more device costs about 0.1 ms of messages on good links and far more on bad ones;
# this much work takes a GPU of 100 TFLOP/s a millisecond. Arithmetic, not yet a measurement.
_MIN_FLOPS_PER_DEVICE = 1e11


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchSize:
    """What a step takes, of all devices together.

    Attributes:
        batch_size: Samples.
        learning_rate: The rate for it.
        reason: The arithmetic in words.
    """

    batch_size: int
    learning_rate: float
    reason: str


def devices_of_machine(request: str, rendezvous: Rendezvous) -> tuple[Device, ...]:
    """Find the devices of the processes that a launcher has started on this machine.

    Args:
        request: As for `find_devices`; ``auto`` gives each process the GPU of its local rank.
        rendezvous: Which process this is.

    Returns:
        One for each local rank. Where each process sees one GPU only, as Slurm and Ray arrange it,
        that one stands for all.

    Raises:
        RequestError: There are fewer devices than processes, or another number was asked for.
    """
    count = rendezvous.local_world_size
    if request in ("auto", "all", "cpu"):
        found = find_devices(request)
        if found[0].type == "cpu":
            return find_devices(f"cpu:{count}")
        if len(found) == 1 < count:
            return found * count
        if len(found) < count:
            raise RequestError(
                f"{count} processes were started here, but {len(found)} GPUs are visible",
                hint="Start one process per GPU: torchrun --nproc-per-node gpu",
            )
        return found[:count]
    found = find_devices(request)
    if len(found) != count:
        raise RequestError(
            f"devices is {request!r}, but {count} processes were started here",
            hint="Leave --devices out: each process takes the GPU of its LOCAL_RANK.",
        )
    return found


def devices_again(recorded: str, rendezvous: Rendezvous | None) -> str:
    """Return what to ask for to go on with a run.

    Args:
        recorded: What the run's record says of its first machine.
        rendezvous: Which of several processes this one is, where a launcher has started them. They
            may lie on the machines otherwise than before; then each takes what it would at first.
    """
    if rendezvous is None:
        return recorded
    if recorded.startswith("cpu"):
        return "cpu"
    num_recorded = recorded.count(",") + 1
    return recorded if num_recorded == rendezvous.local_world_size else "auto"


def choose_devices(
    request: str, strategy: str, found: Sequence[Device], flops_per_device: float
) -> tuple[Sequence[Device], str]:
    """Choose among several GPUs that ``auto`` found.

    Args:
        request: What was asked.
        strategy: What was asked.
        found: What `find_devices` made of it.
        flops_per_device: A step's matrix work on each, were all of them used.

    Returns:
        The devices, and the reason in words.
    """
    if request != "auto":
        return found, "as asked"
    if len(found) == 1:
        return found, "the one GPU" if found[0].type == "cuda" else "no GPU is here"
    work = f"{flops_per_device:.0e} FLOP per step on each of {len(found)} GPUs"
    if strategy in ("auto", "single") and flops_per_device < _MIN_FLOPS_PER_DEVICE:
        return found[:1], f"{work} are too few to share"
    return found, work


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


def choose_batch_size(
    own: Recipe,
    asked: Recipe,
    world_size: int,
    *,
    per_device: int | None,
    accumulate: int,
    scale_lr: str,
) -> BatchSize:
    """Resolve the global batch size, and the learning rate where it shall follow it.

    Args:
        own: The workload's recipe, whose rate is for its batch size.
        asked: The same with what was asked.
        world_size: Devices that share a batch.
        per_device: Samples for each, where that was asked.
        accumulate: Parts of each device's share.
        scale_lr: ``"none"``, ``"linear"`` or ``"sqrt"``.

    Raises:
        RequestError: A batch is smaller than its number of parts, or ``scale_lr`` is another.
    """
    batch_size = asked.batch_size if per_device is None else per_device * world_size
    parts = world_size * accumulate
    if batch_size < parts:
        accumulated = f" with {accumulate} parts each" if accumulate > 1 else ""
        raise RequestError(
            f"batch_size is {batch_size}, which {world_size} devices{accumulated} cannot share"
            if world_size > 1
            else f"batch_size is {batch_size}, which cannot be cut into {accumulate} parts",
            hint=f"Use at least --batch-size {parts}.",
        )
    ratio = batch_size / own.batch_size
    match scale_lr:
        case "none":
            factor = 1.0
        case "linear":
            factor = ratio
        case "sqrt":
            factor = math.sqrt(ratio)
        case _:
            raise RequestError(f"scale_lr is {scale_lr!r}, expected none, linear or sqrt")
    rate = asked.optimizer.learning_rate
    reason = f"{batch_size} samples a step"
    if world_size > 1:
        reason += f", {-(-batch_size // world_size)} on each of {world_size} devices"
    if accumulate > 1:
        reason += f" in {accumulate} parts"
    if scale_lr != "none":
        reason += (
            f"; rate {rate:g} x {factor:.4g} ({scale_lr}, {batch_size} over the recipe's "
            f"{own.batch_size})"
        )
    return BatchSize(batch_size=batch_size, learning_rate=rate * factor, reason=reason)
