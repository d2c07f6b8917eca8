"""Scoring of a run's model on a test set."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tarmac import data, runs
from tarmac.data import Dataset
from tarmac.errors import RequestError
from tarmac.inference.parts import misfit
from tarmac.inference.trained import read_weights_of
from tarmac.runs import Run
from tarmac.training import (
    Checkpoint,
    expectation_of,
    find_weights,
    plan_to_score,
    score_test,
    workload_of,
)
from tarmac.workloads import Workload


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The scores of a run's model.

    Attributes:
        run: Run whose model was scored.
        weights: File that the weights were read from.
        dataset: Name of the dataset.
        num_samples: Samples in the test set that was scored.
        device: Name of the device that computed the scores.
        precision: Precision of the matrix products.
        metrics: Scores by name, such as ``test_loss`` and ``test_accuracy``.
        judged_by: Name of the main metric, without ``test_``.
        direction: ``max`` if a larger main metric is better, ``min`` if a smaller.
        expectation: The workload's expectation and whether it is met, as in a run's record; None if
            there is none for these data.
    """

    run: Run
    weights: Path
    dataset: str
    num_samples: int
    device: str
    precision: str
    metrics: Mapping[str, float]
    judged_by: str
    direction: str
    expectation: Mapping[str, Any] | None

    @property
    def score(self) -> float:
        """The value of the main metric."""
        return self.metrics[f"test_{self.judged_by}"]


def evaluate(
    reference: str | Path | Run,
    *,
    dataset: str | Dataset | None = None,
    device: str = "auto",
    output: Path | None = None,
    workload: str | Workload | None = None,
    checkpoint: Checkpoint = "last",
    progress: data.Progress | None = None,
) -> Evaluation:
    """Score a run's model on its own test set, or on that of another dataset.

    Args:
        reference: The run: its directory, its name, the beginning of its name or ``"latest"``. An
            incomplete run is scored by its newest checkpoint.
        dataset: Dataset, or its name, with the test set to score. Default: the run's dataset. If
            both name features or classes, the names must match, in any order.
        device: Device to compute on; see `tarmac.machine.find_devices`. Only the first is used.
        output: Directory of the runs. Default: ``TARMAC_RUNS``, or ``./runs``.
        workload: The run's workload, if it was passed to `tarmac.train` as a value.
        checkpoint: ``last`` or ``best``, which is the best on held-out data. Default ``last``.
        progress: Callback for the progress of a download.

    Raises:
        RequestError: The run does not exist or has no weights, or the data do not fit its model.
        TarmacError: A file is damaged, or the data are unavailable.
    """
    run = reference if isinstance(reference, runs.Run) else runs.resolve(str(reference), output)
    weights = find_weights(str(run.path), checkpoint=checkpoint)
    own = workload_of(run, workload)
    other = data.load(dataset, progress=progress) if isinstance(dataset, str) else dataset
    if other is not None:
        other = _in_order_of(run.record.dataset, other)
    plan = plan_to_score(run, own, device=device, dataset=other)
    score = score_test(plan, weights, read_weights_of(run, workload, weights))
    # An expectation holds only for the workload's own, unchanged data.
    is_own = plan.dataset.fingerprint == run.record.dataset["fingerprint"]
    objective = plan.workload.objective
    metrics = score.named("test_")
    return Evaluation(
        run=run,
        weights=weights,
        dataset=plan.dataset.name,
        num_samples=len(plan.dataset.test),
        device=plan.devices[0].name,
        precision=plan.precision,
        metrics=metrics,
        judged_by=objective.judged_by,
        direction=objective.direction,
        expectation=expectation_of(own, plan, metrics) if is_own else None,
    )


def _in_order_of(record: Mapping[str, Any], dataset: Dataset) -> Dataset:
    """Return a dataset whose test set has features and classes in the order of a run's data.

    Args:
        record: Entry of the run's record about its data.
        dataset: The dataset to score on.

    Raises:
        RequestError: The dataset's features or classes have other names.
    """
    features, classes = tuple(record.get("features", ())), tuple(record.get("classes", ()))
    if features and dataset.features not in ((), features):
        _check_names(dataset, "features", dataset.features, features)
        order = [dataset.features.index(name) for name in features]
        test = dataclasses.replace(dataset.test, inputs=np.asarray(dataset.test.inputs)[:, order])
        dataset = dataclasses.replace(dataset, test=test, features=features)
    if classes and dataset.classes not in ((), classes):
        _check_names(dataset, "classes", dataset.classes, classes, may_lack=True)
        numbers = np.array([classes.index(name) for name in dataset.classes])
        test = dataclasses.replace(dataset.test, targets=numbers[np.asarray(dataset.test.targets)])
        dataset = dataclasses.replace(dataset, test=test, classes=classes, num_classes=len(classes))
    return dataset


def _check_names(
    dataset: Dataset,
    what: str,
    names: Collection[str],
    expected: Collection[str],
    *,
    may_lack: bool = False,
) -> None:
    missing = [] if may_lack else [name for name in expected if name not in names]
    unknown = [name for name in names if name not in expected]
    if words := misfit(missing, unknown):
        raise RequestError(
            f"{dataset.name} has other {what} than the model was trained on; {words}"
        )
