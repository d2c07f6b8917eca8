"""Choose the evaluator of a study's networks, with a reason."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tarmac.machine import Device
from tarmac.studies.evaluation.dataset import load_dataset
from tarmac.studies.evaluation.in_processes import ProcessEvaluator, Training
from tarmac.studies.evaluation.interface import Evaluator
from tarmac.studies.evaluation.slots import slots_of
from tarmac.studies.evaluation.stacked.evaluator import StackedEvaluator
from tarmac.studies.evaluation.stacked.network import can_stack
from tarmac.studies.evaluation.stacked.pool import PooledEvaluator
from tarmac.wording import counted
from tarmac.workloads import find_workload

if TYPE_CHECKING:
    from tarmac.studies.study.study import Study

# Above any number of networks that are planned at a time.
_ALL = 1_000_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chosen:
    """The chosen evaluator of a study.

    Attributes:
        evaluator: Evaluator that trains the networks.
        at_once: Number of networks per call. None: the evaluator takes a network only when a
            process is free, so that no network is claimed early.
        close: Stops the processes of the evaluator.
        summary: Devices and way of training, in words for the user.
        goes_on: Whether an interrupted training resumes from a checkpoint, on any host.
    """

    evaluator: Evaluator
    at_once: int | None
    close: Callable[[], None]
    summary: str
    goes_on: bool = False


def choose_evaluator(
    study: Study, devices: tuple[Device, ...], halted: Callable[[], bool]
) -> Chosen:
    """Choose how a study's networks are trained.

    Multilayer perceptrons train in stacks, whatever their number: even a stack of one takes less
    time than a separate process (`bench/population.py`). Each GPU, and each core of a CPU, trains
    one stack at a time. Replicas of a CPU and ``workers`` select processes instead.

    Args:
        study: The study whose networks are trained.
        devices: The devices to train on, all of one type.
        halted: Returns whether to stop running trainings; called several times a second.
    """
    request, record = study.request, study.record
    slots = slots_of(devices, request.workers)
    sizes: dict[str, Any] = {
        "train_size": record.train_size,
        "validation_size": record.validation_size,
        "validation_split": record.validation_split,
        "validation_seed": request.seed,
    }
    stacks = _stacks(study, devices, sizes)
    if isinstance(stacks, str):
        training = Training(
            workload=request.workload,
            **sizes,
            runs=study.path / "runs",
            logs=study.path / "logs",
            keeps_checkpoints=record.locks == "leases",
        )
        processes = ProcessEvaluator(training, slots, halted)
        where = ", ".join(dict.fromkeys(slot.show() for slot in slots))
        count = f"{len(slots)} at a time" if len(slots) > 1 else "one at a time"
        return Chosen(
            evaluator=processes,
            at_once=None,
            close=processes.close,
            summary=f"one network per process, {count}, on {where}: {stacks}",
            goes_on=training.keeps_checkpoints,
        )
    precision, _ = stacks.precision
    where = f"on {', '.join(device.torch_name for device in devices)}, {precision}"
    evaluator: Evaluator = stacks
    close: Callable[[], None] = lambda: None  # noqa: E731 - a name would say no more
    if len(slots) > 1:
        setup = {
            "workload": request.workload,
            "settings": dict(record.settings),
            "precision": precision,
            **sizes,
        }
        pool = PooledEvaluator(stacks, setup, slots, study.path / "logs", halted)
        evaluator, close = pool, pool.close
        where += f", in {counted(len(slots), 'process')}"
    # The fused kernels take networks of any widths and depths together; CPUs have none.
    is_gpu = devices[0].type == "cuda"
    # Train a whole generation, or all networks of brute force, in one batch. Other methods learn
    # from each result, and would learn nothing within a larger batch.
    is_planned = study.method.breeds_generations or study.method.tries_all
    return Chosen(
        evaluator=evaluator,
        at_once=_ALL if is_planned else request.population,
        close=close,
        summary=f"networks of {'all shapes' if is_gpu else 'equal shape'} as one, {where}",
    )


def _stacks(
    study: Study, devices: tuple[Device, ...], sizes: Mapping[str, Any]
) -> StackedEvaluator | str:
    """Return the evaluator that stacks a study's networks, or why they do not train in stacks."""
    settings = study.record.settings
    if study.request.workers is not None:
        return "a number of workers was requested"
    if len(devices) > 1 and devices[0].type == "cpu":
        return "several devices were requested"
    workload = find_workload(study.request.workload)
    dataset = load_dataset(workload, settings)
    for corner in study.space.corners():
        why = can_stack(workload, dataset, {**settings, **corner})
        if why is not None:
            return f"they cannot be stacked, {why}"
    # GPUs of one search are alike; every stack must fit the smallest free memory.
    smallest = min(devices, key=lambda device: device.available_bytes)
    return StackedEvaluator(workload, dataset, **sizes, device=smallest)
