"""Chooses what trains a study's networks, and says why."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tarmac import data
from tarmac.search._processes import ProcessEvaluator, Slot
from tarmac.search.population import StackedEvaluator, can_stack
from tarmac.workloads import find_workload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tarmac.data import Dataset
    from tarmac.devices import Device
    from tarmac.search._evaluator import Evaluator
    from tarmac.search._space import Space
    from tarmac.train import Setting
    from tarmac.workloads import Workload

__all__ = ["Chosen", "Training", "choose_evaluator", "load_dataset", "slots_of"]

# More networks than are ever planned at a time.
_ALL = 1_000_000

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
        space: What they differ in.
        settings: What they have in common.
        population: How many come at a time, where the method has no generations.
        method: Of the search.
    """

    workload: str
    train_size: int
    validation_size: int
    runs: Path
    logs: Path
    space: Space
    settings: Mapping[str, Setting]
    population: int
    method: str


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

    Multilayer perceptrons train in stacks, whatever their number: also a stack of one takes less
    time than a process of its own (`bench/population.py`). Several GPUs and ``workers`` ask for
    processes.

    Args:
        training: What they share.
        devices: Where.
        workers: How many processes at once; None for as many as suit the devices.
        halted: Whether to give up what is under way; asked several times a second.
    """
    against = _against_stacks(training, devices, workers)
    if against is None:
        return _stacked(training, devices[0])
    slots = slots_of(devices, workers)
    processes = ProcessEvaluator(training, slots, halted)
    where = ", ".join(dict.fromkeys(slot.show() for slot in slots))
    count = f"{len(slots)} at a time" if len(slots) > 1 else "one at a time"
    return Chosen(
        evaluator=processes,
        at_once=None,
        close=processes.close,
        summary=f"one network per process, {count}, on {where}: {against}",
    )


def _against_stacks(
    training: Training, devices: tuple[Device, ...], workers: int | None
) -> str | None:
    """Return why networks are not stacked, in words, or None where they are."""
    if workers is not None:
        return "a number of workers was asked for"
    if len(devices) > 1:
        return "several devices were asked for"
    if "dataset" in training.space.parameters:
        return "they have different data"
    workload = find_workload(training.workload)
    dataset = load_dataset(workload, training.settings)
    for settings in training.space.corners():
        why = can_stack(workload, dataset, {**training.settings, **settings})
        if why is not None:
            return f"they cannot be stacked, {why}"
    return None


def _stacked(training: Training, device: Device) -> Chosen:
    workload = find_workload(training.workload)
    evaluator = StackedEvaluator(
        workload,
        load_dataset(workload, training.settings),
        validation_size=training.validation_size,
        train_size=training.train_size,
        device=device,
    )
    precision, _ = evaluator.precision
    # A generation at once. Where all networks are known from the start, as many as there are; a
    # method that learns from each result would learn nothing within a batch.
    at_once = {"evolve": _ALL, "brute": _ALL}.get(training.method, training.population)
    return Chosen(
        evaluator=evaluator,
        at_once=at_once,
        close=lambda: None,
        summary=f"networks of equal shape as one, on {device.torch_name}, {precision}",
    )


def load_dataset(workload: Workload, settings: Mapping[str, Setting]) -> Dataset:
    """Load what a study's networks train on.

    Raises:
        RequestError: There is no such dataset.
        TarmacError: It cannot be had.
    """
    name = settings.get("dataset", workload.dataset)
    return name() if callable(name) else data.load(str(name))


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
