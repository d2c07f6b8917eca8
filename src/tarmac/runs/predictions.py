"""What a trained model said of the test samples: ``predictions.json`` in a run's directory.

It is made when somebody wants to see it, by `tarmac.training.look_at_mistakes`, and kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from tarmac.files import read_versioned

if TYPE_CHECKING:
    from pathlib import Path

PREDICTIONS = "predictions.json"

_SCHEMA_VERSION = 1


class Mistake(BaseModel):
    """A sample that the model gave a wrong class.

    Attributes:
        index: Index of the sample in the test set.
        target: Class of the sample in the test set, from 0.
        predicted: The class that the model said.
        confidence: The probability that it gave to that, 0 to 1.
        pixels: The sample's bytes in base64, row by row; of several channels one after another.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    index: int
    target: int
    predicted: int
    confidence: float
    pixels: str = ""


class Predictions(BaseModel):
    """A model's answers on test samples.

    Attributes:
        schema_version: Version of the layout of ``predictions.json``.
        num_samples: Samples that it was asked; the first ones of the test set.
        num_test: Samples of the test set.
        confusion: Counts by true class (rows) and predicted class (columns). Empty if there are too
            many classes.
        sample_shape: Shape of `Mistake.pixels`: ``[rows, columns]``, or ``[3, rows, columns]``.
        most: The largest byte of all samples, which is drawn white.
        mistakes: The wrong answers that the model was surest of, the surest first.
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
    """Read a run's predictions.

    Args:
        run: Directory of the run, with ``predictions.json``.

    Raises:
        RequestError: There are none, or they were written by a newer Tarmac.
        TarmacError: They are damaged.
    """
    return read_versioned(run / PREDICTIONS, Predictions, _SCHEMA_VERSION, "run with predictions")
