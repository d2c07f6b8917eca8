"""The trackers by name, and a function that opens them."""

from __future__ import annotations

import os

from tarmac.distribution import require
from tarmac.errors import RequestError, unknown_name
from tarmac.trackers.in_thread import InThread
from tarmac.trackers.tracker import TrackedRun, Tracker

# Full names of the trackers, by their names on the command line.
TRACKERS = {"wandb": "Weights & Biases", "mlflow": "MLflow"}

MLFLOW_URI = "MLFLOW_TRACKING_URI"


def check_tracker(name: str) -> None:
    """Raise an error if a tracker could not be opened, without importing its client.

    Args:
        name: Name of the tracker, a key of `TRACKERS`.

    Raises:
        RequestError: No tracker has that name, or its address is not set.
        MissingExtraError: The tracker's client is not installed.
    """
    if name not in TRACKERS:
        raise unknown_name("tracker", name, TRACKERS)
    require(name, "--log-to")
    if name == "mlflow" and not os.environ.get(MLFLOW_URI):
        raise RequestError(
            f"{MLFLOW_URI} is not set, and nothing says where MLflow is",
            hint=f"Set it: export {MLFLOW_URI}=http://127.0.0.1:5000\n"
            "A server of your own: pip install mlflow && mlflow server --port 5000",
        )


def open_tracker(name: str, run: TrackedRun) -> InThread:
    """Open a tracker's run, or continue it where the tracker knows its id.

    Args:
        name: Name of the tracker, a key of `TRACKERS`.
        run: Run to open, or to continue where the tracker knows its id.

    Returns:
        The tracker. Its methods never raise: a thread calls the tracker, and `InThread.problem`
        reports data that the tracker did not accept. Only `InThread.end` waits.

    Raises:
        RequestError: See `check_tracker`.
        TarmacError: The tracker cannot be reached, or refuses this user.
    """
    check_tracker(name)

    def opened() -> Tracker:
        if name == "wandb":
            from tarmac.trackers.wandb_run import WandbRun  # noqa: PLC0415 - takes seconds

            return WandbRun(run)
        from tarmac.trackers.mlflow_run import MlflowRun  # noqa: PLC0415 - takes seconds

        return MlflowRun(run)

    return InThread(TRACKERS[name], opened)
