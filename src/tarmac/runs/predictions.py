"""Predictions of a trained model on the test samples: ``predictions.json`` in a run's directory.

`tarmac.training.look_at_mistakes` creates the file on request.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tarmac.files import read_versioned

PREDICTIONS = "predictions.json"

_SCHEMA_VERSION = 1


class Mistake(BaseModel):
    """A sample that the model classified wrongly.

    Attributes:
        index: Index of the sample in the test set.
        target: Class of the sample in the test set, from 0.
        predicted: Class predicted by the model, from 0.
        confidence: Predicted probability of that class, 0 to 1.
        pixels: Bytes of the sample in base64, row by row; channel after channel.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    index: int
    target: int
    predicted: int
    confidence: float
    pixels: str = ""


class Predictions(BaseModel):
    """A model's predictions on test samples.

    Attributes:
        schema_version: Version of the layout of ``predictions.json``.
        num_samples: Number of predicted samples, the first of the test set.
        num_test: Number of samples in the test set.
        confusion: Counts by true class (rows) and predicted class (columns). Empty if there are too
            many classes.
        sample_shape: Shape of `Mistake.pixels`: ``[rows, columns]``, or ``[3, rows, columns]``.
        most: Largest byte of all samples, which is drawn white. Default 255.
        mistakes: Mistakes with the highest confidence, the highest first.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = _SCHEMA_VERSION
    num_samples: int
    num_test: int
    confusion: tuple[tuple[int, ...], ...]
    sample_shape: tuple[int, ...]
    most: int = 255
    mistakes: tuple[Mistake, ...]


def read_predictions(run: Path) -> Predictions:
    """Read the predictions of a run.

    Args:
        run: Directory of the run, with ``predictions.json``.

    Raises:
        RequestError: The run has no predictions, or a newer Tarmac wrote them.
        TarmacError: The file of predictions is damaged.
    """
    return read_versioned(run / PREDICTIONS, Predictions, _SCHEMA_VERSION, "run with predictions")
