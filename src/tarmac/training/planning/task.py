"""Check that objective, recipe and data fit together, before the model is tried on the data."""

from __future__ import annotations

from tarmac.data import Dataset, HoldOut
from tarmac.errors import RequestError, quoted
from tarmac.workloads import Classification, Workload


def check_task(workload: Workload, dataset: Dataset, held: HoldOut) -> None:
    """Raise a RequestError if the objective does not fit the data.

    Args:
        workload: Workload to train, with settings applied.
        dataset: Dataset on which the workload trains.
        held: Training samples and held-out samples of the dataset.
    """
    is_classification = isinstance(workload.objective, Classification)
    if is_classification and dataset.num_classes is None:
        raise RequestError(
            f"{workload.name} is a classifier, but {dataset.name} has no number of classes",
            hint=f"Train on a table: tarmac train table-mlp --set dataset={quoted(dataset.name)}"
            if isinstance(workload.dataset, str)
            else "Give Dataset(..., num_classes=N), or the workload another objective, such as "
            "objective=Regression().",
        )
    if workload.recipe.label_smoothing and not is_classification:
        raise RequestError(
            f"label_smoothing is {workload.recipe.label_smoothing:g}, which is for Classification, "
            f"and the objective is {workload.objective.kind}"
        )
    if workload.initialise is not None:
        dataset.train.check_whole(f"initialise of {workload.name}")
    for what, part in (("trained on", held.train), ("held out", held.validation)):
        weights = part.split.weights
        if weights is None or part.split.identity is not None or not len(part):
            continue
        if not part.of(weights).any():
            raise RequestError(f"all weights of the samples that are {what} are 0")
