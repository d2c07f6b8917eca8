"""A run at an MLflow server, by MLflow's own client."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator, Mapping

from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException

from tarmac.files import without_password
from tarmac.trackers.tracker import TrackedRun, flat

_STATUS = {"completed": "FINISHED", "interrupted": "KILLED", "failed": "FAILED"}
_RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
_RUN_ID = "tarmac.run"
# The most parameters that a server takes at once (MLflow's REST API, "Log Batch").
_MAX_PARAMS = 100


class MlflowRun:
    """A run at an MLflow server; see `Tracker`.

    Args:
        run: Run to open, or to continue where the server knows its id.

    Raises:
        MlflowException: The server cannot be reached, or refuses the run.
    """

    def __init__(self, run: TrackedRun) -> None:
        # The client prints the run's address on standard output, which --json keeps for itself.
        os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
        self._client = MlflowClient()
        self._step = 0
        with _few_retries():
            self._open(run)

    def _open(self, run: TrackedRun) -> None:
        experiment = self._experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", "tarmac"))
        runs = self._client.search_runs([experiment], f"tags.`{_RUN_ID}` = '{run.id}'")
        if runs:
            self._id = runs[0].info.run_id
            self._client.update_run(self._id, status="RUNNING")
        else:
            tags = {_RUN_ID: run.id, **run.tags}
            made = self._client.create_run(experiment, run_name=run.name, tags=tags)
            self._id = made.info.run_id
            configuration = flat(run.configuration)
            params = [Param(_allowed(name), str(value)) for name, value in configuration.items()]
            for start in range(0, len(params), _MAX_PARAMS):
                self._client.log_batch(self._id, params=params[start : start + _MAX_PARAMS])
        # The URI may have a password.
        base = without_password(self._client.tracking_uri).rstrip("/")
        self.place = f"{base}/#/experiments/{experiment}/runs/{self._id}"

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Send the metrics of a step."""
        self._step = step
        at_ms = int(time.time() * 1000)
        rows = [
            Metric(_allowed(name), float(value), at_ms, step) for name, value in metrics.items()
        ]
        self._client.log_batch(self._id, metrics=rows)

    def end(self, status: str, summary: Mapping[str, float]) -> None:
        """Send the final values and the status."""
        if summary:
            self.log(self._step, summary)
        self._client.set_terminated(self._id, _STATUS[status])

    def _experiment(self, name: str) -> str:
        experiment = self._client.get_experiment_by_name(name)
        if experiment is not None:
            return str(experiment.experiment_id)
        try:
            return str(self._client.create_experiment(name))
        except MlflowException:
            # Another run has just created it.
            experiment = self._client.get_experiment_by_name(name)
            if experiment is None:
                raise
            return str(experiment.experiment_id)


@contextlib.contextmanager
def _few_retries() -> Iterator[None]:
    """Set one retry, unless the user has set a number: the default retries for minutes.

    The start of a run should fail at once without a server; later calls have time.
    """
    if _RETRIES in os.environ:
        yield
        return
    os.environ[_RETRIES] = "1"
    try:
        yield
    finally:
        os.environ.pop(_RETRIES, None)


def _allowed(name: str) -> str:
    """Return a name with only the characters that MLflow allows."""
    return re.sub(r"[^\w\-./ :]", "_", name, flags=re.ASCII)
