"""Scoring of a run's model again, on its own test set or on another dataset's."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from tarmac import data
from tarmac.data import Dataset
from tarmac.errors import RequestError
from tarmac.machine import find_devices
from tarmac.runs import Run
from tarmac.training.engine.engine import Engine
from tarmac.training.engine.scoring import Score
from tarmac.training.engine.team import Alone
from tarmac.training.initial import fit_weights
from tarmac.training.plan import Plan
from tarmac.training.planning.make import make_plan
from tarmac.training.planning.options import Options
from tarmac.training.session.modes import (
    denormals_flushed,
    threads_within_limits,
    training_environment,
)
from tarmac.training.session.record import input_record, options_of
from tarmac.workloads import Workload

# Options that matter only during training, or depend on the machine of the training.
_OF_TRAINING = {
    "accumulate",
    "log_to",
    "patience",
    "sync_batchnorm",
    "threads",
    "train_size",
    "validation_seed",
    "validation_size",
    "validation_split",
}


def plan_to_score(
    run: Run, workload: Workload, *, device: str = "auto", dataset: Dataset | None = None
) -> Plan:
    """Make the plan of a run again to score its model, on one device.

    Args:
        run: Run to score, read from its record.
        workload: Workload that the record names.
        device: Device to compute on; see `tarmac.machine.find_devices`. The first of several.
        dataset: Dataset to use instead of the run's own, with the run's preprocessing.

    Raises:
        RequestError: The run's data have changed since, or ``dataset`` does not fit its model.
        TarmacError: The data cannot be loaded.
    """
    recorded = run.record.configuration
    values = options_of(run)
    place = find_devices(device)[0]
    named = "cpu" if place.type == "cpu" else str(place.index)
    precision = recorded["precision"] if place.type == run.record.device.get("type") else "fp32"
    is_loaded = recorded["feed"] == "loader" and dataset is None
    values |= {"devices": named, "strategy": "single", "precision": precision}
    values |= {"feed": "loader" if is_loaded else "direct"}
    values |= {"compile": "off", "fused": "off"}
    options = Options(
        validation_size=0,
        **{name: value for name, value in values.items() if name not in _OF_TRAINING},
    )
    replacement = None if dataset is None else _as_of(run, dataset)
    if replacement is not None and not isinstance(workload.dataset, str):
        workload = dataclasses.replace(workload, dataset=lambda: replacement)

    def load(name: str, *, progress: data.Progress | None = None) -> Dataset:
        return replacement or data.load(name, progress=progress)

    plan = make_plan(workload, str(recorded["workload"]), options, load=load)
    if dataset is None and plan.dataset.fingerprint != run.record.dataset["fingerprint"]:
        raise RequestError(
            f"{plan.dataset.name} has changed since run {run.name} was made",
            hint=f"To score it on the current data: --data {plan.dataset.name}",
        )
    return plan


@denormals_flushed()
@threads_within_limits()
def score_test(plan: Plan, source: Path, weights: Mapping[str, torch.Tensor]) -> Score:
    """Score the test set of a plan's data.

    Args:
        plan: Plan with the data and the device.
        source: File that the weights come from, for messages.
        weights: Weights by the model's parameter and buffer names.

    Raises:
        RequestError: The weights do not fit the model.
    """
    with training_environment(plan, plan.devices):
        # Score these weights themselves, even if the recipe keeps a moving average.
        recipe = dataclasses.replace(plan.workload.recipe, ema=None)
        workload = dataclasses.replace(plan.workload, recipe=recipe)
        engine = Engine(dataclasses.replace(plan, workload=workload), Alone())
        own = engine.weights()
        engine.load(fit_weights(source, weights, own, partial=False).weights)
        return engine.evaluate_test()


def _as_of(run: Run, dataset: Dataset) -> Dataset:
    """Return a dataset with the run's number of classes; its samples must have the run's shape."""
    kept, inputs = run.record.dataset.get("inputs"), input_record(dataset.train.inputs)
    if kept is not None and kept != inputs:
        raise RequestError(
            f"samples of {dataset.name} are {_in_words(inputs)}, and run {run.name} takes "
            f"{_in_words(kept)}"
        )
    num_classes = run.record.dataset.get("num_classes", dataset.num_classes)
    return dataclasses.replace(dataset, num_classes=num_classes)


def _in_words(parts: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(
        f"{part['name'] + ': ' if part['name'] else ''}{part['dtype']} {part['shape']}"
        for part in parts
    )
