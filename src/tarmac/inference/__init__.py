"""Scoring, prediction and export with the model of a run.

Example::
    from tarmac import inference

    predictions = inference.predict("latest", "samples.csv")
    print(predictions.classes, predictions.probabilities)
"""

from tarmac.inference.exporting import FORMATS, TOLERANCE, Exported, Format, export
from tarmac.inference.predicting import Predictions, predict, predict_each
from tarmac.inference.reading import read_samples
from tarmac.inference.scoring import Evaluation, evaluate
from tarmac.inference.trained import Trained, load_model, open_trained
from tarmac.inference.writing import check_target, json_lines, write_predictions

__all__ = [
    "FORMATS",
    "TOLERANCE",
    "Evaluation",
    "Exported",
    "Format",
    "Predictions",
    "Trained",
    "check_target",
    "evaluate",
    "export",
    "json_lines",
    "load_model",
    "open_trained",
    "predict",
    "predict_each",
    "read_samples",
    "write_predictions",
]
