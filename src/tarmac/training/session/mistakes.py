"""Predictions of a trained model for its test set, for a picture of its confusions."""

from __future__ import annotations

import base64
import time

import numpy as np
import torch
from numpy.typing import NDArray

from tarmac import data
from tarmac.errors import RequestError, TarmacError
from tarmac.files import write_json
from tarmac.runs import PREDICTIONS, Mistake, Predictions, Run
from tarmac.training.engine.model import build_model
from tarmac.training.engine.prediction import predict
from tarmac.training.initial import read_weights
from tarmac.training.plan import Plan
from tarmac.training.session.scoring import plan_to_score
from tarmac.workloads import Classification, find_workload

_BATCH = 500

# A larger matrix cannot be read as a picture.
_MAX_CLASSES = 20


def look_at_mistakes(run: Run, *, seconds: float = 20.0, most: int = 24) -> Predictions:
    """Run a run's trained model on its test set, on the CPU, and store the result in the run.

    A workload in a user's own file is refused: showing a run must not execute that file. Nothing is
    downloaded.

    Args:
        run: Run of a completed training.
        seconds: Longest time to predict, in seconds. For a larger test set only its first samples
            are predicted. Default 20.
        most: Number of surest mistakes to keep with their pixels. Default 24.

    Raises:
        RequestError: The run has no weights, its samples are no images, or its data are not local.
        TarmacError: The weights do not fit, or the result cannot be written.
    """
    reference = str(run.record.configuration.get("workload"))
    if not run.model.is_file():
        raise RequestError(f"run {run.name} has no weights yet")
    if ":" in reference:
        raise RequestError(f"{reference} is a user's own file, which is not executed to show a run")
    shape = tuple(run.record.dataset.get("sample_shape") or ())
    if not (len(shape) == 2 or (len(shape) == 3 and shape[0] in (1, 3))):
        raise RequestError(f"samples of shape {[*shape]} are no images")
    name = str(run.record.dataset.get("name"))
    if any(
        status.name == name and status.state in ("absent", "partial") for status in data.describe()
    ):
        raise RequestError(f"{name} is not here", hint=f"Fetch it: tarmac data fetch {name}")
    plan = plan_to_score(run, find_workload(reference), device="cpu")
    if not isinstance(plan.workload.objective, Classification):
        raise RequestError(f"{plan.workload.name} is not a classifier")
    predictions = _ask(run, plan, time.monotonic() + seconds, most)
    write_json(run.path / PREDICTIONS, predictions.model_dump(mode="json"))
    return predictions


@torch.no_grad()
def _ask(run: Run, plan: Plan, until: float, most: int) -> Predictions:
    model = build_model(plan.workload, plan.model_arguments, plan.seed)
    weights = read_weights(run.model)
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise TarmacError(f"{run.model} does not fit its workload: {error}") from error
    model.eval()
    recipe, test = plan.workload.recipe, plan.dataset.test
    test.check_whole("a look at its mistakes")
    images, classes = test.inputs, test.targets
    if not (isinstance(images, np.ndarray) and isinstance(classes, np.ndarray)):
        raise RequestError(f"{plan.dataset.name} has no images of classes")
    answers: list[NDArray[np.int64]] = []
    chances: list[NDArray[np.float32]] = []
    for first in range(0, len(test), _BATCH):
        inputs = torch.tensor(images[first : first + _BATCH])
        taken = recipe.preprocess(inputs, training=False, dtype=torch.float32)
        confidence, answer = predict(model, taken, recipe.test_views).softmax(1).max(1)
        answers.append(answer.numpy())
        chances.append(confidence.numpy())
        if time.monotonic() > until:
            break
    predicted = np.concatenate(answers)
    return Predictions(
        num_samples=len(predicted),
        num_test=len(test),
        confusion=_confusion(classes[: len(predicted)], predicted, plan.dataset.num_classes or 0),
        sample_shape=images.shape[1:],
        most=int(images.max()),
        mistakes=_mistakes(images, classes, predicted, np.concatenate(chances), most),
    )


def _confusion(
    targets: NDArray[np.int64], predicted: NDArray[np.int64], num_classes: int
) -> tuple[tuple[int, ...], ...]:
    if num_classes > _MAX_CLASSES:
        return ()
    counts = np.zeros((num_classes, num_classes), np.int64)
    np.add.at(counts, (targets, predicted), 1)
    return tuple(tuple(map(int, row)) for row in counts)


def _mistakes(
    images: NDArray[np.uint8],
    classes: NDArray[np.int64],
    predicted: NDArray[np.int64],
    confidence: NDArray[np.float32],
    most: int,
) -> tuple[Mistake, ...]:
    wrong = np.flatnonzero(predicted != classes[: len(predicted)])
    surest = wrong[np.argsort(-confidence[wrong], kind="stable")][:most]
    return tuple(
        Mistake(
            index=int(index),
            target=int(classes[index]),
            predicted=int(predicted[index]),
            confidence=round(float(confidence[index]), 4),
            pixels=base64.b64encode(np.ascontiguousarray(images[index]).tobytes()).decode(),
        )
        for index in surest
    )
