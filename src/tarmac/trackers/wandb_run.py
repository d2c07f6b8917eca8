"""A run at Weights & Biases, by its own client."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import wandb

from tarmac.errors import RequestError
from tarmac.trackers.tracker import TrackedRun, flat

# Modes that send nothing, by the values of WANDB_MODE.
_LOCAL_MODES: Mapping[str, Literal["offline", "disabled"]] = {
    "offline": "offline",
    "dryrun": "offline",
    "disabled": "disabled",
}

# The axis for steps that arrive in any order.
_NUMBER = "number"


class WandbRun:
    """A run at Weights & Biases; see `Tracker`. Its files are in ``wandb/`` of the run's directory.

    Args:
        run: Run to open, or to continue where the service knows its id.

    Raises:
        RequestError: Nobody is logged in, and WANDB_MODE sends to the server.
    """

    def __init__(self, run: TrackedRun) -> None:
        mode = _LOCAL_MODES.get(os.environ.get("WANDB_MODE", ""))
        if mode is None and not wandb.api.api_key:
            # The client would ask on the terminal while a training starts.
            raise RequestError(
                "you are not logged in to Weights & Biases",
                hint="Log in: wandb login\nOr keep it here, to be sent later: "
                "export WANDB_MODE=offline",
            )
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "tarmac"),
            id=run.id,
            name=run.name,
            resume="allow",
            dir=run.directory,
            # The mode as it is now: the client keeps the mode of its first use.
            mode=mode,
            config=flat(run.configuration),
            tags=list(run.tags.values()),
            # Only the run itself prints, and with --json standard output is reserved for that.
            settings=wandb.Settings(silent=True, console="off"),
        )
        self._is_ordered = run.is_ordered
        if not run.is_ordered:
            # The client drops a step that is less than the last one.
            self._run.define_metric("*", step_metric=_NUMBER)
        # An offline run has no URL; its place is its directory.
        url = None if self._run.offline else self._run.url
        self.place: str = url or str(Path(self._run.dir).parent)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Send the metrics of a step."""
        if self._is_ordered:
            self._run.log(dict(metrics), step=step)
        else:
            self._run.log({**metrics, _NUMBER: step})

    def end(self, status: str, summary: Mapping[str, float]) -> None:
        """Send the final values and the status."""
        self._run.summary.update({**summary, "status": status})
        self._run.finish(exit_code=0 if status == "completed" else 1)
