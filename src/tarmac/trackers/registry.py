"""The trackers by name, and how one is opened."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tarmac.distribution import require
from tarmac.errors import RequestError, unknown_name
from tarmac.trackers.in_thread import InThread

if TYPE_CHECKING:
    from tarmac.trackers.tracker import TrackedRun, Tracker

# Each tracker's name, and in full.
TRACKERS = {"wandb": "Weights & Biases", "mlflow": "MLflow"}

MLFLOW_URI = "MLFLOW_TRACKING_URI"


def check_tracker(name: str) -> None:
    """Refuse a tracker that could not be opened, without importing its client.

    Args:
        name: Name of the tracker, a key of `TRACKERS`.

    Raises:
        RequestError: There is none of that name, or it is not said where it is.
        MissingExtraError: Its client is not installed.
    """
    if name not in TRACKERS:
        raise unknown_name("tracker", name, TRACKERS)
    require(name, "--log-to")
    if name == "mlflow" and not os.environ.get(MLFLOW_URI):
        raise RequestError(
            f"{MLFLOW_URI} is not set, and nothing says where MLflow is",
            hint=f"Say it: export {MLFLOW_URI}=http://127.0.0.1:5000\n"
            "A server of your own: pip install mlflow && mlflow server --port 5000",
        )


def open_tracker(name: str, run: TrackedRun) -> InThread:
    """Open a tracker's run, one that goes on where the tracker knows it.

    Args:
        name: Name of the tracker, a key of `TRACKERS`.
        run: Run to open, or to continue where the tracker knows its id.

    Returns:
        The tracker. Its methods return at once and never fail: a thread tells the tracker, and
        `InThread.problem` says what it did not take.

    Raises:
        RequestError: As `check_tracker`.
        TarmacError: It cannot be reached, or does not let this user in.
    """
    check_tracker(name)

    def opened() -> Tracker:
        if name == "wandb":
            from tarmac.trackers.wandb_run import WandbRun  # noqa: PLC0415 - takes seconds

            return WandbRun(run)
        from tarmac.trackers.mlflow_run import MlflowRun  # noqa: PLC0415 - takes seconds

        return MlflowRun(run)

    return InThread(TRACKERS[name], opened)
