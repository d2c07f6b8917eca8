"""Predictions of a run's model."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tarmac.data import Columns
from tarmac.errors import RequestError
from tarmac.inference.parts import Samples
from tarmac.inference.reading import cut_samples, read_samples
from tarmac.inference.tokens import tokens_checked
from tarmac.inference.trained import Trained, open_trained
from tarmac.runs import Run
from tarmac.training import Checkpoint
from tarmac.workloads import Workload

_BATCH = 256


@dataclasses.dataclass(frozen=True)
class Predictions:
    """The predictions of a model for samples, in the order of the samples.

    Attributes:
        outputs: Arrays ``[num_samples, ...]`` by name; ``output`` if the model returns one tensor.
        classes: Predicted classes, int64 ``[num_samples]``; None if the model does not classify.
        probabilities: Probability of each predicted class, float32 ``[num_samples]``; None if the
            model does not classify.
        labels: Names of the predicted classes; None if the data do not name them.
        files: File of each sample, if every sample is a file.
    """

    outputs: Mapping[str, NDArray[Any]]
    classes: NDArray[np.int64] | None = None
    probabilities: NDArray[np.float32] | None = None
    labels: Sequence[str] | None = None
    files: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(next(iter(self.outputs.values())))


def predict(
    reference: str | Path | Run,
    inputs: str | Path | Columns,
    *,
    device: str = "auto",
    output: Path | None = None,
    workload: str | Workload | None = None,
    checkpoint: Checkpoint = "last",
    batch_size: int = _BATCH,
) -> Predictions:
    """Return the predictions of a run's model for samples.

    Args:
        reference: The run: its directory, its name, the beginning of its name or ``"latest"``.
        inputs: Samples before any preprocessing: a file, a folder of images, or arrays
            ``[num_samples, ...]``, by name if a sample has several parts.
        device: Device to compute on; see `tarmac.machine.find_devices`. Default ``auto``.
        output: Directory of the runs. Default: ``TARMAC_RUNS``, or ``./runs``.
        workload: The run's workload, if it was passed to `tarmac.train` as a value.
        checkpoint: ``last`` or ``best``, which is the best on held-out data. Default ``last``.
        batch_size: Number of samples in a batch. Default 256.

    Raises:
        RequestError: The run has no weights, or samples do not fit; the message names their line.
        TarmacError: A file is damaged.
    """
    trained = open_trained(
        reference, device=device, output=output, workload=workload, checkpoint=checkpoint
    )
    where = str(inputs) if isinstance(inputs, str | Path) else "inputs"
    batches = [*predict_each(trained, _samples(trained, inputs, batch_size), where)]
    files = [file for some in batches for file in some.files or ()]
    return Predictions(
        {name: np.concatenate([s.outputs[name] for s in batches]) for name in batches[0].outputs},
        _joined([some.classes for some in batches]),
        _joined([some.probabilities for some in batches]),
        [label for some in batches for label in some.labels or ()] or None,
        files or None,
    )


def predict_each(
    trained: Trained, batches: Iterator[Samples], where: str = "inputs"
) -> Iterator[Predictions]:
    """Yield the predictions of a model for each batch.

    Args:
        trained: Run's model, as `open_trained` loads it.
        batches: Batches of raw samples, in order.
        where: Beginning of error messages: the file of the samples.

    Raises:
        RequestError: The model does not return a row for each sample, or a sample has a token
            beyond the vocabulary.
    """
    count = 0
    for samples in batches:
        with tokens_checked(trained.scored_model, where, count):
            outputs = trained.outputs(samples.columns)
        count += len(samples)
        for name, array in outputs.items():
            if array.ndim == 0 or len(array) != len(samples):
                raise RequestError(
                    f"the model's {name} is of shape {list(array.shape)} for {len(samples)} "
                    "samples, expected one row for each"
                )
        classes = probabilities = labels = None
        if trained.classifies:
            logits = outputs["output"].astype(np.float64)
            classes = logits.argmax(1)
            # The probability of the largest logit; exp of differences up to 0 cannot overflow.
            shares = np.exp(logits - logits.max(1, keepdims=True))
            probabilities = (1 / shares.sum(1)).astype(np.float32)
            if trained.classes:
                labels = [trained.classes[number] for number in classes]
        yield Predictions(outputs, classes, probabilities, labels, samples.files)


def _samples(trained: Trained, inputs: str | Path | Columns, size: int) -> Iterator[Samples]:
    if size < 1:
        raise RequestError(f"batch_size is {size}, expected at least 1")
    if isinstance(inputs, str | Path):
        return read_samples(Path(inputs), trained.parts, size)
    arrays = dict(inputs) if isinstance(inputs, Mapping) else {"": inputs}
    wanted = {part.name for part in trained.parts}
    if arrays.keys() != wanted:
        expected = ", ".join(map(str, trained.parts))
        raise RequestError(f"inputs are {', '.join(arrays) or 'one array'}, expected {expected}")
    if not len(next(iter(arrays.values()))):
        raise RequestError("inputs hold no samples")
    return cut_samples(arrays, trained.parts, size, "inputs")


def _joined(parts: Sequence[NDArray[Any] | None]) -> Any:
    there = [part for part in parts if part is not None]
    return np.concatenate(there) if there else None
