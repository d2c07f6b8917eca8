"""Trackers that users already have: Weights & Biases and MLflow, by their own clients.

A tracker is opened for a run, receives its steps, and ends with it. Address and credentials come
from the tracker's own settings: ``WANDB_*`` and ``MLFLOW_*``, and ``wandb login``.

Example:
    >>> tracker = open_tracker("mlflow", TrackedRun(id="2f0e", name="digits", directory=run.path))
    >>> tracker.log(1, {"loss": 0.7})
    >>> tracker.end("completed", {"test_accuracy": 0.97})
"""

from tarmac.trackers.in_thread import InThread
from tarmac.trackers.registry import TRACKERS, check_tracker, open_tracker
from tarmac.trackers.tracker import TrackedRun, Tracker

__all__ = ["TRACKERS", "InThread", "TrackedRun", "Tracker", "check_tracker", "open_tracker"]
