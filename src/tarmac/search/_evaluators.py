"""Chooses what trains a study's networks, and says why."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tarmac.search._processes import ProcessEvaluator, Slot

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tarmac.devices import Device
    from tarmac.search._evaluator import Evaluator

__all__ = ["Chosen", "Training", "choose_evaluator", "slots_of"]

# Each process holds PyTorch and the data: some hundred MiB.
_MOST_ON_CPU = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """What all networks of a study share.

    Attributes:
        workload: What is trained, as `tarmac.workloads.find_workload` takes it.
        train_size: How many samples to train on, from the first.
        validation_size: How many to hold out, from the last.
        runs: Where runs' directories are made.
        logs: Where processes write what they print.
    """

    workload: str
    train_size: int
    validation_size: int
    runs: Path
    logs: Path


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chosen:
    """What trains the networks.

    Attributes:
        evaluator: Does it.
        at_once: How many networks it wants in one call; None where it takes the next whenever it
            has room, so that no network is claimed before it can be trained.
        close: Ends what it has started.
        summary: Where and how, for the user.
    """

    evaluator: Evaluator
    at_once: int | None
    close: Callable[[], None]
    summary: str


def choose_evaluator(
    training: Training,
    devices: tuple[Device, ...],
    *,
    workers: int | None,
    halted: Callable[[], bool],
) -> Chosen:
    """Choose how a study's networks are trained.

    Args:
        training: What they share.
        devices: Where.
        workers: How many processes at once; None for as many as suit the devices.
        halted: Whether to give up what is under way; asked several times a second.
    """
    slots = slots_of(devices, workers)
    processes = ProcessEvaluator(training, slots, halted)
    where = ", ".join(dict.fromkeys(slot.show() for slot in slots))
    count = f"{len(slots)} at a time" if len(slots) > 1 else "one at a time"
    return Chosen(
        evaluator=processes,
        at_once=None,
        close=processes.close,
        summary=f"one network per process, {count}, on {where}",
    )


def slots_of(devices: tuple[Device, ...], workers: int | None) -> list[Slot]:
    """Share devices out among processes.

    A GPU is one process's unless there are more processes than GPUs. On a CPU small networks train
    fastest one per core, so its threads are shared out evenly.
    """
    first = devices[0]
    if first.type == "cuda":
        count = workers or len(devices)
        chosen = [devices[index % len(devices)] for index in range(count)]
        return [Slot(device.torch_name, 0) for device in chosen]
    threads = first.num_threads * len(devices)
    if workers is None:
        workers = len(devices) if len(devices) > 1 else min(threads, _MOST_ON_CPU)
    return [Slot("cpu", max(1, threads // workers)) for _ in range(max(1, workers))]
